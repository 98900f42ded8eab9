// The API's own description, without external resources.
import { get } from "../api.js";
import { badge, fill, h, json, link, mono, panel } from "../dom.js";

export const title = "API";

export async function show(main) {
  const reply = await get("/openapi.json");
  const groups = new Map();
  for (const [path, methods] of Object.entries(reply.paths))
    for (const [method, one] of Object.entries(methods)) {
      const tag = one.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), { path, method: method.toUpperCase(), one }]);
    }
  const schema = (of) => (of?.$ref ? (reply.components?.schemas?.[of.$ref.split("/").pop()] ?? of) : of);
  const body = (content) => Object.values(content ?? {}).map((of) => [of.example !== undefined && json(of.example), of.schema && h("details", {}, h("summary", {}, "Schema"), json(schema(of.schema)))]);
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "API"), h("span", { class: "dim" }, "Authorization: Bearer and a key; the same with a browser's session. ", link("/openapi.json", "OpenAPI"))),
    [...groups].map(([tag, routes]) =>
      panel(
        tag,
        h(
          "div",
          { class: "tree" },
          routes.map(({ path, method, one }) =>
            h(
              "details",
              {},
              h("summary", {}, badge(method, method === "GET" ? "good" : method === "DELETE" ? "bad" : "warn"), " ", mono(path), h("span", { class: "dim" }, ` ${one.summary ?? ""}`)),
              h("p", {}, one.description ?? ""),
              (one.parameters ?? []).map((parameter) => h("p", { class: "setting" }, mono(parameter.name), h("span", { class: "dim" }, ` in ${parameter.in}${parameter.required ? ", required" : ""}. `), parameter.description ?? "")),
              one.requestBody && [h("h3", {}, "Body"), body(one.requestBody.content)],
              Object.entries(one.responses ?? {}).map(([status, answer]) => h("details", {}, h("summary", {}, `${status} ${answer.description ?? ""}`), body(answer.content))),
            ),
          ),
        ),
      ),
    ),
  );
}
