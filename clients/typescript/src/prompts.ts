/** The prompts of a session's user, of which only digests are kept. */

import { GO_ON } from "./verbs.js";

const WORD = /[\p{L}\p{N}_]+/gu;
const MOST_WORDS = 16;
const goOn: ReadonlySet<string> = new Set(GO_ON);

/** Returns a prompt's words, whatever their case and punctuation; empty if it only says to go on. */
export function newWords(text: string): string {
  const words = text.toLowerCase().match(WORD) ?? [];
  return words.length <= MOST_WORDS && words.every((word) => goOn.has(word)) ? "" : words.join(" ");
}

/** The prompts of one session. */
export class Prompts {
  /** The first prompt, and those after it that said something new. */
  count = 0;
  readonly #digest: (text: string) => string;
  readonly #earlier = new Set<string>();

  constructor(digest: (text: string) => string) {
    this.#digest = digest;
  }

  /** Counts a prompt; returns whether it is the first one, or says something new. */
  take(text: string): boolean {
    const words = newWords(text);
    const digest = this.#digest(words);
    if (this.count > 0 && (words === "" || this.#earlier.has(digest))) return false;
    this.count += 1;
    this.#earlier.add(digest);
    if (this.#earlier.size > 256) for (const oldest of this.#earlier) return this.#earlier.delete(oldest);
    return true;
  }
}
