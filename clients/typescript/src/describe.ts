/** Descriptions of calls, results and errors: redacted and bounded, ready to leave the process. */

import { onlyKeeps } from "./effects.js";
import { encode, type Keys, plain, plainText } from "./redaction/payload.js";
import { wellFormed } from "./redaction/unicode.js";
import { repeats } from "./repeated_passage.js";
import { isSimple, simpleTargets } from "./targets.js";
import type { Effect, Json, Outcome, Output } from "./transport.js";

const MAX_ERROR_CHARS = 2000;
const MAX_NAME_CHARS = 504;
const MAX_TARGET_CHARS = 1025; // a name and a simple value, 512 each

/** Limits of the data that leaves the process. */
export interface Redaction {
  /** A key that makes digests useless without it; the same for all agents whose calls are compared. */
  readonly digestKey?: string | undefined;
  /** Also remove personal data. Requires a `digestKey`: without one, short numbers are found by trying. */
  readonly redactPii?: boolean | undefined;
  /** Longer arguments of calls that only read or store a text are truncated (8192 bytes). */
  readonly maxArgsBytes?: number | undefined;
  /** How much of the arguments of every other call is published, which decisions are based on (256 KiB). */
  readonly maxRunBytes?: number | undefined;
  /** How much of the beginning of an output is published; 0: nothing. 512 by default. */
  readonly maxOutputChars?: number | undefined;
}

/** Redaction with every default, checked once. */
export class Describer {
  readonly #keys: Keys;
  readonly #maxArgsBytes: number;
  readonly #maxRunBytes: number;
  readonly #maxOutputChars: number;

  /** Throws RangeError or TypeError for invalid options. */
  constructor(options: Redaction) {
    const key = options.digestKey ?? process.env["HALTLINE_DIGEST_KEY"] ?? "";
    if (options.redactPii && !key) throw new TypeError("redactPii: expected a digestKey as well, got none");
    const bytes = new TextEncoder().encode(key);
    this.#keys = { digest: bytes, ...(options.redactPii ? { pii: bytes } : {}) };
    this.#maxArgsBytes = whole(options.maxArgsBytes, 8192, [0, 262_144], "maxArgsBytes");
    this.#maxRunBytes = whole(options.maxRunBytes, 262_144, [8192, 524_288], "maxRunBytes");
    this.#maxOutputChars = whole(options.maxOutputChars, 512, [0, 65_536], "maxOutputChars");
  }

  /** The key of digests; empty: none. */
  get digestKey(): Uint8Array {
    return this.#keys.digest;
  }

  /** Returns the arguments of a call, the digest of the whole, and where they are truncated. */
  args(
    args: Record<string, unknown>,
    action: string,
    effect: Effect,
  ): { args: { [name: string]: Json }; argsDigest: string; unreadFrom?: number } {
    const most = onlyKeeps(action, effect) ? this.#maxArgsBytes : this.#maxRunBytes;
    const { value, digest, unreadFrom } = plain(args, most, this.#keys);
    const shown = typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
    return { args: shown, argsDigest: digest, ...(unreadFrom === undefined ? {} : { unreadFrom }) };
  }

  /**
   * Returns `name=value` of simple arguments that are redacted or truncated, without secrets. Throws RangeError for
   * more than `most`, as the worker could not match those left out.
   */
  cutTargets(args: Record<string, unknown>, shown: { [name: string]: Json }, most: number): string[] {
    const left = Object.entries(args).filter(([name, value]) => isSimple(value) && shown[name] !== value);
    if (left.length > most) throw new RangeError(`expected at most ${most} simple arguments that are cut, got ${left.length}`);
    const texts = left.flatMap(([name, value]) => {
      // Alone, so that its name decides whether the value is a secret.
      const alone = plain({ [name]: value }, Number.POSITIVE_INFINITY, this.#keys).value;
      return simpleTargets(alone as Record<string, Json>).map((text) => this.text(text, MAX_TARGET_CHARS));
    });
    const still = new Set(simpleTargets(shown));
    return texts.filter((text) => !still.has(text));
  }

  /** Returns the description of a call's output. */
  output(value: unknown): Output {
    const most = this.#maxOutputChars;
    const text = typeof value === "string";
    const described = plain(value, text ? 0 : Math.max(most, 16), this.#keys);
    const shown = text ? value : typeof described.value === "string" ? described.value : encode(described.value);
    return {
      digest: !text && described.opaque ? null : described.digest,
      bytes: text ? Buffer.byteLength(wellFormed(value)) : described.sizeBytes,
      head: most ? plainText(shown, most, this.#keys) : null,
    };
  }

  /** Returns the description of a model turn's text. */
  turn(text: string): Output {
    return { ...this.output(text), repeats: repeats(text) };
  }

  /** Returns the description of a failure. */
  error(error: unknown): Outcome {
    const { outcome, text } = failure(error);
    return { outcome, error: plainText(text, MAX_ERROR_CHARS, this.#keys) };
  }

  /** Returns the complete text of an error, for use in this process only. */
  errorText(error: unknown): string {
    return failure(error).text;
  }

  /** Returns a digest, equal for equal texts, from which the text cannot be found. */
  digest(text: string): string {
    return plain(text, 0, this.#keys).digest;
  }

  /** Returns a name, a target or a goal without secrets, truncated. */
  text(text: string, maxChars = MAX_NAME_CHARS): string {
    return plainText(String(text), maxChars, this.#keys);
  }
}

function failure(error: unknown): { outcome: "error" | "timeout" | "unknown"; text: string } {
  if (typeof error === "string") return { outcome: "error", text: `ToolFailed: ${error}` };
  try {
    if (!(error instanceof Error)) return { outcome: "error", text: `Error: ${String(error)}` };
    const kinds = { TimeoutError: "timeout", AbortError: "unknown" } as const; // its progress is unknown
    return {
      outcome: Object.hasOwn(kinds, error.name) ? kinds[error.name as keyof typeof kinds] : "error",
      text: `${error.name}: ${error.message}`,
    };
  } catch {
    return { outcome: "error", text: "Error: <its message cannot be read>" };
  }
}

function whole(value: number | undefined, otherwise: number, [from, to]: readonly [number, number], field: string): number {
  if (value === undefined) return otherwise;
  if (Number.isSafeInteger(value) && value >= from && value <= to) return value;
  throw new RangeError(`${field}: expected a whole number from ${from} to ${to}, got ${value}`);
}
