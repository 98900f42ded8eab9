/** New words of a result in its session, counted like in the Python package (novelty.py has the error rates). */

import { wholeJson } from "./redaction/payload.js";
import { wellFormed } from "./redaction/unicode.js";
import type { Novelty } from "./transport.js";

const MAX_BYTES = 64 * 1024; // limit for a result, and for the arguments of a call: the rest is ignored
const CAPACITY = 3000; // the minimum number of words remembered
const BLOCKS = 1000;
const WORDS_PER_BLOCK = 2; // of 32 bits
const WORD = /[A-Za-z_]{3,}|[0-9]+/g;
const ESCAPE = /\\(?:u[0-9a-fA-F]{4}|[\s\S])/g;

/** Returns the distinct words of a result that consists of these values. */
export function wordsOf(...values: readonly unknown[]): Set<string> {
  return new Set(values.map(bytesOf).join("\n").slice(0, MAX_BYTES).match(WORD) ?? []);
}

/** Returns the beginning of a value in UTF-8, a character for each byte. */
function bytesOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  const isText = typeof value === "string";
  const text = isText ? wellFormed(value.slice(0, MAX_BYTES)) : wholeJson(value);
  const bytes = Buffer.from(text).toString("latin1", 0, MAX_BYTES);
  return isText ? bytes : bytes.replace(ESCAPE, " ");
}

/** Words of the results and arguments of one session: two blocked Bloom filters of 8,000 bytes each. */
export class SeenWords {
  #young = new Uint32Array(0);
  #old = new Uint32Array(0);
  #held = 0;
  #results = 0;

  /** Counts and stores the words of a result, given as these values, of a call with these arguments. */
  take(result: readonly unknown[], args?: Record<string, unknown>): Novelty {
    if (this.#young.length === 0) [this.#young, this.#old] = [emptyFilter(), emptyFilter()];
    this.#add(wordsOf(args));
    const words = wordsOf(...result);
    return { newWords: this.#add(words), words: words.size, results: this.#results++ };
  }

  /** Adds words. Returns how many are new. */
  #add(words: Iterable<string>): number {
    let fresh = 0;
    for (const word of words) {
      const hash = hashOf(word);
      const at = ((hash >>> 0) % BLOCKS) * WORDS_PER_BLOCK;
      const [low, high] = bitsOf(mixed(hash ^ 0x9e3779b9));
      if (holds(this.#young, at, low, high)) continue;
      if (!holds(this.#old, at, low, high)) fresh++;
      this.#young[at]! |= low;
      this.#young[at + 1]! |= high;
      if (++this.#held < CAPACITY) continue;
      [this.#old, this.#young, this.#held] = [this.#young, emptyFilter(), 0];
    }
    return fresh;
  }
}

function emptyFilter(): Uint32Array<ArrayBuffer> {
  return new Uint32Array(BLOCKS * WORDS_PER_BLOCK);
}

function holds(filter: Uint32Array, at: number, low: number, high: number): boolean {
  return (filter[at]! & low) === low && (filter[at + 1]! & high) === high;
}

/** Returns the bits that a word sets in its block, up to five of 64. */
function bitsOf(hash: number): [number, number] {
  let low = 0;
  let high = 0;
  for (let shift = 0; shift < 30; shift += 6) {
    const bit = (hash >>> shift) & 63;
    if (bit < 32) low |= 1 << bit;
    else high |= 1 << (bit - 32);
  }
  return [low, high];
}

/** FNV-1a. */
function hashOf(word: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < word.length; at++) hash = Math.imul(hash ^ word.charCodeAt(at), 0x01000193);
  return mixed(hash);
}

/** The final mix of MurmurHash3: each bit depends on all. */
function mixed(hash: number): number {
  let bits = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return bits ^ (bits >>> 16);
}
