import { get, may, post } from "../api.js";
import { ask, badge, choose, empty, facts, field, fill, h, link, loading, mono, panel, path, problem, table, tell, why } from "../dom.js";
import { failure } from "../failure.js";
import { latest, soon } from "../live.js";
import { folded } from "../phone.js";
import { ago, count, moment, plural, prose, span } from "../say.js";

export const title = "Incidents";

const STATES = [["open", "not resolved"], ["resolved", "resolved"], ["", "all"]];
const WORDS = { acknowledge: ["Acknowledge", "acknowledged"], assign: ["Assign", "assigned"], comment: ["Comment", "commented"], resolve: ["Resolve", "resolved"] };
const AT_A_TIME = 200;

export async function show(main, [wanted], query) {
  const none = h("div");
  const failed = h("div");
  const absent = h("div"); // stays while the list is reloaded
  const cut = h("div");
  const refresh = async () => {
    const isLast = turn();
    try {
      const filter = state.value === "open" ? { open_only: true } : state.value ? { state: state.value } : {};
      const reply = await get("/api/v1/incidents", { ...filter, level: level.value, agent_id: agent.value.trim(), session_id: session.value.trim(), limit: AT_A_TIME });
      if (!isLast()) return;
      fill(failed);
      list.hidden = reply.total === 0;
      fill(none, reply.total === 0 && (state.value === "open" ? empty("No incident is open.", "Decisions with the same scope and cause appear here as one incident, the worst first.") : empty("No incidents match.")));
      fill(cut, reply.total > reply.incidents.length && h("p", { class: "hint" }, `The ${count(reply.incidents.length)} worst of ${count(reply.total)}.`));
      list.update(reply.incidents.map((of) => ({ key: of.incident_id, of })));
    } catch (error) {
      fill(failed, problem(error, refresh));
    }
  };
  const turn = latest();
  const state = choose(STATES, query.get("state") ?? "open", { onchange: refresh });
  const level = choose([["", "any"], ...["KILL", "BLOCK", "PAUSE", "THROTTLE", "NUDGE"].map((one) => [one, `${one} or higher`])], query.get("level") ?? "", { onchange: refresh });
  const agent = h("input", { type: "search", value: query.get("agent_id") ?? "", size: "16", onchange: refresh });
  const session = h("input", { type: "search", value: query.get("session_id") ?? "", size: "16", onchange: refresh });
  const list = incidentTable({ caption: "Incidents, the worst first", refresh });
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Incidents"), h("span", { class: "dim" }, "One for each session, agent or target and cause, open until it is resolved.")),
    absent,
    failed,
    panel(null, folded(h("div", { class: "row low" }, field("State", state), field("Level", level), field("Agent", agent), field("Session", session)))),
    panel(null, none, list, cut),
  );
  await refresh();
  if (wanted) {
    try {
      await open(await get(`/api/v1/incidents/${encodeURIComponent(wanted)}`), refresh);
    } catch (error) {
      fill(absent, failure(error, "incidents", wanted));
    }
  }
  const again = soon(refresh);
  return (what) => {
    if (what === "incident" || what === "missed") again();
  };
}

// Also used by the fleet and a session.
export function incidentTable({ caption, refresh, ofSession }) {
  return table(
    [
      { head: "State", class: "tight", cell: ({ of }) => stateOf(of) },
      { head: "Level", class: "tight", cell: ({ of }) => badge(of.level) },
      { head: "Times", class: "num", cell: ({ of }) => count(of.count) },
      { head: "Cause", class: "id", cell: ({ of }) => link(path("incidents", of.incident_id), mono(of.cause)) },
      ...(ofSession ? [] : [{ head: "Scope", class: "id", cell: ({ of }) => about(of) }]),
      { head: "First", class: "tight", cell: ({ of }) => ago(of.first) },
      { head: "Last", class: "tight", cell: ({ of }) => ago(of.last) },
      { head: "Assigned to", class: "tight", cell: ({ of }) => of.assignee ?? "" },
      { head: "Why", class: "wide", cell: ({ of }) => h("span", { class: "clamp", title: of.reason }, prose(of.reason)) },
      { head: "", class: "tight", cell: ({ of }) => buttons(of, refresh, ["acknowledge", "resolve"]) },
    ],
    { caption, onopen: ({ of }) => open(of, refresh).catch((error) => tell(error.message, "bad")) },
  );
}

const stateOf = (of) => badge(of.state, of.state === "open" ? "bad" : of.state === "acknowledged" ? "warn" : "plain");

function about(of) {
  if (of.scope === "session") return [link(path("sessions", of.scope_id), mono(of.scope_id)), h("div", { class: "dim" }, of.agent_id)];
  return [`${of.scope} `, mono(of.scope_id), of.session_id && h("div", { class: "dim" }, "last in ", link(path("sessions", of.session_id), of.session_id))];
}

function buttons(of, refresh, words) {
  if (!may("act") || of.state === "resolved") return null;
  const shown = words.filter((word) => word !== "acknowledge" || of.state === "open");
  return h("span", { class: "row" }, shown.map((word) => h("button", { type: "button", onclick: () => act(word, of, refresh) }, WORDS[word][0])));
}

