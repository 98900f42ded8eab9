// The input and output of the enforcer.

import type { Effect } from "../transport.js";
import type { Advice, Cause } from "./causes.js";
import type { Decision } from "./records.js";

export type Stage = "received" | "applied" | "stopped" | "refused" | "failed";

/** Publishes feedback on a decision. */
export type Acknowledge = (
  stage: Stage,
  decisionId: string,
  decidedAtMs: number | undefined,
  more: { callId?: string | undefined; action?: string; detail?: string },
) => void;

/** The identity of the session, and the validity of decisions. */
export interface EnforcerSettings {
  sessionId: string;
  agentId: string;
  /** The session and all above it. */
  lineage: readonly string[];
  missionId?: string | undefined;
  budgetS: number;
  firstBudgetS: number;
  maxDecisionAgeS: number;
}

export interface Clocks {
  /** Epoch milliseconds. */
  nowMs: () => number;
  /** Seconds of a monotonic clock. */
  monotonicS: () => number;
}

/** The part of a call that restrictions can apply to. */
export interface Admittable {
  callId: string;
  action: string;
  effect: Effect;
  /** The declared targets, and `name=value` of simple arguments. */
  matchTargets: readonly string[];
}

/** The final result for a call; without a cause it runs. */
export interface Admitted {
  cause?: Cause;
  advice: readonly Advice[];
  rollbacks: readonly Decision[];
}
