import { button, mutes, unmute } from "../acts.js";
import { get, may, post } from "../api.js";
import { ask, choose, fill, h, link, mono, panel, problem, tell, why } from "../dom.js";
import { moment } from "../say.js";

export const title = "Policies";

export async function show(main, _rest, query) {
  const [standing, schema, audit] = await Promise.all([get("/api/v1/policy", { name: query.get("name") }), get("/api/v1/policies/schema"), get("/api/v1/audit")]);
  const area = h("textarea", { id: "document", class: "code", spellcheck: "false", "aria-describedby": "checked", value: standing.document });
  const checked = h("div", { id: "checked", role: "status" });
  const help = h("div", { class: "tree boxed", tabindex: "0", role: "region", "aria-label": "Rules and their settings" });
  const filter = h("input", { type: "search", placeholder: "rule or setting", "aria-label": "Find a setting", oninput: () => draw() });
  const draw = (open) => {
    const text = filter.value.trim().toLowerCase();
    fill(
      help,
      Object.entries(schema.properties.rules.properties)
        .filter(([name, of]) => !text || name.includes(text) || Object.keys(of.properties.settings.properties ?? {}).some((one) => one.includes(text)))
        .map(([name, of]) =>
          h(
            "details",
            { open: name === open || (text.length > 2 && true), data: { rule: name } },
            h("summary", {}, mono(name), h("span", { class: "dim" }, ` ${of.description ?? ""}`)),
            h("p", { class: "setting" }, mono("mode"), `: ${of.properties.mode.description} `, h("span", { class: "dim" }, `Default ${of.properties.mode.default}.`)),
            h("p", { class: "setting" }, mono("levels"), `: ${of.properties.levels.description}`),
            Object.entries(of.properties.settings.properties ?? {}).map(([setting_, one]) =>
              h("p", { class: "setting" }, mono(setting_), h("span", { class: "dim" }, ` ${[one.type, bounds(one)].filter(Boolean).join(" ")}${one.type ? ", " : ""}default ${JSON.stringify(one.default)}${one["x-unit"] ? ` ${one["x-unit"]}` : ""}. `), one.description ?? "", h("span", { class: "dim" }, ` ${stricter(one)}`)),
            ),
          ),
        ),
    );
  };
  const muted = panel(null);
  muted.hidden = true;
  const show_ = (name) => {
    filter.value = "";
    draw(name);
    const of = help.querySelector("details[open]");
    if (of) help.scrollTop = of.offsetTop - help.offsetTop;
  };

  fill(
    main,
    h(
      "div",
      { class: "head" },
      h("h1", {}, "Policies"),
      standing.names.length > 1 && choose(standing.names.map((name) => [name, name]), standing.name, { "aria-label": "Policy", onchange: (event) => location.assign(`/policies?name=${encodeURIComponent(event.target.value)}`) }),
      h("span", { class: "dim" }, standing.by === null ? "No policy is published under this name: every worker without a file uses the defaults." : [`${standing.name}, version ${standing.version}, by ${standing.by} at `, moment(standing.time), `: ${standing.reason}`]),
    ),
    h(
      "div",
      { class: "cols even" },
      h(
        "div",
        { class: "stack" },
        panel(
          h("label", { for: "document" }, "Document"),
          area,
          checked,
          h(
            "div",
            { class: "row" },
            h("button", { type: "button", onclick: () => check() }, "Check"),
            may("change") && h("button", { type: "button", class: "primary", onclick: () => publish() }, "Publish"),
          ),
          !may("change") && h("p", { class: "hint" }, "Publishing takes the role admin."),
        ),
      ),
      h("div", { class: "stack" }, muted, panel("Syntax", filter, help), panel("Try it on history", ...trial(standing, audit.table ? "audit" : "kafka"))),
    ),
  );

  let checks = 0;
  const check = async () => {
    const number = (checks += 1); // the answer to an older text is ignored
    try {
      const reply = await post("/api/v1/policies/check", { document: area.value });
      if (number !== checks) return false;
      fill(checked, h("p", { class: "well" }, "The document is valid."), reply.in_vain.map((line) => h("p", { class: "notice" }, line)));
      return true;
    } catch (error) {
      if (number === checks) fill(checked, problem(error));
      return false;
    }
  };
  const publish = async () => {
    if (!(await check())) return;
    const reply = await ask({ title: "Publish this policy", text: h("p", {}, "It takes effect in every worker that follows this policy name, without a restart."), action: "Publish", danger: true, fields: [why()] });
    if (!reply) return;
    try {
      const done = await post("/api/v1/policies", { document: area.value, reason: reply.reason });
      tell(`Policy ${done.name}, version ${done.version}, is in force.`);
      fill(checked, h("p", { class: "well" }, `Published: ${done.name}, version ${done.version}.`));
    } catch (error) {
      fill(checked, problem(error));
    }
  };
  show_(query.get("rule") ?? "destructive_volume");
  const drawMuted = async () => {
    const all = await mutes().catch(() => []);
    muted.hidden = all.length === 0;
    fill(muted, h("h2", {}, "Muted"), all.map((one) => h("p", {}, mono(one.rule), " for agent ", link(`/interventions?agent_id=${encodeURIComponent(one.agent)}`, one.agent), " until ", moment(one.until), `, by ${one.by}: ${one.reason} `, may("act") && button("Unmute", () => unmute(one, drawMuted)))));
  };
  await drawMuted();
}

// The commands that run past sessions under the document and under the policy in force, and print those that differ.
function trial({ name, by }, source) {
  const lines = [
    by === null ? `echo 'name: ${name}' > current.yaml` : `haltline policy show '${name}' > current.yaml`,
    `haltline backtest ${source} --from -7d --policy new.yaml --against current.yaml`,
  ];
  return [
    h("p", { class: "hint" }, "With the document in a file new.yaml, these print which past sessions would have been stopped otherwise, and precision by labels. The policy in force does not change."),
    h("div", { id: "trial" }, lines.map((line) => h("p", {}, mono(line)))),
  ];
}

function bounds(one) {
  const low = one.minimum ?? one.exclusiveMinimum;
  if (low === undefined && one.maximum === undefined) return "";
  return `${one.exclusiveMinimum !== undefined ? "above " : "from "}${low ?? "any"} to ${one.maximum ?? one.exclusiveMaximum ?? "any"}`;
}

const stricter = (one) => (one["x-stricter"] === "lower" ? "Lower is stricter." : one["x-stricter"] === "higher" ? "Higher is stricter." : "");
