/** What a session takes, and what it answers. */

import type { Redaction } from "./describe.js";
import type { Refused } from "./refused.js";
import type { Effect, Mode, Usage } from "./transport.js";

/** The call may be made. */
export interface Allowed {
  readonly allowed: true;
  /** For `after` and `failed`: the framework's own, or a new one where it has none. */
  readonly callId: string;
  /** With the changes that were decided. */
  readonly args: Record<string, unknown>;
  /** Whether these differ from what was proposed. */
  readonly changed: boolean;
  /** For the model. `after` returns them as well: show them once. */
  readonly hints?: string;
}

/** The call must not be made; the run goes on. */
export interface Denied {
  readonly allowed: false;
  /** What the model reads. */
  readonly text: string;
  /** For programs. */
  readonly code: string;
  readonly refused: Refused;
}

/** Of one call. */
export interface CallOptions {
  /** What it is about, such as `["asset_id=fact_sales"]`. */
  readonly targets?: readonly string[] | undefined;
  /** What it does; raises what its name tells. */
  readonly effect?: Effect | undefined;
  readonly mode?: Mode | undefined;
  /** Calls of this name for which it is equal are the same call when loops are looked for. */
  readonly loopKey?: string | undefined;
  /** What it costs, for the budgets of `rules` over Kafka; else the rules' price. */
  readonly costUsd?: number | undefined;
}

/** One turn of the model. */
export interface Turn {
  readonly usage?: Usage | undefined;
  readonly output?: string | undefined;
}

export interface SessionOptions extends Redaction {
  /** One run of one agent. A kill holds for it until an operator resets it. A new one when left out. */
  readonly sessionId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly parentSessionId?: string | undefined;
  readonly rootSessionId?: string | undefined;
  readonly ancestors?: readonly string[] | undefined;
  readonly missionId?: string | undefined;
  /** What the session is to do. */
  readonly goal?: string | undefined;
  /** Left out: that of the intake (`blocking`), or of the transport. */
  readonly mode?: Mode | undefined;
  /** By name, what tools do whose names do not tell. */
  readonly effects?: Readonly<Record<string, Effect>> | undefined;
  /** False: the framework cannot change arguments, so a call that is only allowed with others is denied. */
  readonly changesArguments?: boolean | undefined;
  /** When nobody answers, calls of this effect or a worse one are refused, others go on; null: all go on. */
  readonly failClosedFrom?: Effect | null | undefined;
  /** Receives, in words, what does not work: nobody answers, a result was lost. Default: `process.emitWarning`. */
  readonly onWarning?: ((message: string) => void) | undefined;
}
