import { badge, choose, field, fill, h, link, mono, panel, path, table } from "../dom.js";
import { soon } from "../live.js";
import { paged } from "../pages.js";
import { folded } from "../phone.js";
import { ago, count, usd } from "../say.js";
import { state } from "./fleet.js";
import { story } from "../story.js";

export const title = "Sessions";

const LEVELS = ["NUDGE", "REINFORCE", "THROTTLE", "PAUSE", "BLOCK", "ROLLBACK", "KILL"];

export async function show(main, rest, query) {
  if (rest.length) return story(main, rest[0], query);
  const held = Object.fromEntries(["search", "level", "state", "agent_id", "mission_id"].map((name) => [name, query.get(name) ?? ""]));
  const set = (name) => (event) => {
    held[name] = event.target.value.trim();
    return rows.restart();
  };
  const list = table(
    [
      { head: "Session", class: "id", cell: ({ of }) => link(path("sessions", of.session_id), mono(of.session_id)) },
      { head: "Agent", class: "id", cell: ({ of }) => of.agent_id },
      { head: "Mission", class: "id", cell: ({ of }) => of.mission_id ?? "" },
      { head: "State", class: "tight", cell: ({ of }) => state(of) },
      { head: "Highest level", class: "tight", cell: ({ of }) => [badge(of.level), of.asks > 0 && badge("ASK")] },
      { head: "Events", class: "num", cell: ({ of }) => count(of.events) },
      { head: "Trips", class: "num", cell: ({ of }) => count(of.interventions) },
      { head: "Cost", class: "num", cell: ({ of }) => usd(of.cost_usd) },
      { head: "Last event", class: "tight", cell: ({ of }) => ago(of.last) },
      { head: "Goal", class: "wide", cell: ({ of }) => h("span", { class: "clamp", title: of.goal }, of.goal) },
    ],
    { caption: "Sessions, the last active first", onopen: ({ of }) => location.assign(path("sessions", of.session_id)) },
  );
  const rows = paged("sessions", {
    query,
    filters: () => Object.fromEntries(Object.entries(held).filter(([, value]) => value)),
    table: list,
    keyOf: (of) => of.session_id,
    unmatched: ["No sessions match.", "Clear a filter, or search for a part of the id or the goal."],
    unfilled: ["No sessions yet.", "They appear as soon as an agent publishes its first event."],
  });
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Sessions")),
    rows.failed,
    panel(
      null,
      folded(h(
        "form",
        { class: "row low", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field grow" }, h("label", { for: "search" }, "Search"), h("input", { id: "search", type: "search", value: held.search, maxlength: "200", placeholder: "id or goal", onchange: set("search") })),
        field("Agent", h("input", { type: "text", value: held.agent_id, size: "16", onchange: set("agent_id") })),
        field("Mission", h("input", { type: "text", value: held.mission_id, size: "16", onchange: set("mission_id") })),
        field("Minimum level", choose([["", "any level"], ...LEVELS.map((level) => [level, level])], held.level, { onchange: set("level") })),
        field("State", choose([["", "any"], ...["killed", "frozen", "contained", "probation"].map((one) => [one, one])], held.state, { onchange: set("state") })),
      )),
    ),
    panel(null, rows.none, list, rows.pages),
  );
  await rows.refresh();
  const again = soon(rows.refresh, 1000);
  return () => {
    if (rows.isFirst()) again();
  };
}
