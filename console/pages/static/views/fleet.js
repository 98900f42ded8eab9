import { get } from "../api.js";
import { badge, bars, empty, fill, h, link, mono, panel, path, problem, table } from "../dom.js";
import { soon } from "../live.js";
import { ago, count, ms, plural, span, usd } from "../say.js";
import { incidentTable } from "./incidents.js";

export const title = "Fleet";

const INCIDENTS = 12;
const SESSIONS = 40;

export async function show(main) {
  const cards = h("div", { class: "cards" });
  const hourly = h("div");
  const incidents = incidentTable({ caption: "Open incidents, the worst first", refresh: () => refresh() });
  const sessions = table(
    [
      { head: "Session", class: "id", cell: ({ of }) => link(path("sessions", of.session_id), mono(of.session_id)) },
      { head: "Agent", class: "id", cell: ({ of }) => of.agent_id },
      { head: "State", class: "tight", cell: ({ of }) => state(of) },
      { head: "Highest level", class: "tight", cell: ({ of }) => badge(of.level) },
      { head: "Events", class: "num", cell: ({ of }) => count(of.events) },
      { head: "Trips", class: "num", cell: ({ of }) => count(of.interventions) },
      { head: "Cost", class: "num", cell: ({ of }) => usd(of.cost_usd) },
      { head: "Last event", class: "tight", cell: ({ of }) => ago(of.last) },
      { head: "Goal", class: "wide", cell: ({ of }) => h("span", { class: "clamp", title: of.goal }, of.goal) },
    ],
    { caption: "Sessions, the last active first" },
  );
  const standing = h("div");
  const lag = h("div");
  const whenNone = h("div");
  const noIncidents = h("div");
  const failed = h("div");
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Fleet"), h("span", { class: "dim", id: "moving" })),
    failed,
    cards,
    h(
      "div",
      { class: "cols" },
      h("div", { class: "stack" }, panel("Incidents", noIncidents, incidents, h("p", { class: "hint" }, link("/incidents?state=", "All incidents"), ", ", link("/interventions", "all interventions"))), panel("Sessions", whenNone, sessions, h("p", { class: "hint" }, link("/sessions", "All sessions, with filters")))),
      h("div", { class: "stack" }, panel("Trips by hour, last 24 h", hourly), panel("Stopped now", standing), panel("Worker lag", lag)),
    ),
  );

  let known = null;
  const refresh = async () => {
    try {
      const [all, open, listed, held] = await Promise.all([
        get("/api/v1/fleet"),
        get("/api/v1/incidents", { limit: INCIDENTS, open_only: true }),
        get("/api/v1/sessions", { limit: SESSIONS }),
        get("/api/v1/control"),
      ]);
      fill(failed);
      fill(cards, cardsOf(all));
      fill(hourly, hours(all.trips_by_hour));
      incidents.hidden = open.total === 0;
      fill(noIncidents, open.total === 0 && empty("No incident is open.", "No agent needs attention."));
      const ids = open.incidents.map((one) => one.incident_id);
      incidents.update(open.incidents.map((of) => ({ key: of.incident_id, of, class: known && !known.has(of.incident_id) ? "new" : undefined })));
      known = new Set(ids);
      sessions.hidden = listed.total === 0;
      fill(whenNone, listed.total === 0 && empty("No sessions yet.", "They appear as soon as an agent publishes its first event."));
      sessions.update(listed.sessions.map((of) => ({ key: of.session_id, of })));
      fill(standing, stopped(held));
    } catch (error) {
      fill(failed, problem(error, refresh));
    }
  };
  const look = async () => {
    try {
      fill(lag, lags(await get("/api/v1/fleet/lag")));
    } catch (error) {
      fill(lag, problem(error));
    }
  };
  await Promise.all([refresh(), look()]);
  const again = soon(refresh);
  const lookAgain = soon(look, 2500);
  setInterval(() => document.hidden || lookAgain(), 10000);
  setInterval(() => document.hidden || again(), 30000);
  const moving = main.querySelector("#moving");
  let still = null;
  return (what, data) => {
    again();
    lookAgain();
    if (what === "activity") {
      moving.textContent = `${plural(data.events, "event")} just now, in ${plural(data.of, "session")}`;
      clearTimeout(still);
      still = setTimeout(() => (moving.textContent = ""), 3000);
    }
  };
}

export function state(session) {
  if (session.state) return badge(session.state);
  if (session.ended) return badge("ended", "plain");
  return Date.now() - ms(session.last) < 900000 ? badge("live") : badge("quiet", "plain");
}

function cardsOf(all) {
  const killed = all.standing.killed ?? 0;
  const held = (all.standing.frozen ?? 0) + (all.standing.contained ?? 0) + (all.standing.probation ?? 0);
  const soonest = all.soonest_expiry_ms && `, first expires in ${span(all.soonest_expiry_ms - Date.now())}`;
  const card = (to, number, text, kind) => h("a", { class: `card ${kind ?? ""}`, href: to }, h("strong", {}, number), h("span", {}, text));
  return [
    card("/sessions", count(all.live), `live sessions of ${count(all.sessions)}`),
    card("/incidents", count(all.incidents), "open incidents", all.incidents ? "warn" : ""),
    card("/interventions", count(all.trips_24h), "trips in 24 h"),
    card("/sessions?state=killed", count(killed), "killed", killed ? "bad" : ""),
    card("/kill", count(held), "frozen, contained, on probation", held ? "warn" : ""),
    card("/approvals", count(all.waiting), `waiting for approval${soonest || ""}`, all.waiting ? "warn" : ""),
    card("/sessions", usd(all.cost_usd), `spent, ${plural(all.events, "event")}`),
  ];
}

function hours(byHour) {
  const total = byHour.reduce((sum, one) => sum + one, 0);
  const label = `${total} trips in 24 hours, at most ${Math.max(...byHour)} in one`;
  return [bars(byHour.map((number, at) => [number, `${23 - at} h ago: ${number}`]), label), h("p", { class: "hint" }, `${plural(total, "trip")}; most in one hour ${Math.max(...byHour)}`)];
}

function stopped(held) {
  if (!held.length) return empty("Nothing is stopped.");
  return [
    h(
      "dl",
      { class: "facts" },
      held.slice(-8).reverse().map((one) => [h("dt", {}, badge(one.state)), h("dd", {}, h("div", { class: "short", title: one.id }, `${one.scope} `, one.scope === "session" ? link(path("sessions", one.id), mono(one.id)) : mono(one.id)), h("div", { class: "dim" }, `by ${one.by ?? "haltline"}, `, ago(one.since)))]),
    ),
    h("p", { class: "hint" }, link("/kill", `Show and release all ${held.length}`)),
  ];
}

function lags(found) {
  if (!found.length) return empty("No topics.");
  return h(
    "dl",
    { class: "facts" },
    found.map((one) => [
      h("dt", {}, one.topic),
      h("dd", {}, one.lag_records ? h("strong", {}, plural(one.lag_records, "record waiting", "records waiting")) : "none waiting", h("span", { class: "dim" }, ` in ${plural(one.partitions, "partition")}${one.lag_records ? `, at most ${count(one.worst)} in one` : ""}`)),
    ]),
  );
}
