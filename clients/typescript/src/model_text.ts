/** What a model reads of its calls, with hints, and what it uses. The form is that of `@ai-sdk/provider`, which both adapters have. */

import type { Denied } from "./options.js";
import { withHints } from "./texts.js";
import type { Usage } from "./transport.js";

/** A result as a provider is given it: `text`, `json`, `content`, `error-text` ... */
export interface Shown {
  readonly type: string;
  readonly value?: unknown;
}

/** Calls whose hints are kept: the results of a conversation are sent again with each of its turns. */
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

/** What is made of a tool's output where the tool does not say it. */
export function shownOf(output: unknown): Shown {
  if (typeof output === "string") return { type: "text", value: output };
  return { type: "json", value: JSON.parse(JSON.stringify(output) ?? "null") };
}

/** The same with hints after it. */
export function shownWith(shown: Shown, hints: string): Shown {
  const { type, value } = shown;
  if (!hints) return shown;
  if (type === "content" && Array.isArray(value)) return { ...shown, value: [...value, { type: "text", text: hints }] };
  const text = typeof value === "string" ? value : JSON.stringify(value ?? null);
  return { ...shown, type: type.startsWith("error") ? "error-text" : "text", value: withHints(text, hints) };
}

/** A turn's usage, where the input is counted with what came from the cache. */
export function usageOf(inputTokens: number | undefined, outputTokens: number | undefined, cached: number | undefined): Usage {
  const cacheReadTokens = Math.max(cached ?? 0, 0);
  return { inputTokens: Math.max((inputTokens ?? 0) - cacheReadTokens, 0), outputTokens: outputTokens ?? 0, cacheReadTokens };
}

/** What a tool throws in place of a call that must not be made; the model reads its text. */
export function errorOf({ text, refused }: Denied): Error {
  const error = new Error(text, { cause: refused });
  error.name = refused.name;
  return error;
}
