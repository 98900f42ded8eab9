/** Conversion of verdicts to results and errors, with validated fields. */

import type { Denied } from "./options.js";
import { head, isLonger, wellFormed } from "./redaction/unicode.js";
import { Refused } from "./refused.js";
import { withHints } from "./texts.js";
import type { Effect, Verdict } from "./transport.js";

const MAX_ID_CHARS = 256;

export function refusedOf(verdict: Verdict): Refused {
  const { requestId, expires } = verdict;
  const approval = requestId === undefined ? undefined : { requestId, ...(expires === undefined ? {} : { expires }) };
  const refused = new Refused(verdict.code ?? "refused", verdict.message ?? "This was refused.", approval);
  refused.checkpoint = verdict.checkpoint;
  return refused;
}

export function withOwnHints(refused: Refused, hints: string): Refused {
  refused.hints = hints;
  return refused;
}

export function denied(refused: Refused, hints: string): Denied {
  refused.hints = hints;
  return { allowed: false, text: withHints(refused.message, hints), code: refused.code, refused };
}

export function own(effects: Readonly<Record<string, Effect>> | undefined, name: string): Effect | undefined {
  return effects !== undefined && Object.hasOwn(effects, name) ? effects[name] : undefined;
}

export function key(callId: string): string {
  return wellFormed(head(String(callId), MAX_ID_CHARS));
}

export function id(text: string, field: string): string {
  if (typeof text === "string" && text && !isLonger(text, MAX_ID_CHARS)) return wellFormed(text);
  throw new RangeError(`${field}: expected a text of 1 to ${MAX_ID_CHARS} characters, got ${JSON.stringify(text)?.slice(0, 80)}`);
}

export function checked(value: string | undefined, known: readonly string[], field: string): void {
  if (value === undefined || known.includes(value)) return;
  throw new RangeError(`${field}: expected one of ${known.join(", ")}, got ${JSON.stringify(value)?.slice(0, 80)}`);
}
