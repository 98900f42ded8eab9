// One intervention: the call, the decision and its reason, what followed, and the possible actions.
import { answer, because, button, canMute, kill, mute } from "./acts.js";
import { get, may, post, remove } from "./api.js";
import { titled } from "./attention.js";
import { call, isCut, listed } from "./call.js";
import { ask, badge, choose, facts, fill, h, json, link, mono, panel, path, tell, why } from "./dom.js";
import { soon } from "./live.js";
import { killTarget } from "./phone.js";
import { ago, moment, ms, NO_PRICES, plural, prevented, prose, span, usd } from "./say.js";
import { endOf, release } from "./views/kill.js";

const DID = {
  KILL: "The session was killed: every further call is refused until an operator releases it.",
  ROLLBACK: "The session was sent back to an earlier checkpoint.",
  BLOCK: "The call was refused. The session continues.",
  THROTTLE: "The call was allowed, with lower limits.",
  REINFORCE: "The call was allowed, and the model was reminded of its task.",
  NUDGE: "The call was allowed, and the model was given a hint.",
};
const PAUSED = {
  escalated: "The call is waiting for an approval.",
  approved_after_review: "The call waited for an approval, and was approved.",
  rejected_after_review: "The call waited for an approval, and was refused: it was rejected, or the request expired.",
};

export async function intervention(main, id) {
  const of = await get(`/api/v1/interventions/${encodeURIComponent(id)}`);
  const decision = of.id.startsWith("int_") ? of.id.slice(4) : of.id;
  titled(of.action_name || "(no action)", "Interventions");
  killTarget("session", of.run_id);
  const followed = h("div", { class: "stack" });
  const acts = h("div", { class: "row acts" });
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, mono(of.action_name || "(no action)")), badge(of.type), badge(of.outcome), badge(of.risk_level), h("span", { class: "dim push" }, moment(of.timestamp))),
    panel(null, h("div", { class: "prose" }, story(of)), acts),
    h(
      "div",
      { class: "cols" },
      h(
        "div",
        { class: "stack" },
        panel("What followed", followed),
        panel("Arguments", of.original_inputs ? listed(of.original_inputs) : h("p", { class: "dim" }, "No arguments were recorded."), of.modified_inputs && [h("h3", {}, "Changed to"), listed(of.modified_inputs)]),
        of.remediation_payload && panel("Alternatives given to the agent", advice(of.remediation_payload)),
      ),
      panel(
        "Record",
        facts([
          ["Session", link(path("sessions", of.run_id), mono(of.run_id))],
          ["Agent", link(`/interventions?agent_id=${encodeURIComponent(of.agent_id)}`, of.agent_id)],
          ["Mission", of.mission_id],
          ["Rule", of.policy_id && link(`/policies?rule=${encodeURIComponent(of.policy_id)}`, mono(of.policy_id))],
          ["Policy", of.policy_name],
          ["Attempt", String(of.attempt)],
          ["Would have cost", prevented(of.estimated_cost_usd)],
          ["Prevented", of.estimated_cost_usd > 0 ? [usd(of.cost_prevented_usd), of.cost_prevented_usd === 0 && of.attempt > 1 && " (counted at the first attempt)"] : NO_PRICES],
          ["Cost", of.actual_cost_usd > 0 && usd(of.actual_cost_usd)],
          ["Id", mono(of.id)],
        ]),
      ),
    ),
    h("details", { class: "panel" }, h("summary", {}, "The whole record, as JSON"), json(of)),
  );
  const refresh = async () => {
    const [standing, waiting, stops] = await Promise.all([
      get("/api/v1/control"),
      of.outcome === "escalated" ? get("/api/v1/approvals", { open_only: true, agent_id: of.agent_id, limit: 200 }) : { approvals: [] },
      of.context?.level === "KILL" ? get("/api/v1/kill/stops", { decision_id: decision }) : [],
    ]);
    const held = standing.filter((one) => (one.scope === "session" && one.id === of.run_id) || (one.scope === "agent" && one.id === of.agent_id) || (one.scope === "tool" && one.id === of.action_name) || (one.scope === "mission" && one.id === of.mission_id) || (one.scope === "target" && targetsOf(of).includes(one.id)));
    const request = waiting.approvals.find((one) => one.session_id === of.run_id && one.action_name === of.action_name);
    fill(followed, whatFollowed(of, held, request, stops, decision));
    fill(acts, buttons(of, decision, held, request, refresh));
  };
  await refresh();
  const again = soon(() => refresh().catch(() => {}));
  return (what, data) => {
    if (what === "control" || what === "command" || what === "missed" || data.session_id === of.run_id) again();
  };
}

