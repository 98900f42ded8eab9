import { get } from "../api.js";
import { badge, bars, choose, empty, field, fill, h, link, mono, panel, path, problem, table } from "../dom.js";
import { key } from "../keys.js";
import { latest, soon } from "../live.js";
import { folded } from "../phone.js";
import { ago, count, NO_PRICES, plural, prose, usd } from "../say.js";
import { intervention } from "./intervention.js";

export const title = "Interventions";

const PAGE = 50;
const DAYS = 30;
const FILTERS = ["type", "outcome", "risk_level", "agent_id", "run_id", "action_name", "policy_id", "search", "start_date", "end_date", "min_prevented_usd", "trips_only", "high_risk"];
const TYPES = ["hard_block", "approval_required", "rate_limited", "budget_exceeded", "downgrade", "warning", "loop_detected", "budget_warning", "missing_evidence", "pii_blocked", "content_blocked", "idempotent_replay"];
const OUTCOMES = ["blocked", "escalated", "approved_after_review", "rejected_after_review", "modified", "warned"];
const RISKS = ["critical", "high", "medium", "low", "minimal"];

export async function show(main, rest, query) {
  if (rest.length) return intervention(main, rest[0]);
  const held = Object.fromEntries(FILTERS.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  let skip = Number(query.get("skip")) || 0;

  const cards = h("div", { class: "cards" });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Quick filters" });
  const filters = h("form", { class: "row low", role: "search", onsubmit: (event) => event.preventDefault() });
  const none = h("div");
  const failed = h("div");
  const pages = h("div", { class: "row" });
  const sums = h("div", { class: "cols even" });
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
  fill(main, h("div", { class: "head" }, h("h1", {}, "Interventions")), failed, cards, panel(null, h("div", { class: "stack" }, chips, folded(filters))), sums, panel(null, none, list, pages));

  const set = (changes) => {
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null) delete held[name];
      else held[name] = value;
    }
    skip = 0;
    drawFilters();
    return refresh();
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
  const drawSums = ({ time_series: days, top_blocked_actions: blocked }) => {
    const last = days.slice(-DAYS);
    const label = (day) => `${day.date}: ${plural(day.interventions, "intervention")}${day.cost_prevented_usd ? `, ${usd(day.cost_prevented_usd)} prevented` : ""}`;
    fill(
      sums,
      last.length > 0 && panel("By day", bars(last.map((day) => [day.interventions, label(day)]), last.map(label).join("; ")), h("p", { class: "hint" }, last.length === 1 ? last[0].date : `The last ${plural(last.length, "day")} with interventions: ${last[0].date} to ${last.at(-1).date}.`)),
      blocked.length > 0 &&
        panel(
          "Most blocked actions",
          blocked.slice(0, 3).map((one) => h("div", { class: "counted" }, h("button", { type: "button", class: "quiet mono", title: one.action_name, onclick: () => set({ action_name: one.action_name }) }, one.action_name), h("span", { class: "dim" }, `${count(one.count)}${one.cost_prevented_usd ? `, ${usd(one.cost_prevented_usd)} prevented` : ""}`))),
        ),
    );
  };
  const turn = latest();
  const refresh = async () => {
    const isLast = turn();
    const asked = { ...held };
    const shown = new URLSearchParams({ ...held, ...(skip ? { skip } : {}) }).toString();
    history.replaceState(null, "", shown ? `?${shown}` : location.pathname);
    try {
      // The cards count what the other filters leave, so that they stay there to be changed.
      const { outcome: _outcome, high_risk: _high, min_prevented_usd: _prevented, ...others } = asked;
      const counting = get("/api/v1/interventions/stats", others); // takes longer where a search finds much
      counting.catch(() => {}); // reported below
      const found = await get("/api/v1/interventions", { ...asked, skip, limit: PAGE });
      if (!isLast()) return;
      fill(failed);
      list.hidden = !found.interventions.length;
      fill(none, !found.interventions.length && (Object.keys(held).length ? empty("No interventions match.", "Clear a filter, or choose another time.") : empty("No interventions yet.", "haltline has not stopped or warned any agent.")));
      list.update(found.interventions.map((of) => ({ key: of.id, of })));
      const go = (to) => () => {
        skip = to;
        return refresh();
      };
      fill(
        pages,
        found.total > 0 && h("span", { class: "dim" }, `${count(found.skip + 1)} to ${count(found.skip + found.interventions.length)} of ${count(found.total)}${found.more ? "+" : ""}`),
        found.skip > 0 && h("button", { type: "button", onclick: go(Math.max(0, skip - PAGE)) }, "Newer"),
        found.skip + PAGE < found.total && h("button", { type: "button", onclick: go(skip + PAGE) }, "Older"),
      );
      const stats = await counting;
      if (!isLast()) return;
      drawCards(stats);
      drawChips(stats.top_triggering_policies);
      drawSums(stats);
    } catch (error) {
      fill(failed, problem(error, refresh));
    }
  };
  drawFilters();
  key("c", "only critical", () => set({ risk_level: held.risk_level === "critical" ? "" : "critical" }));
  await refresh();
  const again = soon(refresh);
  return (what) => {
    if (what !== "activity" && skip === 0) again();
  };
}
