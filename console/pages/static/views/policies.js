import { get, may, post } from "../api.js";
import { ask, badge, choose, empty, facts, field, fill, h, link, loading, mono, panel, path, problem, table, tell, why } from "../dom.js";
import { key } from "../keys.js";
import { count, moment, plural, usd } from "../say.js";

export const title = "Policies";

const TIMES = [["86400", "last 24 h"], ["604800", "last 7 days"], ["2592000", "last 30 days"], ["31622400", "last year"]];
const CHANGES = { appears: ["now stopped", "bad"], vanishes: ["no longer stopped", "good"], moves: ["stopped differently", "mild"] };

// The difference as a text and a kind of badge: if neither policy stops the session, the asks, or else the advice.
function changed({ change, before, after }) {
  if (before.first || after.first) return CHANGES[change];
  if (before.asks > 0 === after.asks > 0) return ["advised differently", "mild"];
  return after.asks > 0 ? ["now asked", "warn"] : ["no longer asked", "good"];
}

export async function show(main, _rest, query) {
  const [standing, schema, audit] = await Promise.all([get("/api/v1/policy", { name: query.get("name") }), get("/api/v1/policies/schema"), get("/api/v1/audit")]);
  const rules = rulesOf(schema);
  const area = h("textarea", { id: "document", class: "code", spellcheck: "false", "aria-describedby": "checked", value: standing.document });
  const checked = h("div", { id: "checked", role: "status" });
  const result = h("div", { id: "result" });
  const source = choose([["read_model", "recent records in Kafka"], ...(audit.table ? [["audit", "the audit table"]] : [])], "", { "aria-label": "History" });
  const since = choose(TIMES, "604800", { "aria-label": "Time" });

  // Change one threshold.
  const rule = choose(Object.keys(rules).filter((name) => Object.keys(numbers(rules[name])).length).map((name) => [name, name]), query.get("rule") in rules ? query.get("rule") : "destructive_volume", { id: "rule" });
  const setting = h("select", { id: "setting" });
  const value = h("input", { id: "value", type: "number", step: "any" });
  const slider = h("input", { type: "range", "aria-label": "Value", step: "any" });
  const about = h("p", { class: "hint" });
  const now = () => {
    const of = rules[rule.value]?.[setting.value];
    const reply = new RegExp(`(?:^|\\n) {2}${rule.value}:[\\s\\S]*?\\n? *${setting.value}: *([0-9.]+)`).exec(area.value);
    return reply ? Number(reply[1]) : of?.default;
  };
  const pickRule = () => {
    fill(setting, Object.keys(numbers(rules[rule.value])).map((name) => h("option", { value: name }, name)));
    pickSetting();
    show_(rule.value);
  };
  const pickSetting = () => {
    const of = rules[rule.value][setting.value];
    const held = now();
    const low = of.minimum ?? (of.exclusiveMinimum !== undefined ? of.exclusiveMinimum : 0);
    slider.min = low;
    slider.max = Math.min(of.maximum ?? Infinity, Math.max(held * 4, low + 10));
    slider.step = value.step = of.type === "integer" ? "1" : "any";
    slider.value = value.value = held;
    fill(about, `${of.description ?? ""} In force: ${held}${of["x-unit"] ? ` ${of["x-unit"]}` : ""}. ${stricter(of)}`);
  };

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
          "Change a threshold",
          h("div", { class: "row low" }, field("Rule", rule), field("Setting", setting), field("Value", value)),
          slider,
          about,
          h("div", { class: "row" }, h("button", { type: "button", class: "primary", id: "try", onclick: () => attempt(true) }, "Try it on history"), since, source),
        ),
        panel(
          h("label", { for: "document" }, "Document"),
          area,
          checked,
          h(
            "div",
            { class: "row" },
            h("button", { type: "button", onclick: () => check() }, "Check"),
            h("button", { type: "button", onclick: () => attempt(false) }, "Try the document on history"),
            may("change") && h("button", { type: "button", class: "primary", onclick: () => publish() }, "Publish"),
          ),
          !may("change") && h("p", { class: "hint" }, "Publishing takes the role admin."),
        ),
      ),
      h("div", { class: "stack" }, panel("What would have been different", result), panel("Syntax", filter, help)),
    ),
  );
  fill(result, empty("No change was tried yet.", "Change a threshold or the document, and see which past sessions would have tripped. The policy in force does not change."));

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
  const attempt = async (moved) => {
    const asked = { document: area.value, since_s: Number(since.value), source: source.value };
    if (moved) {
      if (value.value === "") return fill(result, h("p", { class: "problem", role: "alert" }, "Value: expected a number, got none."));
      asked.move = { rule: rule.value, setting: setting.value, value: Number(value.value) };
    }
    fill(result, loading("Trying it on past sessions"));
    try {
      const reply = await post("/api/v1/policy/what-if", asked);
      fill(result, answer(reply, moved ? `${rule.value}.${setting.value} = ${value.value}` : "the document", moved && take(reply.document)));
    } catch (error) {
      fill(result, problem(error));
    }
  };
  const take = (document_) => () => {
    area.value = document_;
    check();
    area.focus();
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
  rule.addEventListener("change", pickRule);
  setting.addEventListener("change", pickSetting);
  slider.addEventListener("input", () => (value.value = slider.value));
  value.addEventListener("input", () => (slider.value = value.value));
  pickRule();
  key("w", "try it on history", () => attempt(true));
}