// The target's parts, if the record names it.
const targetsOf = (of) => [/ on (\S+)$/.exec(of.description ?? "")?.[1]].filter(Boolean);

function story(of) {
  const { context = {} } = of;
  const agent = link(`/interventions?agent_id=${encodeURIComponent(of.agent_id)}`, of.agent_id);
  const session = link(path("sessions", of.run_id), mono(of.run_id));
  const rule = of.policy_id === "operator" ? "An operator" : ["Rule ", link(`/policies?rule=${encodeURIComponent(of.policy_id)}`, mono(of.policy_id || "(none)")), of.policy_name && h("span", { class: "dim" }, ` of ${of.policy_name}`)];
  return [
    h("p", {}, "Agent ", agent, " called ", call(of.action_name, of.original_inputs), " in session ", session, ", ", ago(of.timestamp), isCut(of.original_inputs) && h("span", { class: "dim" }, " (arguments shortened; in full below)"), "."),
    of.agent_intent && h("p", {}, "Its task: ", h("q", {}, of.agent_intent)),
    h("p", {}, rule, of.policy_id === "operator" ? " stopped it: " : " tripped: ", prose(of.reason) || "no reason was recorded", /[.!?]$/.test(of.reason ?? "") ? "" : "."),
    h("p", {}, h("strong", {}, didWhat(of, context))),
    of.blast_radius ? h("p", {}, of.blast_radius.startsWith("would ") ? "The call " : "The call would have been: ", of.blast_radius, /[.!?]$/.test(of.blast_radius) ? "" : ".") : h("p", { class: "dim" }, "Blast radius unknown: neither the tool nor the policy describes what the call would have reached."),
  ];
}

function didWhat(of, { level, would, mode }) {
  if (would) return `No action was taken, because the rule is in mode ${mode}; it would have been ${would}.`;
  if (level === "PAUSE") return PAUSED[of.outcome] ?? PAUSED.escalated;
  if (level in DID) return DID[level];
  return of.outcome === "blocked" ? DID.BLOCK : of.outcome === "warned" ? "The call was allowed; the finding was recorded." : of.outcome === "modified" ? "The call was allowed with changed arguments." : (PAUSED[of.outcome] ?? "The finding was recorded.");
}

function whatFollowed(of, held, request, stops, decision) {
  const { level } = of.context ?? {};
  const lines = [];
  for (const stop of stops) lines.push(h("p", {}, badge("acknowledged", "good"), " Session ", link(path("sessions", stop.session_id), mono(stop.session_id)), " has stopped", stop.took_ms != null ? `, ${span(stop.took_ms)} after the decision.` : "."));
  const own = held.find((one) => one.scope === "session" && one.state === "killed");
  if (level === "KILL" && !stops.length) lines.push(h("p", {}, own?.stopped_at ? [badge("acknowledged", "good"), " The session has stopped."] : own?.escalated_at ? [badge("never acknowledged", "bad"), " The kill was sent repeatedly, and the agent did not acknowledge it. Its calls are refused; end its process."] : [badge("not acknowledged", "warn"), " The agent has not acknowledged the stop. Its next call is refused."]));
  for (const one of held) lines.push(h("p", {}, badge(one.state), ` ${one.scope} `, mono(one.id), " since ", ago(one.since), ` by ${one.by ?? "haltline"}: ${prose(one.reason)}`));
  if (request) lines.push(h("p", {}, badge("pending", "warn"), " The call is waiting for an approval; the request expires in ", span(ms(request.expires_at) - Date.now()), request.quorum > 1 && `, and needs ${plural(request.quorum, "operator")}`, "."));
  if (!held.length && level === "KILL") lines.push(h("p", {}, badge("released", "good"), " The session is no longer stopped."));
  if (!lines.length) lines.push(h("p", { class: "dim" }, "Its session, agent and tool are not stopped."));
  lines.push(h("p", {}, link(`${path("sessions", of.run_id)}?decision=${encodeURIComponent(decision)}`, "The session's story at this point")));
  return lines;
}

