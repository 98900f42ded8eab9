import { get } from "../api.js";
import { badge, choose, empty, field, fill, h, link, mono, panel, path, problem, table } from "../dom.js";
import { latest, soon } from "../live.js";
import { folded } from "../phone.js";
import { ago, count, pager, usd } from "../say.js";
import { state } from "./fleet.js";
import { story } from "../story.js";

export const title = "Sessions";

const PAGE = 50;
const LEVELS = ["NUDGE", "REINFORCE", "THROTTLE", "PAUSE", "BLOCK", "ROLLBACK", "KILL"];

export async function show(main, rest, query) {
  if (rest.length) return story(main, rest[0], query);
  const held = Object.fromEntries(["search", "level", "state", "agent_id", "mission_id"].map((name) => [name, query.get(name) ?? ""]));
  let skip = Number(query.get("skip")) || 0;
  const none = h("div");
  const pages = h("div", { class: "row" });
  const failed = h("div");
  const set = (name) => (event) => {
    held[name] = event.target.value.trim();
    skip = 0;
    return refresh();
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
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Sessions")),
    failed,
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
    panel(null, none, list, pages),
  );
  const turn = latest();
  const refresh = async () => {
    const isLast = turn();
    const asked = Object.fromEntries(Object.entries(held).filter(([, value]) => value));
    const shown = new URLSearchParams({ ...asked, ...(skip ? { skip } : {}) }).toString();
    history.replaceState(null, "", shown ? `?${shown}` : location.pathname);
    try {
      const found = await get("/api/v1/sessions", { ...asked, skip, limit: PAGE });
      if (!isLast()) return;
      fill(failed);
      list.hidden = !found.sessions.length;
      fill(none, !found.sessions.length && (Object.keys(asked).length ? empty("No sessions match.", "Clear a filter, or search for a part of the id or the goal.") : empty("No sessions yet.", "They appear as soon as an agent publishes its first event.")));
      list.update(found.sessions.map((of) => ({ key: of.session_id, of })));
      const go = (to) => {
        skip = to;
        return refresh();
      };
      fill(pages, pager(found, found.sessions.length, go));
    } catch (error) {
      fill(failed, problem(error, refresh));
    }
  };
  await refresh();
  const again = soon(refresh, 1000);
  return () => {
    if (skip === 0) again();
  };
}