function rulesOf(schema) {
  return Object.fromEntries(Object.entries(schema.properties.rules.properties).map(([name, of]) => [name, of.properties.settings.properties ?? {}]));
}

const numbers = (settings) => Object.fromEntries(Object.entries(settings).filter(([, one]) => one.type === "integer" || one.type === "number"));

function bounds(one) {
  const low = one.minimum ?? one.exclusiveMinimum;
  if (low === undefined && one.maximum === undefined) return "";
  return `${one.exclusiveMinimum !== undefined ? "above " : "from "}${low ?? "any"} to ${one.maximum ?? one.exclusiveMaximum ?? "any"}`;
}

const stricter = (one) => (one["x-stricter"] === "lower" ? "Lower is stricter." : one["x-stricter"] === "higher" ? "Higher is stricter." : "");

function answer(reply, what, take) {
  if (!reply.sessions) return empty("No sessions in this time.", "Choose a longer time, or the audit table.");
  const { before, after } = reply;
  const beside = (name, one, other, text = count) => [name, one === other ? text(one) : [h("span", { class: "dim" }, `${text(one)} now, `), h("strong", {}, `${text(other)} after the change`)]];
  const share = (value) => (value === null || value === undefined ? "not known" : `${Math.round(value * 100)} %`);
  const list = table(
    [
      { head: "Session", class: "id", cell: ({ of }) => link(path("sessions", of.session_id), mono(of.session_id)) },
      { head: "", class: "tight", cell: ({ of }) => badge(...changed(of)) },
      { head: "In force", class: "id", cell: ({ of }) => fate(of.before) },
      { head: "After the change", class: "id", cell: ({ of }) => fate(of.after) },
      ...(reply.changed.some((of) => of.label) ? [{ head: "Label", class: "tight", cell: ({ of }) => of.label && badge(of.label) }] : []),
    ],
    { caption: "Sessions that differ" },
  );
  list.update(reply.changed.map((of) => ({ key: of.session_id, of })));
  return [
    h("p", { id: "tried" }, h("strong", {}, what), ` on ${plural(reply.sessions, "session")}${reply.of > reply.sessions ? `, the latest of ${count(reply.of)}` : ""}: ${plural(reply.changed.length, "session differs", "sessions differ")}.`),
    facts([
      beside("Stopped", before.stopped, after.stopped),
      beside("Asked a person", before.asks, after.asks),
      beside("Received advice", before.nudged, after.nudged),
      before.cost_after_stop_usd + after.cost_after_stop_usd > 0 && beside("Spent after the stop", before.cost_after_stop_usd, after.cost_after_stop_usd, usd),
      before.quality && beside("Precision by labels", before.quality.precision, after.quality?.precision ?? null, share),
      before.quality && beside("Recall by labels", before.quality.recall, after.quality?.recall ?? null, share),
    ].filter(Boolean)),
    reply.changed.length > 0 && list,
    take && h("div", { class: "row end" }, h("button", { type: "button", onclick: take }, "Apply to the document")),
  ];
}

const fate = (of) => [badge(of.level), of.asks > 0 && badge("ASK"), of.first && [" ", h("span", { class: "dim" }, `${of.first.rule} at event ${of.first.seq + 1}`)]];
