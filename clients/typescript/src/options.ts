/** The options and results of a session. */

import type { Refused } from "./refused.js";

/** The effect of a call, from harmless to harmful. */
export type Effect = "read" | "poll" | "write" | "network" | "exec" | "mutate" | "destructive";

/** All effects, from harmless to harmful. */
export const EFFECTS: readonly Effect[] = ["read", "poll", "write", "network", "exec", "mutate", "destructive"];

/**
 * How calls wait. `async`: only calls that may destroy something wait for a verdict. `blocking`: each call waits.
 * `local`: the service decides in its own process, without Kafka.
 */
export type Mode = "async" | "blocking" | "local";

export const MODES: readonly Mode[] = ["async", "blocking", "local"];

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
}

/** The usage of one model turn. Increments, never running totals. */
export interface Usage {
  /** Without cached tokens. */
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  readonly cacheReadTokens?: number | undefined;
  /** Counted as input. */
  readonly cacheWriteTokens?: number | undefined;
  readonly costUsd?: number | undefined;
}

/** One turn of the model. */
export interface Turn {
  readonly usage?: Usage | undefined;
  readonly output?: string | undefined;
}

export interface SessionOptions {
  /** One run of one agent. A kill is in force for it until an operator resets it. Default: a new id. */
  readonly sessionId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly parentSessionId?: string | undefined;
  readonly rootSessionId?: string | undefined;
  readonly ancestors?: readonly string[] | undefined;
  readonly missionId?: string | undefined;
  /** The goal of the session. */
  readonly goal?: string | undefined;
  /** Default: that of the service (`blocking`). */
  readonly mode?: Mode | undefined;
  /** The effects of tools, by name, where their names do not show them. */
  readonly effects?: Readonly<Record<string, Effect>> | undefined;
  /** How long the result of a call with a key is returned again, in seconds: 3600. */
  readonly keyTtlS?: number | undefined;
  /** False: the framework cannot change arguments, so a call that is only allowed with others is denied. */
  readonly changesArguments?: boolean | undefined;
  /** Which calls are made while the service does not answer: those that only read, by their names (`reads`), or all. */
  readonly whenDown?: WhenDown | undefined;
  /** Receives warnings as text: no response, a lost result. Default: `process.emitWarning`. */
  readonly onWarning?: ((message: string) => void) | undefined;
}

export type WhenDown = "reads" | "all";

export const WHEN_DOWN: readonly WhenDown[] = ["reads", "all"];

/** Throws RangeError for a value that is not one of those known. */
export function checked(value: string | undefined, known: readonly string[], field: string): void {
  if (value === undefined || known.includes(value)) return;
  throw new RangeError(`${field}: expected one of ${known.join(", ")}, got ${JSON.stringify(value)?.slice(0, 80)}`);
}
