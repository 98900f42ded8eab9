/** Texts for the model about its calls, with hints, and its usage; in the form of `@ai-sdk/provider`. */

import type { Denied, Usage } from "./options.js";
import { withHints } from "./texts.js";

/** A result in the form for a provider: `text`, `json`, `content`, `error-text` ... */
export interface Shown {
  readonly type: string;
  readonly value?: unknown;
}

/** Calls with stored hints: each turn sends the results of the conversation again. */
const MAX_CALLS = 1000;

/** Hints by the id of their call. */
export class HintsByCall {
  readonly #hints = new Map<string, string>();

  of(callId: string): string {
    return this.#hints.get(callId) ?? "";
  }

  /** Replaces those of an earlier call with this id: some servers number the calls of each response from zero. */
  set(callId: string, hints: string): void {
    this.#hints.delete(callId);
    if (hints) this.#hints.set(callId, hints);
    for (const oldest of this.#hints.keys()) {
      if (this.#hints.size <= MAX_CALLS) break;
      this.#hints.delete(oldest);
    }
  }
}

/** Returns the default form of a tool's output. */
export function shownOf(output: unknown): Shown {
  if (typeof output === "string") return { type: "text", value: output };
  return { type: "json", value: JSON.parse(JSON.stringify(output) ?? "null") };
}

/** Returns the result with hints appended. */
export function shownWith(shown: Shown, hints: string): Shown {
  const { type, value } = shown;
  if (!hints) return shown;
  if (type === "content" && Array.isArray(value)) return { ...shown, value: [...value, { type: "text", text: hints }] };
  const text = typeof value === "string" ? value : JSON.stringify(value ?? null);
  return { ...shown, type: type.startsWith("error") ? "error-text" : "text", value: withHints(text, hints) };
}

/** Returns a turn's usage from an input that includes cached tokens. */
export function usageOf(inputTokens: number | undefined, outputTokens: number | undefined, cached: number | undefined): Usage {
  const cacheReadTokens = Math.max(cached ?? 0, 0);
  return { inputTokens: Math.max((inputTokens ?? 0) - cacheReadTokens, 0), outputTokens: outputTokens ?? 0, cacheReadTokens };
}

/** Returns the error that a tool throws for a call that must not be made; the model reads its text. */
export function errorOf({ text, refused }: Denied): Error {
  const error = new Error(text, { cause: refused });
  error.name = refused.name;
  return error;
}
