/** The options and results of a session. */

import type { Redaction } from "./describe.js";
import type { Refused } from "./refused.js";
import type { Effect, Mode, Usage } from "./transport.js";

/** The call may be made. */
export interface Allowed {
  readonly allowed: true;
  /** The id for `after` and `failed`: the framework's, or a new one if it has none. */
  readonly callId: string;
  /** The arguments, with the changes that were decided. */
  readonly args: Record<string, unknown>;
  /** Whether the arguments differ from the proposed ones. */
  readonly changed: boolean;
  /** Hints for the model. `after` returns them as well: show them once. */
  readonly hints?: string;
  /** Of a call with a key: the result of an earlier one. This one must not be made; `after` ignores it. */
  readonly replayed?: { readonly value: unknown };
}

/** The call must not be made; the run continues. */
export interface Denied {
  readonly allowed: false;
  /** The text for the model. */
  readonly text: string;
  /** The machine-readable code. */
  readonly code: string;
  readonly refused: Refused;
}

/** Options of one call. */
export interface CallOptions {
  /** The targets, such as `["asset_id=fact_sales"]`. */
  readonly targets?: readonly string[] | undefined;
  /** The effect; raises the one known from the name. */
  readonly effect?: Effect | undefined;
  readonly mode?: Mode | undefined;
  /** Calls of this name with an equal key are the same call for loop detection. */
  readonly loopKey?: string | undefined;
  /** Calls of this name with an equal key are made once: further ones get the result of the first that succeeded. */
  readonly key?: string | undefined;
  /** Names of arguments, in place of a key: calls that are equal in these are made once. */
  readonly once?: readonly string[] | undefined;
  /** The cost, for the budgets of `rules` over Kafka; default: the rules' price. */
  readonly costUsd?: number | undefined;
}

/** One turn of the model. */
export interface Turn {
  readonly usage?: Usage | undefined;
  readonly output?: string | undefined;
}

export interface SessionOptions extends Redaction {
  /** One run of one agent. A kill is in force for it until an operator resets it. Default: a new id. */
  readonly sessionId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly parentSessionId?: string | undefined;
  readonly rootSessionId?: string | undefined;
  readonly ancestors?: readonly string[] | undefined;
  readonly missionId?: string | undefined;
  /** The goal of the session. */
  readonly goal?: string | undefined;
  /** Default: that of the intake (`blocking`), or of the transport. */
  readonly mode?: Mode | undefined;
  /** The effects of tools, by name, where their names do not show them. */
  readonly effects?: Readonly<Record<string, Effect>> | undefined;
  /** How long the result of a call with a key is returned again, in seconds: that of `rules`, or 3600. */
  readonly keyTtlS?: number | undefined;
  /** False: the framework cannot change arguments, so a call that is only allowed with others is denied. */
  readonly changesArguments?: boolean | undefined;
  /** Without a verdict, calls with this effect or a worse one are refused, others are made; null: all are made. */
  readonly failClosedFrom?: Effect | null | undefined;
  /** Receives warnings as text: no response, a lost result. Default: `process.emitWarning`. */
  readonly onWarning?: ((message: string) => void) | undefined;
}
