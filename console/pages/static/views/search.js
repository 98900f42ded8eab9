import { get } from "../api.js";
import { titled } from "../attention.js";
import { empty, fill, h, link, mono, panel, problem, table } from "../dom.js";
import { KINDS } from "../find.js";
import { latest } from "../live.js";
import { ago } from "../say.js";

export const title = "Search";

const SHOWN = 50;

export async function show(main, _rest, query) {
  const input = h("input", { id: "q", name: "q", type: "search", value: query.get("q") ?? "", maxlength: "200" });
  const result = h("div", { class: "stack" });
  const turn = latest();
  const look = async () => {
    const isLast = turn();
    const q = input.value.trim();
    history.replaceState(null, "", q ? `?q=${encodeURIComponent(q)}` : location.pathname);
    if (q) titled(q, title);
    else titled(title);
    if (!q) return fill(result, empty("Enter a part of an id, a name, a goal or a reason.", "Sessions, agents, targets, tools, incidents and interventions are searched."));
    try {
      const { groups } = await get("/api/v1/search", { q, limit: SHOWN });
      if (!isLast()) return;
      fill(result, groups.length ? groups.map((group) => of(group, q)) : empty(`Nothing matches "${q}".`, "Check the spelling, or search for a shorter part of it."));
    } catch (error) {
      fill(result, problem(error, look));
    }
  };
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Search")),
    panel(null, h("form", { class: "row low", role: "search", "aria-label": "All results", onsubmit: (event) => { event.preventDefault(); look(); } }, h("div", { class: "field grow" }, h("label", { for: "q" }, "Search for"), input), h("button", { type: "submit" }, "Search"))),
    result,
  );
  await look();
}

function of({ kind, results, more }, q) {
  const list = table(
    [
      { head: "Id", class: "id", cell: ({ of: one }) => link(one.path, mono(one.id)) },
      { head: "About", class: "wide", cell: ({ of: one }) => (kind === "target" ? ["interventions, or ", link(`/sessions?search=${encodeURIComponent(one.id)}`, "sessions"), " with this target"] : one.text) },
      { head: "Last seen", class: "tight", cell: ({ of: one }) => ago(one.time) },
    ],
    { caption: KINDS[kind] },
  );
  list.update(results.map((one) => ({ key: one.path, of: one })));
  const lists = { session: "sessions", intervention: "interventions" };
  return panel(KINDS[kind], list, more && h("p", { class: "hint" }, `The best ${results.length}. `, kind in lists ? link(`/${lists[kind]}?search=${encodeURIComponent(q)}`, "All in the list, with filters") : "Search for a longer part to see others."));
}
