// Limits of THROTTLE decisions, in force until they end. Enforced here: `max_file_operations` (further calls that write
// or worse), `max_tokens` (as reported by model turns).

import { type Effect, EFFECTS } from "../transport.js";

const HOLD_MS = 300_000;
const MAX_OF_A_NAME = 16;
const FILE_OPERATIONS = "max_file_operations";
const TOKENS = "max_tokens";

interface Limit {
  value: number;
  /** The use when it was set: only later use counts. */
  since: number;
  untilMs: number;
}

/** The limits in force and their use. */
export class Throttled {
  readonly #limits = new Map<string, Limit[]>();
  #fileOperations = 0;
  #tokens = 0;

  /** Adds limits beside the earlier ones, each with its own end and count: none relaxes another. */
  take(limits: Readonly<Record<string, number>>, nowMs: number, untilMs?: number): void {
    const used: Record<string, number> = { [FILE_OPERATIONS]: this.#fileOperations, [TOKENS]: this.#tokens };
    for (const [name, value] of Object.entries(limits)) {
      const hold = this.#holding(name, nowMs);
      hold.push({ value, since: used[name] ?? 0, untilMs: untilMs ?? nowMs + HOLD_MS });
      const [one, other, ...rest] = hold;
      if (hold.length > MAX_OF_A_NAME && one !== undefined && other !== undefined) {
        // The two oldest become one that is as strict as both.
        const least = Math.min(one.value, other.value);
        const since = Math.min(one.since + one.value, other.since + other.value) - least;
        rest.unshift({ value: least, since, untilMs: Math.max(one.untilMs, other.untilMs) });
        this.#limits.set(name, rest);
      } else {
        this.#limits.set(name, hold);
      }
    }
  }

  /** Counts a call that runs. */
  note(effect: Effect): void {
    if (writes(effect)) this.#fileOperations++;
  }

  /** Counts the usage of a model turn. */
  used(tokens: number): void {
    this.#tokens += tokens;
  }

  /** Whether such a call exceeds the limits; read-only calls never do. */
  isBeyond(effect: Effect, nowMs: number): boolean {
    if (this.#limits.size === 0 || !writes(effect)) return false;
    const beyond = (name: string, value: number): boolean =>
      this.#holding(name, nowMs).some((limit) => value - limit.since > limit.value);
    return beyond(FILE_OPERATIONS, this.#fileOperations + 1) || beyond(TOKENS, this.#tokens);
  }

  #holding(name: string, nowMs: number): Limit[] {
    return (this.#limits.get(name) ?? []).filter((limit) => nowMs < limit.untilMs);
  }
}

function writes(effect: Effect): boolean {
  return EFFECTS.indexOf(effect) >= EFFECTS.indexOf("write");
}
