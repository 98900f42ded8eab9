/** Calls to be made once: a call with an equal key gets the first one's result, as in the Python client. No I/O. */

import { jsonOf } from "./texts.js";

/** Stored results; beyond it, the oldest is dropped. */
const MAX_KEPT = 4096;

/** The code of a call that is refused because an equal one has not ended. */
export const IN_FLIGHT = "idempotency_in_flight";
export const STILL_RUNNING = "This same call is being made right now. Wait for its result, and do not make it again.";

/** The result of an earlier call. */
export interface Result {
  readonly value: unknown;
  readonly atMs: number;
}

/** The results of one session, by key. */
export class Results {
  readonly #ttlMs: number;
  readonly #kept = new Map<string, Result>();
  readonly #running = new Set<string>();

  constructor(ttlS: number) {
    this.#ttlMs = ttlS * 1000;
  }

  /** Returns the stored result; or `running` for a call that must wait; or undefined: make the call, then call `end`. */
  begin(key: string, nowMs: number): Result | "running" | undefined {
    if (this.#running.has(key)) return "running";
    const kept = this.#kept.get(key);
    if (kept !== undefined && nowMs - kept.atMs <= this.#ttlMs) return kept;
    this.#kept.delete(key);
    this.#running.add(key);
    return undefined;
  }

  /** Ends the call; without a result it failed or was not made, and may be made again. */
  end(key: string, result?: Result): void {
    this.#running.delete(key);
    if (result === undefined) return;
    this.#kept.set(key, { ...result, value: copied(result.value) }); // the caller may change the value that it received
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= MAX_KEPT) return;
      this.#kept.delete(oldest);
    }
  }
}

/** Returns a copy of the value, if its type supports it; else the value itself. */
export function copied(value: unknown): unknown {
  try {
    return structuredClone(value);
  } catch {
    return value; // a function, a connection
  }
}

/** Returns the key of a call that is made once; undefined: every call is made, also if its arguments cannot be compared. */
export function keyOf(
  action: string,
  { key, once }: { readonly key?: string | undefined; readonly once?: readonly string[] | undefined },
  args: Readonly<Record<string, unknown>>,
): string | undefined {
  if (key !== undefined && typeof key !== "string") throw new TypeError(`key: expected a text, got ${typeof key}`);
  if (key !== undefined) return JSON.stringify([action, key]);
  if (once === undefined) return undefined;
  try {
    return jsonOf([action, once.map((name) => [name, Object.hasOwn(args, name) ? args[name] : null])], { sorted: true });
  } catch {
    return undefined;
  }
}