function advice(payload) {
  const list = (items) => (items?.length ? h("ul", { class: "evidence" }, items.map((one) => h("li", {}, typeof one === "string" ? one : JSON.stringify(one)))) : null);
  return facts([
    ["Summary", payload.retry_guidance],
    ["Required first", list(payload.required_prior_actions)],
    ["Instead", list(payload.safe_alternatives)],
    ["Missing", list(payload.missing_requirements)],
    ["Out of date", list(payload.stale_evidence)],
    ["Try again after", payload.retry_after_seconds != null ? span(payload.retry_after_seconds * 1000) : null],
    ["Code", payload.reason_code && mono(payload.reason_code)],
  ]);
}

function buttons(of, decision, held, request, refresh) {
  const reason = because();
  const isKilled = held.some((one) => one.scope === "session" && one.state === "killed");
  return [
    may("act") && [
      request && [button("Approve once", () => answer(request.id, "approve", reason.value, "Approved.", refresh), "primary"), button("Reject", () => answer(request.id, "reject", reason.value, "Rejected.", refresh))],
      !isKilled && button("Kill session", () => kill(of.run_id, reason.value, refresh), "danger"),
      held.filter(endOf).map((one) => button(`${endOf(one).word} ${one.scope}`, () => release(one, refresh, reason.value))),
      reason,
      h("span", { class: "gap" }),
      button("Freeze", () => freeze(of, refresh)),
      canMute(of.policy_id, of.agent_id) && button("Mute this rule", () => mute(of.policy_id, of.agent_id)),
      h("span", { class: "gap" }),
      button("Was right", () => label(of, decision, "confirmed")),
      button("False alarm", () => label(of, decision, "false_alarm")),
    ],
    of.policy_id && of.policy_id !== "operator" && link(`/policies?rule=${encodeURIComponent(of.policy_id)}`, "Adjust this rule", { class: "button" }),
    may("change") && button("Hide this record", () => hide(of)),
  ];
}

// Asks for confirmation, sends, and shows the result.
async function act(question, send, refresh) {
  const reply = await ask(question);
  if (!reply) return;
  try {
    tell(await send(reply));
    await refresh?.();
  } catch (error) {
    tell(error.message, "bad");
  }
}

const outcome = (answer, done) => (answer.answered ? done : answer.second_wanted ? "Recorded: it needs a second operator." : "No worker answered. It takes effect as soon as a worker runs.");

function freeze(of, refresh) {
  const scopes = [["session", of.run_id, "this session"], ["agent", of.agent_id, "every session of the agent"], ["tool", of.action_name, "the tool, for every agent"], ...targetsOf(of).map((target) => ["target", target, "the target, for every agent"])].filter(([, id]) => id);
  return act(
    { title: "Freeze", text: h("p", {}, "Every call in this scope is refused until an operator lifts it."), action: "Freeze", fields: [{ name: "at", label: "Scope", make: () => choose(scopes.map(([scope, id, what], at) => [String(at), `${scope} ${id}: ${what}`]), "0") }, why()] },
    async ({ at, reason }) => {
      const [scope, id] = scopes[Number(at)];
      return outcome(await post("/api/v1/freeze", { scope, id, reason }), `${scope} ${id} is frozen.`);
    },
    refresh,
  );
}

const label = (of, decision, word) =>
  act({ title: word === "confirmed" ? "Was right" : "False alarm", text: h("p", {}, "Counts towards the rule's precision. The decision and the session do not change."), action: "Save label", fields: [why()] }, async ({ reason }) => {
    await post(`/api/v1/decisions/${encodeURIComponent(decision)}/label`, { label: word, reason, session_id: of.run_id });
    return "Label saved.";
  });

const hide = (of) =>
  act({ title: "Hide this record", text: h("p", {}, "It is removed from lists and totals. It stays in the audit, with your name and reason."), action: "Hide", danger: true, fields: [why()] }, async ({ reason }) => {
    await remove(`/api/v1/interventions/${encodeURIComponent(of.id)}`, { reason });
    location.assign("/interventions");
    return "Hidden.";
  });
