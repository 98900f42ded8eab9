/**
 * Marks in place of secrets: `[redacted:kind]`, with a digest under a key, which identifies equal secrets. One mark
 * replaces overlapping ranges; its kind and digest are those of the first one given.
 */

import { blake2b } from "./blake2b.js";
import { wellFormed } from "./unicode.js";

const MARK = /\[redacted:[\p{L}\p{N}_]+(?::[0-9a-f]{8})?\]/gu;

/** A range of a text, from `start` to before `end`, and its kind of secret. */
export interface Found {
  readonly start: number;
  readonly end: number;
  readonly kind: string;
  /** The kind as marks name it, if it differs. */
  readonly shown?: string;
}

/** Returns 8 hex digits, equal for equal secrets under one key. */
export function secretDigest(secret: string, key: Uint8Array): string {
  return blake2b(Buffer.from(wellFormed(secret)), 4, key.subarray(0, 64));
}

/** Returns `[redacted:kind:digest]`; without a key no digest, as it could be guessed from. */
export function mark(kind: string, secret = "", key: Uint8Array = new Uint8Array()): string {
  if (key.length === 0) return `[redacted:${kind}]`;
  return `[redacted:${kind}:${secretDigest(secret, key)}]`;
}

/** Returns the text with marks in these ranges. Existing marks stay. */
export function marked(text: string, found: readonly Found[], key?: Uint8Array): string {
  if (found.length === 0) return text;
  const kept: string[] = [];
  let done = 0;
  for (const { start, end, first } of withoutMarks(text, joined(found))) {
    kept.push(text.slice(done, start), mark(first.shown ?? first.kind, text.slice(first.start, first.end), key));
    done = end;
  }
  return kept.join("") + text.slice(done);
}

interface Place {
  start: number;
  end: number;
  first: Found;
}

function joined(found: readonly Found[]): Place[] {
  const ordered = found.map((one, order) => ({ ...one, order })).filter((one) => one.end > one.start);
  ordered.sort((a, b) => a.start - b.start || a.end - b.end || a.order - b.order);
  const places: { start: number; end: number; order: number }[] = [];
  for (const one of ordered) {
    const last = places.at(-1);
    if (last !== undefined && one.start < last.end) {
      last.end = Math.max(last.end, one.end);
      last.order = Math.min(last.order, one.order);
    } else {
      places.push({ start: one.start, end: one.end, order: one.order });
    }
  }
  return places.map(({ start, end, order }) => ({ start, end, first: found[order]! }));
}

function withoutMarks(text: string, places: Place[]): Place[] {
  if (!text.includes("[redacted:")) return places;
  const marks = [...text.matchAll(MARK)].map((one) => [one.index, one.index + one[0].length] as const);
  const left: Place[] = [];
  for (const { start, end, first } of places) {
    let at = start;
    for (const [begin, until] of marks) {
      if (begin >= end || until <= at) continue;
      if (at < begin) left.push({ start: at, end: begin, first });
      at = until;
    }
    if (at < end) left.push({ start: at, end, first });
  }
  return left;
}