async function act(word, of, refresh) {
  const [name, done] = WORDS[word];
  const assignee = word === "assign" ? [{ name: "assignee", label: "Assignee", make: () => h("input", { maxlength: "256", required: true }) }] : [];
  const reply = await ask({
    title: `${name} ${of.cause} of ${of.scope_id}`,
    text: [h("p", {}, of.reason), word === "resolve" && of.request_id && h("p", { class: "notice" }, "Its open approval request is closed too: the waiting call is refused.")],
    action: name,
    fields: [...assignee, why(word === "comment" ? "Kept with the incident, with your name." : undefined)],
  });
  if (!reply) return;
  try {
    const answer = await post(`/api/v1/incidents/${encodeURIComponent(of.incident_id)}/${word}`, reply);
    tell(answer.answered ? `${of.cause} of ${of.scope_id}: ${done}.` : "Sent; no worker has processed it yet.", answer.answered ? "" : "bad");
  } catch (error) {
    tell(error.message, "bad");
  }
  await refresh?.();
}

async function open(of, refresh) {
  const revisions = await get(`/api/v1/incidents/${encodeURIComponent(of.incident_id)}/history`);
  const { kill } = await get(`/api/v1/incidents/${encodeURIComponent(of.incident_id)}`);
  const dialog = h(
    "dialog",
    { class: "wide", "aria-label": `Incident ${of.cause}`, onclose: () => dialog.remove() },
    h(
      "div",
      { class: "stack" },
      h("div", { class: "row" }, h("h2", {}, mono(of.cause)), badge(of.level), stateOf(of)),
      facts([
        ["Id", mono(of.incident_id)],
          ["Scope", about(of)],
          ["Why", prose(of.reason)],
          [of.targets.length === 1 ? "Target" : "Targets", of.targets.length > 0 && of.targets.map((one) => h("div", {}, mono(one)))],
          ["Decisions", count(of.count)],
        ["First", moment(of.first)],
        ["Last", moment(of.last)],
        ["Approval", of.request_id && link(path("approvals", of.request_id), mono(of.request_id))],
        ["Assigned to", of.assignee],
        ["Resolved", of.resolution && of.resolution.replaceAll("_", " ")],
        ["Stop", of.report.summary],
        ["Kill", kill.length > 0 && kill.map((line) => h("div", {}, line))],
      ]),
      h("h3", {}, "What happened"),
      h("ol", { class: "evidence" }, revisions.filter((one) => one.change !== "counted").map((one) => h("li", {}, h("span", { class: "dim" }, moment(one.time)), ` ${one.change}`, one.approval && `, approval ${one.approval}`, one.by && ` by ${one.by}`, one.resolution && ` (${one.resolution.replaceAll("_", " ")})`, `, ${plural(one.count, "time")}`, one.comment && h("div", {}, one.comment)))),
      reportOf(of),
      h("div", { class: "row end" }, buttons(of, () => { dialog.close(); return refresh?.(); }, Object.keys(WORDS)), h("button", { type: "button", onclick: () => dialog.close() }, "Close")),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}

// The whole report, requested when it is opened.
function reportOf(of) {
  const place = h("div", { class: "stack" });
  const load = async () => {
    fill(place, loading());
    try {
      fill(place, ...reported(await get(`/api/v1/incidents/${encodeURIComponent(of.incident_id)}/report`)));
    } catch (error) {
      fill(place, problem(error, load));
    }
  };
  return h("details", { ontoggle: (event) => event.target.open && !place.firstChild && load() }, h("summary", {}, "Report: timeline, impact, root cause and the last actions"), place);
}

function reported({ summary, root_cause: cause, impact, contributing_factors: factors, recommendations: advice, recovery_options: ways, timeline, last_actions: acts }) {
  const lines = (some) => (some?.length ?? 0) > 0 && some.map((one) => h("div", {}, one));
  const actions = table(
    [
      { head: "Time", class: "tight", cell: ({ of }) => moment(of.time) },
      { head: "Action", cell: ({ of }) => mono(of.action ?? "") },
      { head: "Targets", class: "wide", cell: ({ of }) => (of.targets ?? []).map((one) => h("div", {}, mono(one))) },
      { head: "Outcome", class: "tight", cell: ({ of }) => of.outcome ?? "" },
      { head: "Error", class: "wide", cell: ({ of }) => of.error ?? "" },
    ],
    { caption: "The last actions before it" },
  );
  actions.update(acts.map((of) => ({ key: of.event_id, of })));
  return [
    facts([
      ["Summary", prose(summary)],
      ["Root cause", mono(cause)],
      ["Contributing", lines(factors)],
      ["Impact", `${plural(impact.actions, "action")} in ${span(1000 * (impact.duration_s ?? 0))}`],
      ["Used", lines(Object.entries(impact.resources).map(([name, amount]) => `${name} ${count(amount)}`))],
      ["Touched", lines(impact.things)],
      ["Now", lines(advice.immediate)],
      ["Next time", lines(advice.preventive)],
      ["Configuration", lines(advice.configuration)],
      ["Ways to continue", lines(ways.map((one) => one.description))],
    ]),
    h("h4", {}, "Timeline"),
    h("ol", { class: "evidence" }, timeline.map((one) => h("li", {}, one.time && h("span", { class: "dim" }, moment(one.time)), ` ${one.what}`))),
    h("h4", {}, plural(acts.length, "last action")),
    actions,
  ];
}
