import { get } from "../api.js";
import { badge, empty, fill, h, link, loading, mono, panel, path, problem, table } from "../dom.js";
import { latest, soon } from "../live.js";
import { needsPanel } from "../needs.js";
import { ago, count, ms, plural, span, usd, usdPerMinute } from "../say.js";
import { incidentTable } from "./incidents.js";

export const title = "Fleet";

const INCIDENTS = 50;
const SESSIONS = 40;
const PERIODS = [["1", "1 h", "the last hour"], ["24", "24 h", "the last 24 hours"], ["168", "7 d", "the last 7 days"]];
const KEPT_PERIOD = "haltline.fleet.hours";
const LETTERS = { killed: "K", frozen: "F", contained: "C", probation: "P" };

export async function show(main) {
  const arriving = import("../charts.js"); // the numbers are shown before the charts are loaded
  const cards = h("div", { class: "cards" });
  const strip = h("div", { class: "strip" }, loading());
  const periods = h("div", { class: "row", role: "group", "aria-label": "Period" });
  const tripsPlace = h("div", {}, loading());
  tripsPlace.style.minHeight = "246px"; // so that the content below does not move
  const topAgents = h("div");
  const topTools = h("div");
  const spendingPlace = h("div", {}, loading());
  spendingPlace.style.minHeight = "206px";
  const spendingLimits = h("p", { class: "hint" });
  let hours = PERIODS.some(([value]) => value === localStorage.getItem(KEPT_PERIOD)) ? localStorage.getItem(KEPT_PERIOD) : "24";
  let limits = null;
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
  const needs = needsPanel(() => refresh());
  const standing = h("div");
  const lag = h("div");
  const whenNone = h("div");
  const noIncidents = h("div");
  const failed = h("div");
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Fleet"), h("span", { class: "dim", id: "moving" })),
    failed,
    needs,
    cards,
    panel("Active sessions", strip),
    panel("Incidents", noIncidents, incidents, h("p", { class: "hint" }, link("/incidents?state=", "All incidents"), ", ", link("/interventions", "all interventions"))),
    h(
      "div",
      { class: "cols" },
      h("div", { class: "stack" }, panel("Trips over time", periods, tripsPlace), panel("Sessions", whenNone, sessions, h("p", { class: "hint" }, link("/sessions", "All sessions, with filters")))),
      h("div", { class: "stack" }, panel("Spending per minute, last hour", spendingPlace, spendingLimits), panel("Top agents by trips", topAgents), panel("Top tools by trips", topTools), panel("Stopped now", standing), panel("Worker lag", lag)),
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
        needs.look(),
      ]);
      fill(failed);
      fill(cards, cardsOf(all));
      incidents.hidden = open.total === 0;
      fill(noIncidents, open.total === 0 && empty("No incident is open."));
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
  const turn = latest();
  let made = null;
  const drawPictures = async () => {
    const isLast = turn();
    try {
      limits ??= get("/api/v1/limits").catch((error) => ({ problem: error.message, limits: [] }));
      const [charts, counted, top, spent, live] = await Promise.all([arriving, get("/api/v1/fleet/trips", { hours }), get("/api/v1/fleet/top", { hours }), get("/api/v1/fleet/spending"), get("/api/v1/fleet/live")]);
      if (!isLast()) return;
      drawStrip(strip, live, charts);
      if (!made) {
        made = { trips: charts.timeChart({ label: "Trips by level" }), spending: charts.timeChart({ label: "Spending per minute", height: 150, labelOf: (at) => charts.clock(at) }) };
        fill(tripsPlace, made.trips);
        fill(spendingPlace, made.spending);
      }
      made.trips.update(tripsOf(counted, charts));
      const since = `start_date=${encodeURIComponent(new Date(Date.now() - Number(hours) * 3600000).toISOString())}`;
      const bar = (field) => (one) => ({ name: one.name, value: one.trips, href: `/interventions?${field}=${encodeURIComponent(one.name)}&trips_only=true&${since}` });
      const shown = (rows, field, label) => (rows.length ? charts.topBars(rows.map(bar(field)), label) : h("p", { class: "dim" }, "No trips."));
      fill(topAgents, shown(top.agents, "agent_id", "Agents with the most trips"));
      fill(topTools, shown(top.tools, "action_name", "Tools with the most trips"));
      made.spending.update(spendingOf(spent, (await limits).limits, charts));
      fill(spendingLimits, limitsText(await limits));
    } catch (error) {
      fill(failed, problem(error, refresh));
    }
  };
  const drawPeriods = () =>
    fill(
      periods,
      PERIODS.map(([value, text, of]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(value === hours),
            "aria-label": of,
            onclick: () => {
              hours = value;
              localStorage.setItem(KEPT_PERIOD, value);
              drawPeriods();
              periods.querySelector("[aria-pressed=true]").focus();
              return drawPictures();
            },
          },
          text,
        ),
      ),
    );
  const look = async () => {
    try {
      fill(lag, lags(await get("/api/v1/fleet/lag")));
    } catch (error) {
      fill(lag, problem(error));
    }
  };
  drawPeriods();
  drawPictures();
  look();
  await refresh();
  const again = soon(() => Promise.all([refresh(), drawPictures()]));
  const lookAgain = soon(look, 2500);
  setInterval(() => document.hidden || lookAgain(), 10000);
  setInterval(() => document.hidden || again(), 30000);
  const moving = main.querySelector("#moving");
  let still = null;
  return (what, data) => {
    if (what === "policy") limits = null;
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
  const soonest = all.soonest_expiry_ms && `, first expires in ${span(Math.max(1000, Math.round((all.soonest_expiry_ms - Date.now()) / 1000) * 1000))}`;
  const card = (to, number, text, kind) => h("a", { class: `card ${kind ?? ""}`, href: to }, h("strong", {}, number), h("span", {}, text));
  return [
    card("/sessions", count(all.live), `active in the last 15 minutes, of ${count(all.sessions)} sessions`),
    card("/incidents", count(all.incidents), "open incidents", all.incidents ? "warn" : ""),
    card("/interventions", count(all.trips_24h), "trips in 24 h"),
    card("/sessions?state=killed", count(killed), "killed", killed ? "bad" : ""),
    card("/kill", count(held), "frozen, contained, on probation", held ? "warn" : ""),
    card("/approvals", count(all.waiting), `waiting for approval${soonest || ""}`, all.waiting ? "warn" : ""),
    card("/sessions", usd(all.cost_usd), `spent, ${plural(all.events, "event")}`),
  ];
}

