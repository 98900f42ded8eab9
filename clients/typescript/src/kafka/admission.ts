// What goes into the enforcer and comes out of it.

import type { Effect } from "../transport.js";
import type { Advice, Cause } from "./causes.js";
import type { Decision } from "./records.js";

export type Stage = "received" | "applied" | "stopped" | "refused" | "failed";

/** Sends one piece of feedback. */
export type Acknowledge = (
  stage: Stage,
  decisionId: string,
  decidedAtMs: number | undefined,
  more: { callId?: string | undefined; action?: string; detail?: string },
) => void;

/** Who the session is, and how long what is decided counts. */
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
  /** Seconds that only grow. */
  monotonicS: () => number;
}

/** A call as far as what stands may be about it. */
export interface Admittable {
  callId: string;
  action: string;
  effect: Effect;
  /** The declared targets, and `name=value` of simple arguments. */
  matchTargets: readonly string[];
}

/** The last word on a call; without a cause it runs. */
export interface Admitted {
  cause?: Cause;
  advice: readonly Advice[];
  rollbacks: readonly Decision[];
}
