/** Secrets recognized by their form, as in `tables.ts`; the Python package describes its columns. */

import type { Found } from "./marks.js";
import { FORMS, type FormRow } from "./tables.js";

const NEAR_CHARS = 200;
const AHEAD_CHARS = 300;
const LEAST_DISTINCT = 6;
// An escaped line break or character precedes a word as a space does.
const BEFORE = String.raw`(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))`;
const BEHIND = "(?![A-Za-z0-9_])";
const WORD = /^(?:[a-z-]{1,24}|[A-Z]?[a-z]{1,23})$/;

const compiledForms = new Map<string, RegExp>();

/** Returns a regular expression, compiled on first use. */
export function compiled(pattern: string, flags: string): RegExp {
  const name = `${flags} ${pattern}`;
  let form = compiledForms.get(name);
  if (form === undefined) compiledForms.set(name, (form = new RegExp(pattern, flags)));
  return form;
}

/** Returns its match at this place, or with the flag `g` from there on. */
export function matchAt(form: RegExp, text: string, at: number): RegExpExecArray | null {
  form.lastIndex = at;
  return form.exec(text);
}

/** Returns whether it has ASCII letters and digits. */
export function isOfBoth(text: string): boolean {
  return /[0-9]/.test(text) && /[A-Za-z]/.test(text);
}

/** Returns a regular expression for the shortest of these texts at a place; each letter is read once. */
export function oneOf(words: readonly string[]): string {
  const letters = new Map<string, string[]>();
  for (const word of words) {
    const below = letters.get(word[0]!) ?? [];
    letters.set(word[0]!, below);
    below.push(word.slice(1));
  }
  const ways = [...letters].map(([letter, below]) => escaped(letter) + (below.includes("") ? "" : oneOf(below)));
  return ways.length === 1 ? ways[0]! : `(?:${ways.join("|")})`;
}

/** Escapes a text for a regular expression. */
export function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&").replaceAll("\n", "\\n");
}

function patternOf(row: FormRow): string {
  const before = row.back || (row.starts === undefined && row.inside === undefined) ? BEFORE : "";
  return `${before}(?:${row.form})${row.open ? "" : BEHIND}`;
}

/** Returns the secret of a match in a text that starts at `base`, if it is one. */
function secretOf(row: FormRow, text: string, match: RegExpExecArray, base: number): Found | undefined {
  const [start, end] = match.indices?.[1] ?? match.indices![0]!;
  const secret = match.input.slice(start, end);
  if (row.check === "mixed" && (new Set(secret).size < LEAST_DISTINCT || !isOfBoth(secret))) return undefined;
  if (row.check === "not a word" && WORD.test(secret)) return undefined;
  const at = base + start;
  if (row.needs !== undefined && !text.slice(Math.max(0, at - NEAR_CHARS), at).toLowerCase().includes(row.needs)) return undefined;
  return { start: at, end: base + end, kind: row.kind, ...(row.as === undefined ? {} : { shown: row.as }) };
}

function formAt(row: FormRow, text: string, at: number): Found | undefined {
  if (!row.back) {
    const match = matchAt(compiled(patternOf(row), "uyd"), text, at);
    return match === null ? undefined : secretOf(row, text, match, 0);
  }
  const first = Math.max(0, at - row.back);
  const base = Math.max(0, first - 3);
  const match = matchAt(compiled(patternOf(row), "ugd"), text.slice(base, at + AHEAD_CHARS), first - base);
  return match === null || base + match.index > at ? undefined : secretOf(row, text, match, base);
}

type Start = readonly [start: string, row: FormRow];
const STARTS: readonly Start[] = FORMS.flatMap((row) => (row.starts ?? []).map((start): Start => [start, row]));
const SHORTEST = STARTS.map(([start]) => start).filter(
  (start) => !STARTS.some(([other]) => other !== start && start.startsWith(other)),
);
const BY_START = new Map<string, Start[]>();
for (const one of [...STARTS].sort(([a], [b]) => b.length - a.length)) {
  const short = SHORTEST.find((start) => one[0].startsWith(start))!;
  BY_START.set(short, [...(BY_START.get(short) ?? []), one]);
}
const ANY_START = BEFORE + oneOf([...BY_START.keys()]);
const INSIDE = FORMS.flatMap((row) => (row.inside ?? []).map((inside): Start => [inside, row]));
const ANY_INSIDE = oneOf([...new Set(INSIDE.map(([inside]) => inside))]);
const ANYWHERE = FORMS.filter((row) => row.starts === undefined && row.inside === undefined);

/** Returns the secrets of a text that have a form. */
export function findForms(text: string): Found[] {
  const found: Found[] = [];
  let done = 0;
  for (const match of text.matchAll(compiled(ANY_START, "ug"))) {
    const at = match.index;
    if (at < done) continue;
    for (const [start, row] of BY_START.get(match[0]) ?? []) {
      const one = text.startsWith(start, at) ? formAt(row, text, at) : undefined;
      if (one !== undefined) {
        found.push(one);
        done = one.end;
        break;
      }
    }
  }
  const some = compiled(ANY_INSIDE, "u").test(text) ? INSIDE : [];
  for (const [inside, row] of some) {
    let at = text.indexOf(inside);
    while (at >= 0) {
      const one = formAt(row, text, at);
      if (one !== undefined) found.push(one);
      at = text.indexOf(inside, Math.max(at + 1, one?.end ?? 0));
    }
  }
  for (const row of ANYWHERE) {
    for (const match of text.matchAll(compiled(patternOf(row), "ugd"))) {
      const one = secretOf(row, text, match, 0);
      if (one !== undefined) found.push(one);
    }
  }
  return found;
}
