// Acts of one step: a click sends them, with a reason of a list. Acts on more than a session or a call ask for a text.
import { get, may, post } from "./api.js";
import { ask, choose, h, tell, why } from "./dom.js";

const REASONS = ["no reason given", "it is meant to do this", "the cause is fixed", "false alarm", "it does harm", "not known: to be safe"];

// The list of reasons beside buttons.
export const because = () => choose(REASONS.map((text) => [text, text]), REASONS[0], { "aria-label": "Why", title: "Reason, kept in the audit with your name" });

export const button = (text, act, kind) => h("button", { type: "button", class: kind, onclick: act }, text);

// Sends, shows the result, and refreshes.
export async function send(doing, refresh) {
  try {
    tell(await doing());
  } catch (error) {
    tell(error.message, "bad");
  }
  await refresh?.();
}

const NOBODY = "No worker answered. It takes effect as soon as a worker runs.";
const outcome = (reply, done) => {
  if (reply.second_wanted) return "Recorded: it needs a second operator.";
  return `${reply.answered ? done : NOBODY}${reply.ended ? " The session has ended: nothing of it runs." : ""}`;
};

export const kill = (session_id, reason, refresh) => send(async () => outcome(await post("/api/v1/kill", { scope: "session", id: session_id, reason }), `Session ${session_id} is killed.`), refresh);

export const end = (way, { scope, id }, reason, done, refresh) => send(async () => outcome(await post(`/api/v1/${way}`, { scope, id, reason }), done), refresh);

// `word`: approve or reject; of a held session, they release and kill it.
export const answer = (id, word, reason, done, refresh) =>
  send(async () => {
    const reply = await post("/api/v1/approvals/batch", { ids: [id], word, reason });
    const [refused] = Object.values(reply.refused);
    if (refused) throw new Error(refused);
    return reply.answered.length ? done : "The answer was sent; no worker has processed it yet.";
  }, refresh);

export const snooze = (of, reason, refresh) =>
  send(async () => {
    const reply = await post(`/api/v1/incidents/${encodeURIComponent(of.incident_id)}/snooze`, { reason, lasts: 3600 });
    return reply.answered ? `${of.cause} of ${of.scope_id} is silent for an hour, or until a kill.` : NOBODY;
  }, refresh);

const LENGTHS = [["86400", "1 day"], ["604800", "7 days"], ["2592000", "30 days"]];

export async function mute(rule, agent, refresh) {
  const text = [h("p", {}, "Its findings are recorded and do nothing, by the agent's own clock. The policy gets its next version. Budgets and operators' acts are not muted.")];
  const fields = [{ name: "lasts", label: "For", make: () => choose(LENGTHS, LENGTHS[0][0]) }, why()];
  const reply = await ask({ title: `Mute ${rule} for agent ${agent}`, text, action: "Mute", fields });
  if (reply) await send(async () => {
    await post("/api/v1/policies/default/mutes", { rule, agent, lasts: Number(reply.lasts), reason: reply.reason });
    return `${rule} is muted for agent ${agent}.`;
  }, refresh);
}

export async function unmute({ rule, agent }, refresh) {
  const reply = await ask({ title: `End the mute of ${rule} for agent ${agent}`, action: "Unmute", fields: [why()] });
  if (reply) await send(async () => {
    await post("/api/v1/policies/default/unmute", { rule, agent, reason: reply.reason });
    return `${rule} is no longer muted for agent ${agent}.`;
  }, refresh);
}

export const mutes = () => get("/api/v1/policies/default/mutes");

// Whether a decision's rule can be muted: no budget, nothing of an operator or of haltline's own.
const NEVER = ["", "operator", "approval", "killed", "hold", "budget", "agent_budget", "mission_budget", "spend_velocity"];
export const canMute = (rule, agent) => may("act") && rule && agent && agent !== "unknown" && !NEVER.includes(rule) && !rule.startsWith("tripwire_");
