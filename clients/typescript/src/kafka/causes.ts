// Causes of refusals and texts for the agent, from decisions and entries of the control topic.

import { APPROVAL_PENDING } from "../refused.js";
import { type Approval, type ControlRecord, type Decision, HALTLINE, type Level, rank } from "./records.js";

const STOPPED = "This session was stopped. Nothing more is executed; a person has to release it.";
const HELD = "This session is held, and nothing is executed: {reason}. End your turn now with a report.";
const NOT_NOW = "This is not allowed now. Do not try to reach the same result another way; report it instead.";
const BACK = "This was going wrong. It was not done.";
const ONLY_LOOK = "For now you may look, and change nothing. Report what you would do instead.";

export const NO_VERDICT = "no_verdict";
export { APPROVAL_PENDING };
export const APPROVAL_EXPIRED = "approval_expired";

/** The cause of a refusal: a decision, or an entry of the control topic. */
export interface Cause {
  decisionId: string;
  code: string;
  /** The text for the model. */
  message: string;
  decidedAtMs?: number;
  decision?: Decision;
}

/** Hints and limits for the agent before it continues. */
export interface Advice {
  level: Level;
  message: string;
  code: string;
  limits: Record<string, number>;
  decision: Decision;
}

export const NOBODY: Cause = {
  decisionId: "",
  code: NO_VERDICT,
  message: "No verdict on this call is available, and it could do harm. Report it instead.",
};

/** A kill of one tool or target refuses its calls, and does not end the session. */
export function isOneThing(scope: string): boolean {
  return scope === "tool" || scope === "target";
}

export function causeOf(decision: Decision): Cause {
  const stops = decision.level === "KILL" && !isOneThing(decision.scope);
  const rest = decision.level === "ROLLBACK" ? BACK : NOT_NOW;
  return withTime(decision.decision_id, decision.code, decision.message || (stops ? STOPPED : rest), decision);
}

/** Returns the cause of a call that waits for a person. */
export function causeOfWaiting(decision: Decision): Cause {
  return withTime(decision.decision_id, APPROVAL_PENDING, decision.message || NOT_NOW, decision);
}

/** Whether read-only calls are allowed. */
export function mayLook(record: ControlRecord): boolean {
  return record.state === "contained";
}

function isHeld(record: ControlRecord): boolean {
  return record.state === "frozen" && record.by === HALTLINE;
}

export function causeOfEntry(record: ControlRecord): Cause {
  const stops = record.state === "killed" && !isOneThing(record.scope);
  return {
    decisionId: record.decision_id,
    code: record.code,
    message: isHeld(record)
      ? HELD.replace("{reason}", () => record.reason.replace(/(?<!\.)\.+$/, ""))
      : stops ? STOPPED : mayLook(record) ? ONLY_LOOK : NOT_NOW,
    ...(record.decided_at === undefined ? {} : { decidedAtMs: record.decided_at }),
  };
}

export function adviceOf(decision: Decision): Advice {
  return {
    level: decision.level,
    message: decision.message,
    code: decision.code,
    limits: { ...decision.limits },
    decision,
  };
}

/** Returns the open request that a call has to wait for. */
export function awaitsApproval(decision: Decision | undefined): Approval | undefined {
  if (decision === undefined || decision.level !== "PAUSE") return undefined;
  const state = decision.approval?.state;
  return state === "pending" || state === "info_requested" ? decision.approval : undefined;
}

/** Whether it is the answer to a request: it applies to the call that waits, and to no other. */
export function isAnswer(decision: Decision): boolean {
  return decision.approval !== undefined && awaitsApproval(decision) === undefined;
}

/** Whether both decisions are about the same approval request. */
export function isSameRequest(one: Decision, other: Decision): boolean {
  return one.approval !== undefined && one.approval.request_id === other.approval?.request_id;
}

export function refuses(decision: Decision): boolean {
  return rank(decision.level) >= rank("PAUSE");
}

function withTime(decisionId: string, code: string, message: string, decision: Decision): Cause {
  const at = decision.decided_at;
  return { decisionId, code, message, decision, ...(at === undefined ? {} : { decidedAtMs: at }) };
}
