import { get } from "../api.js";
import { badge, choose, field, fill, h, link, mono, panel, path, table } from "../dom.js";
import { key } from "../keys.js";
import { soon } from "../live.js";
import { paged } from "../pages.js";
import { folded } from "../phone.js";
import { ago, count, ms, NO_PRICES, plural, prose, usd } from "../say.js";
import { intervention } from "../intervention.js";

export const title = "Interventions";

const DAYS = 60;
const LEAST_DAYS = 14;
const DAY_MS = 86400000;
const FILTERS = ["type", "outcome", "risk_level", "agent_id", "run_id", "action_name", "policy_id", "search", "start_date", "end_date", "min_prevented_usd", "trips_only", "high_risk"];
const TYPES = ["hard_block", "approval_required", "rate_limited", "budget_exceeded", "downgrade", "warning", "loop_detected", "budget_warning", "missing_evidence", "pii_blocked", "content_blocked", "idempotent_replay"];
const OUTCOMES = ["blocked", "escalated", "approved_after_review", "rejected_after_review", "modified", "warned"];
const RISKS = ["critical", "high", "medium", "low", "minimal"];

export async function show(main, rest, query) {
  if (rest.length) return intervention(main, rest[0]);
  const held = Object.fromEntries(FILTERS.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));

  const cards = h("div", { class: "cards" });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Quick filters" });
  const filters = h("form", { class: "row low", role: "search", onsubmit: (event) => event.preventDefault() });
  const arriving = import("../charts.js"); // the list is shown before the charts are loaded
  let charts = null;
  // Days are counted in UTC, so their names are in UTC too.
  const dayOf = (at) => new Date(at).toLocaleDateString(undefined, { timeZone: "UTC", weekday: "short", month: "short", day: "numeric" });
  let byDay = null;
  const dayPlace = h("div");
  dayPlace.style.minHeight = "246px"; // so that the content below does not move
  const blocked = h("div");
  const byAgent = h("div");
  const noDays = h("div");
  const sums = h("div", { class: "stack" }, panel("By day and level", noDays, dayPlace), h("div", { class: "cols even" }, panel("Most blocked actions", blocked), panel("By agent and level", byAgent)));
  const list = table(
    [
      { head: "When", class: "tight", cell: ({ of }) => ago(of.timestamp) },
      { head: "Type", class: "tight", cell: ({ of }) => badge(of.type) },
      { head: "Outcome", class: "tight", cell: ({ of }) => badge(of.outcome) },
      { head: "Risk", class: "tight", cell: ({ of }) => badge(of.risk_level) },
      { head: "Action", class: "id", cell: ({ of }) => link(path("interventions", of.id), mono(of.action_name || "(none)")) },
      { head: "Agent", class: "id", cell: ({ of }) => of.agent_id },
      { head: "Session", class: "id", cell: ({ of }) => link(path("sessions", of.run_id), mono(of.run_id)) },
      { head: "Rule", cell: ({ of }) => of.policy_id },
      { head: "Prevented", class: "num", cell: ({ of }) => (of.cost_prevented_usd ? usd(of.cost_prevented_usd) : "") },
      { head: "Why", class: "wide", cell: ({ of }) => h("span", { class: "clamp", title: of.reason }, prose(of.reason)) },
    ],
    { caption: "Interventions, the newest first", onopen: ({ of }) => location.assign(path("interventions", of.id)) },
  );
  const rows = paged("interventions", {
    query,
    filters: () => ({ ...held }),
    table: list,
    keyOf: (of) => of.id,
    unmatched: ["No interventions match.", "Clear a filter, or choose another time."],
    unfilled: ["No interventions yet.", "haltline has not stopped or warned any agent."],
    beside: async (asked) => {
      // The cards count the matches of the other filters, so that each can be changed.
      const { outcome: _outcome, high_risk: _high, min_prevented_usd: _prevented, ...others } = asked;
      const [broken, stats, module] = await Promise.all([get("/api/v1/interventions/breakdown", asked), get("/api/v1/interventions/stats", others), arriving]);
      return () => {
        charts = module;
        drawCards(stats);
        drawChips(stats.top_triggering_policies);
        drawSums(stats);
        drawBreakdown(broken);
      };
    },
  });
  fill(main, h("div", { class: "head" }, h("h1", {}, "Interventions")), rows.failed, cards, panel(null, h("div", { class: "stack" }, chips, folded(filters))), sums, panel(null, rows.none, list, rows.pages));

  const set = (changes) => {
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null) delete held[name];
      else held[name] = value;
    }
    drawFilters();
    return rows.restart();
  };
  const drawFilters = () => {
    const text = (name, label, more) =>
      field(label, h("input", { type: more?.type ?? "text", value: held[name] ?? "", placeholder: more?.placeholder, size: "14", name, onchange: (event) => set({ [name]: event.target.value.trim() }) }));
    const pick = (name, label, all) => field(label, choose([["", "any"], ...all.map((value) => [value, value])], held[name], { name, onchange: (event) => set({ [name]: event.target.value }) }));
    const active = document.activeElement?.name;
    const day = (name, label) => field(label, h("input", { type: "date", name, value: (held[name] ?? "").slice(0, 10), onchange: (event) => set({ [name]: event.target.value && event.target.value + (name === "end_date" ? "T23:59:59Z" : "T00:00:00Z") }) }));
    fill(
      filters,
      h("div", { class: "field grow" }, h("label", { for: "search" }, "Search"), h("input", { id: "search", type: "search", name: "search", value: held.search ?? "", maxlength: "200", placeholder: "action, reason, id", onchange: (event) => set({ search: event.target.value.trim() }) })),
      pick("type", "Type", TYPES),
      pick("outcome", "Outcome", OUTCOMES),
      pick("risk_level", "Risk", RISKS),
      text("action_name", "Action"),
      text("policy_id", "Rule"),
      text("agent_id", "Agent"),
      text("run_id", "Session"),
      day("start_date", "From"),
      day("end_date", "To"),
      h("button", { type: "button", onclick: () => set(Object.fromEntries(FILTERS.map((name) => [name, ""]))) }, "Clear"),
    );
    if (active) filters.querySelector(`[name="${CSS.escape(active)}"]`)?.focus();
  };
  const drawChips = (policies) => {
    const day = () => new Date(Date.now() - 86400000).toISOString();
    const chip = (text, on, changes, off) => h("button", { type: "button", "aria-pressed": String(on), onclick: () => set(on ? off : changes) }, text);
    fill(
      chips,
      chip("Critical", held.risk_level === "critical", { risk_level: "critical" }, { risk_level: "" }),
      chip("> $100 prevented", held.min_prevented_usd === "100", { min_prevented_usd: "100" }, { min_prevented_usd: "" }),
      chip("Last 24 h", Boolean(held.start_date) && !held.start_date.includes("T00:00:00Z"), { start_date: day(), end_date: "" }, { start_date: "" }),
      policies.slice(0, 5).map((policy) => chip(`${policy.policy_id || policy.policy_name || "(none)"}: ${count(policy.count)}`, held.policy_id === policy.policy_id, { policy_id: policy.policy_id }, { policy_id: "" })),
    );
  };
  const drawCards = (stats) => {
    const all = (names) => names.reduce((sum, name) => sum + (stats.by_outcome[name] ?? 0), 0);
    const card = (number, text, changes, kind) => {
      const on = Object.entries(changes).length > 0 && Object.entries(changes).every(([name, value]) => held[name] === value);
      const clear = { outcome: "", high_risk: "", min_prevented_usd: "" };
      return h("button", { type: "button", class: `card ${kind ?? ""}`, "aria-pressed": String(on), onclick: () => set(on ? clear : { ...clear, ...changes }) }, h("strong", {}, number), h("span", {}, text));
    };
    const isPriced = stats.cost_prevented_usd > 0 || !all(["blocked"]);
    fill(
      cards,
      card(count(stats.total_interventions), "total", {}),
      card(count(all(["blocked"])), "blocked", { outcome: "blocked" }, "bad"),
      card(isPriced ? usd(stats.cost_prevented_usd) : "\u2013", isPriced ? "cost saved" : `cost saved: ${NO_PRICES}`, { min_prevented_usd: "0" }),
      card(count(all(["escalated"])), "escalations", { outcome: "escalated" }),
      card(count(stats.high_risk_blocks), "high-risk blocks", { high_risk: "true" }, stats.high_risk_blocks ? "bad" : ""),
      card(count(all(["modified"])), "modified", { outcome: "modified" }),
    );
  };
  // A link to the same page with one more filter.
  const narrowed = (changes) => `?${new URLSearchParams({ ...held, ...changes })}`;
  const drawSums = ({ top_blocked_actions: actions }) =>
    fill(
      blocked,
      actions.length
        ? charts.topBars(
            actions.map((one) => ({ name: one.action_name, value: one.count, href: narrowed({ action_name: one.action_name, outcome: "blocked" }), text: `${count(one.count)}${one.cost_prevented_usd ? `, ${usd(one.cost_prevented_usd)} prevented` : ""}` })),
            "Actions that were blocked the most",
          )
        : h("p", { class: "dim" }, "No action was blocked."),
    );
  const drawBreakdown = ({ by_day: days, by_agent: agents, agents: total }) => {
    sums.hidden = !days.length;
    if (!days.length) return;
    if (!byDay) {
      byDay = charts.timeChart({ label: "Interventions by day and level", tableHead: "Day (UTC)", labelOf: dayOf });
      fill(dayPlace, byDay);
    }
    const levels = [...new Set([...days, ...agents].flatMap((one) => Object.keys(one.levels)))].sort(charts.levelOrder);
    const last = ms(days.at(-1).date);
    const first = Math.max(Math.min(ms(days[0].date), last - (LEAST_DAYS - 1) * DAY_MS), last - (DAYS - 1) * DAY_MS);
    const times = Array.from({ length: Math.round((last - first) / DAY_MS) + 1 }, (_, number) => first + number * DAY_MS);
    const known = new Map(days.map((one) => [ms(one.date), one.levels]));
    const sumOf = (of) => Object.values(of ?? {}).reduce((sum, one) => sum + one, 0);
    const all = times.map((at) => sumOf(known.get(at)));
    const most = Math.max(...all);
    fill(noDays, ms(days[0].date) < first && h("p", { class: "hint" }, `The last ${DAYS} days; there are interventions since ${days[0].date}. Days are in UTC.`));
    byDay.update({
      times,
      step: DAY_MS,
      utc: true,
      series: levels.map((level) => ({ label: charts.levelName(level), colour: charts.levelColour(level), kind: "stack", values: times.map((at) => known.get(at)?.[level] ?? 0) })).filter((one) => one.values.some(Boolean)),
      summary: `${plural(all.reduce((sum, one) => sum + one, 0), "intervention")} from ${dayOf(first)} to ${dayOf(last)}, at most ${count(most)} in a day, on ${dayOf(times[all.indexOf(most)])}.`,
    });
    fill(byAgent, heat(agents, levels), total > agents.length && h("p", { class: "hint" }, `The ${count(agents.length)} agents with the most of ${count(total)}.`));
  };
  const heat = (agents, levels) => {
    const top = Math.max(1, ...agents.flatMap((one) => Object.values(one.levels)));
    const cell = (agent, level) => {
      const number = agent.levels[level] ?? 0;
      const made = h("td", { class: number ? "cell" : "zero" }, count(number));
      made.style.setProperty("--cell", `var(${charts.levelColour(level)})`);
      made.style.setProperty("--share", `${Math.round(12 + (38 * number) / top)}%`);
      return made;
    };
    return h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Interventions by agent and level" },
      h(
        "table",
        { class: "heat" },
        h("caption", { class: "hidden" }, "Interventions by agent and level"),
        h("tr", {}, h("th", { scope: "col" }, "Agent"), levels.map((level) => h("th", { scope: "col", class: "num" }, charts.levelName(level))), h("th", { scope: "col", class: "num" }, "All")),
        agents.map((one) => h("tr", {}, h("th", { scope: "row", title: one.agent_id }, link(narrowed({ agent_id: one.agent_id }), one.agent_id)), levels.map((level) => cell(one, level)), h("td", {}, count(one.count)))),
      ),
    );
  };
  drawFilters();
  key("c", "only critical", () => set({ risk_level: held.risk_level === "critical" ? "" : "critical" }));
  await rows.refresh();
  const again = soon(rows.refresh);
  return (what) => {
    if (what !== "activity" && rows.isFirst()) again();
  };
}
