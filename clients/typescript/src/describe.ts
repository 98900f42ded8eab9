/** Calls and results as they may leave the process. */
import type { Effect, Json, Outcome, Output } from "./transport.js";

/** How much leaves the process. */
export interface Redaction {
  /** Makes digests useless without it; the same for all agents whose calls are compared. */
  readonly digestKey?: string | undefined;
  /** Also take out what belongs to persons. Wants a `digestKey`. */
  readonly redactPii?: boolean | undefined;
  /** How much of the beginning of an output is published; 0: nothing. 512 by default. */
  readonly maxOutputChars?: number | undefined;
}

export function wellFormed(text: string): string {
  return text.replace(/[\ud800-\udfff]/gu, "?");
}
export function describeText(text: string, _: Redaction, maxChars = 504): string {
  return wellFormed(text).slice(0, maxChars);
}
export function describeArgs(args: Record<string, unknown>, _a: string, _e: Effect, _: Redaction): { args: { [name: string]: Json }; argsDigest: string; unreadFrom?: number } {
  return { args: JSON.parse(JSON.stringify(args)), argsDigest: "" };
}
export function describeOutput(output: unknown, _: Redaction): Output {
  const text = typeof output === "string" ? output : JSON.stringify(output);
  return { digest: null, bytes: Buffer.byteLength(text), head: text.slice(0, 512) };
}
export function describeError(error: unknown, _: Redaction): Outcome {
  return { outcome: "error", error: String(error) };
}