function tripsOf({ from_ms: from, step_ms: step, levels, total, hours }, { levelColour, levelName, dayAndTime }) {
  const steps = levels[0]?.counts.length ?? Math.round((Number(hours) * 3600000) / step);
  const times = Array.from({ length: steps }, (_, number) => from + number * step);
  const sums = times.map((_, number) => levels.reduce((sum, one) => sum + one.counts[number], 0));
  const most = Math.max(0, ...sums);
  const sumOf = (one) => one.counts.reduce((sum, number) => sum + number, 0);
  const peak = most ? `, at most ${count(most)} in ${span(step)}, from ${dayAndTime(times[sums.indexOf(most)])} on; ${levels.map((one) => `${levelName(one.level)} ${count(sumOf(one))}`).join(", ")}` : "";
  return {
    times,
    step,
    series: levels.map((one) => ({ label: levelName(one.level), colour: levelColour(one.level), values: one.counts, kind: "stack", note: count(sumOf(one)) })),
    summary: `${plural(total, "trip")}${peak}.`,
    none: "no trips",
  };
}

const PER_MINUTE = "session and minute";

function spendingOf({ from_ms: from, cost_usd: total, most_usd: most }, limits, { money, clock }) {
  const times = total.map((_, number) => from + number * 60000);
  const peak = Math.max(...total);
  const sum = total.reduce((all, one) => all + one, 0);
  return {
    times,
    step: 60000,
    series: [
      { label: "all sessions", colour: "--tool", values: total, kind: "stack" },
      { label: "the session that spends the most", colour: "--series-2", values: most, kind: "steps" },
    ],
    limits: limits.filter((one) => one.resource === "cost_usd" && one.per === PER_MINUTE).map((one) => ({ value: one.limit, text: `limit of one session: ${usdPerMinute(one.limit)}`, kind: one.mode === "enforce" ? "bad" : "warn" })),
    format: usd,
    axisFormat: money,
    summary: `${usd(sum)} in the last hour${peak ? `, at most ${usd(peak)} in the minute of ${clock(times[total.indexOf(peak)])}` : ""}.`,
  };
}

function limitsText({ problem: why, policy, version, limits }) {
  if (why) return `The limits of the policy are not known: ${why}`;
  const ofMoney = limits.filter((one) => one.resource === "cost_usd");
  if (!ofMoney.length) return "No spending limit in the policy.";
  const lines = ofMoney.map((one) => [link(`/policies?rule=${encodeURIComponent(one.rule)}`, mono(one.rule)), ` ${usd(one.limit)} per ${one.per}${one.mode === "enforce" ? "" : ` (${one.mode})`}`]);
  const perMinute = ofMoney.some((one) => one.per === PER_MINUTE) ? "" : "No limit per minute. ";
  return [`${perMinute}Limits in policy ${policy}, version ${version}: `, lines.map((line, number) => [number ? "; " : "", line]), "."];
}

// A cell for each live session, the worst first, grouped by the cause of its worst incident.
function drawStrip(place, { total, groups }, { levelColour }) {
  const held = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const cell = (one) => {
    const calm = one.level === "ALLOW" && !one.state;
    const made = h(
      "a",
      { class: `cell ${calm ? "well" : ""}`, href: path("sessions", one.session_id), title: `${one.session_id}\n${one.agent_id}: ${one.state ?? "running"}, hardest ${one.level}, last event ${span(Date.now() - one.last_ms)} ago`, "aria-label": `${one.session_id} of ${one.agent_id}: ${one.state ?? "running"}, hardest ${one.level}` },
      LETTERS[one.state] ?? "",
    );
    if (!calm) made.style.setProperty("--cell", `var(${levelColour(one.level)})`);
    return h("li", {}, made);
  };
  const shown = groups.reduce((sum, group) => sum + group.sessions.length, 0);
  fill(
    place,
    groups.length === 0 && empty("No session is live.", "A session is live for 15 minutes after its last event."),
    groups.map((group) =>
      h(
        "div",
        { class: "group" },
        h("div", { class: "cause" }, group.cause === null ? "no incident" : link(path("incidents", group.incident_id), mono(group.cause)), h("span", { class: "dim" }, ` ${count(group.sessions.length)}`)),
        h("ul", { "aria-label": group.cause === null ? "Live sessions without an incident" : `Live sessions of incidents of ${group.cause}` }, group.sessions.map(cell)),
      ),
    ),
    shown < total && h("p", { class: "hint" }, `The ${count(shown)} worst of ${count(total)}; `, link("/sessions", "all sessions"), "."),
    groups.length > 0 && h("p", { class: "strip-key", "aria-hidden": "true" }, h("span", {}, "Colour: highest level."), Object.entries(LETTERS).map(([name, letter]) => h("span", {}, h("b", {}, letter), name))),
  );
  if (held !== null) [...place.querySelectorAll("a")].find((one) => one.getAttribute("href") === held)?.focus();
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
