/** Passwords in command lines, by their programs' options in `tables.ts`, as described in the Python package. */

import type { Json } from "../transport.js";
import { compiled, escaped, isOfBoth } from "./forms.js";
import type { Found } from "./marks.js";
import { PROGRAMS } from "./tables.js";

const KIND = "password";
const MOST_CHARS = 8192;
const MOST_ITEMS = 256;
const LONG_CHARS = 24;
const BUNDLE = /^-[A-WYZa-z]{2,8}$/;
const NO_SECRET =
  /^(?:\$[({A-Za-z_@]|[<{`@]|%[A-Za-z_]+%|-{0,2}$|env:|file:|fd:|stdin$|pass:$|\[redacted:|(?:null|none|nil|true|false|undefined)$)/i;

/** An argument of a command line: its text, and its place. */
export interface Argument {
  readonly text: string;
  readonly start: number;
}

interface Value {
  readonly option: string;
  readonly separator: string;
  readonly attachedOnly: boolean;
  /** Position of an argument that is no option; 0: an option's value, -1: each. */
  readonly place: number;
  readonly inDoubt: boolean;
}

interface Row {
  readonly values: readonly Value[];
  readonly isAfter: ((text: string) => boolean) | undefined;
  readonly hasEnds: boolean;
}

type Place = readonly [start: number, end: number];

/** Returns whether it is a variable, a command, a template, a file, or an empty value. */
export function isNoSecret(text: string): boolean {
  return NO_SECRET.test(text);
}

function valueOf(written: string): Value {
  const at = written.indexOf(" ");
  const option = at < 0 ? written : written.slice(0, at);
  const separator = at < 0 ? "" : written.slice(at + 1);
  if (!option.startsWith("#")) {
    return { option: option.replace(/(?<!\*)\*+$/, ""), separator, attachedOnly: option.endsWith("*"), place: 0, inDoubt: false };
  }
  if (option.startsWith("#*")) return { option: "", separator: option.slice(2), attachedOnly: false, place: -1, inDoubt: false };
  const place = Number(option.replace(/[#?]/g, ""));
  return { option: "", separator, attachedOnly: false, place, inDoubt: option.endsWith("?") };
}

const ROWS = new Map<string, Row[]>();
for (const { programs, values, after } of PROGRAMS) {
  const exact = after?.filter((word) => !word.includes("*")) ?? [];
  const ends = after?.filter((word) => word.startsWith("*")).map((word) => word.slice(1)) ?? [];
  const begins = after?.filter((word) => word.endsWith("*")).map((word) => word.slice(0, -1)) ?? [];
  const isAfter = (text: string) =>
    exact.includes(text) || ends.some((end) => text.endsWith(end)) || begins.some((begin) => text.startsWith(begin));
  const row = { values: values.map(valueOf), isAfter: after === undefined ? undefined : isAfter, hasEnds: ends.length > 0 };
  for (const program of programs) ROWS.set(program, [...(ROWS.get(program) ?? []), row]);
}
const NAMES = [...ROWS.keys()].sort((a, b) => b.length - a.length).map(escaped).join("|");
const PROGRAM = String.raw`(?<![A-Za-z0-9_.\-])(${NAMES})(?:\.exe)?["']?(?:\\\n)?[ \t]`;

function* placesOf(row: Row, args: readonly Argument[]): Generator<Place> {
  let first = 0;
  if (row.isAfter !== undefined) {
    first = args.findIndex((one) => row.isAfter!(one.text)) + 1;
    if (first === 0) return;
  }
  const named = args.slice(first).filter((one) => !one.text.startsWith("-"));
  for (const value of row.values) {
    if (value.place !== 0) {
      const some = value.place < 0 ? named : named.slice(value.place - 1, value.place);
      for (const one of some) yield* partOf(one.text, one.start, value);
    } else {
      yield* ofOption(row.hasEnds ? args.slice(first) : args, value);
    }
  }
}

function* ofOption(args: readonly Argument[], value: Value): Generator<Place> {
  const { option } = value;
  const isLetter = option.length === 2 && option.startsWith("-");
  for (const [at, { text, start }] of args.entries()) {
    const next = args[at + 1];
    if (text === option || (isLetter && value.separator && BUNDLE.test(text) && text.endsWith(option[1]!))) {
      if (!value.attachedOnly && next !== undefined) yield* partOf(next.text, next.start, value);
    } else if (text.startsWith(option)) {
      let behind = option.length;
      if (["=", ":"].includes(text[behind] ?? "") && !option.endsWith(":")) behind++;
      else if (!(isLetter || value.attachedOnly)) continue;
      yield* partOf(text.slice(behind), start + behind, value);
    }
  }
}

function isQuoted(text: string): boolean {
  return text.length > 1 && (text.startsWith("'") || text.startsWith('"')) && text.endsWith(text[0]!);
}

function* partOf(text: string, start: number, value: Value): Generator<Place> {
  if (isQuoted(text)) [text, start] = [text.slice(1, -1), start + 1];
  const { separator } = value;
  if (separator) {
    const before = text.indexOf(separator);
    if (before < 0 || (before === 0 && "%/=,".includes(separator))) return;
    start += before + separator.length;
    text = text.slice(before + separator.length);
    if (separator === "/") text = text.split("@")[0]!;
    if (isQuoted(text)) [text, start] = [text.slice(1, -1), start + 1];
  }
  if (!text || isNoSecret(text) || (value.inDoubt && text.length <= LONG_CHARS && !isOfBoth(text))) return;
  yield [start, start + text.length];
}

/** Returns the secrets of a text's command lines. */
export function findCommandLines(text: string): Found[] {
  const found: Found[] = [];
  const done = new Map<string, number>(); // a program's name among its own arguments starts no other command line
  for (const match of text.matchAll(compiled(PROGRAM, "g"))) {
    const name = match[1]!;
    if (match.index < (done.get(name) ?? 0)) continue;
    const args = [...argumentsOf(text, match.index, match.index + match[0].length)];
    const last = args.at(-1);
    if (last !== undefined) done.set(name, last.start + last.text.length);
    for (const row of ROWS.get(name)!) {
      for (const [start, end] of placesOf(row, args)) found.push({ start, end, kind: KIND });
    }
  }
  return found;
}

/** Returns the secret parts of a list's items, by index. */
export function secretItems(items: readonly Json[]): Map<number, Place> {
  const texts = items.slice(0, MOST_ITEMS).map((item) => (typeof item === "string" ? item : ""));
  const places = new Map<number, Place>();
  for (const [first, name] of texts.entries()) {
    const rows = ROWS.get(name.slice(name.lastIndexOf("/") + 1).replace(/\.exe$/, "")) ?? [];
    if (rows.length === 0) continue;
    let at = 0;
    const args = texts.slice(first + 1).map((text) => {
      const start = at;
      at += text.length + 1;
      return { text, start };
    });
    for (const row of rows) {
      for (const [start, end] of placesOf(row, args)) {
        const item = args.findLastIndex((one) => one.start <= start);
        places.set(first + 1 + item, [start - args[item]!.start, end - args[item]!.start]);
      }
    }
  }
  return places;
}

/** Yields the arguments of the command line at this place, without their quotes. */
export function* argumentsOf(text: string, program: number, at: number): Generator<Argument> {
  const outer = openQuote(text, program);
  const until = Math.min(text.length, at + MOST_CHARS);
  for (let count = 0; count < MOST_ITEMS; count++) {
    while (at < until && (" \t".includes(text[at]!) || text.startsWith("\\\n", at))) at += text[at] === "\\" ? 2 : 1;
    if (at >= until || isLineEnd(text[at]!) || text[at] === outer) return;
    const start = at;
    at = endOfArgument(text, at, until, outer);
    if (at === start) return;
    const written = text.slice(start, at);
    if (isQuoted(written) && written.split(written[0]!).length === 3) yield { text: written.slice(1, -1), start: start + 1 };
    else yield { text: written, start };
  }
}

function isLineEnd(letter: string): boolean {
  return ";|&)`\n".includes(letter);
}

function endOfArgument(text: string, at: number, until: number, outer: string): number {
  let quote = "";
  while (at < until) {
    const letter = text[at]!;
    if (letter === "\\" && quote !== "'" && at + 1 < until) {
      if (text[at + 1] === "\n" || (outer && text[at + 1] === outer && quote === "")) return at;
      at += 2;
      continue;
    }
    if (quote) {
      if (letter === quote) quote = "";
      else if (letter === "\n" || letter === outer) return at;
    } else if (letter === outer || " \t".includes(letter) || isLineEnd(letter)) {
      return at;
    } else if (letter === '"' || letter === "'") {
      quote = letter;
    }
    at++;
  }
  return at;
}

/** Returns the quote around the command line itself; empty without one. */
function openQuote(text: string, at: number): string {
  const line = text.slice(Math.max(text.lastIndexOf("\n", at - 1) + 1, at - 512, 0), at).replace(/\\["']/g, "");
  let open = "";
  for (const quote of ['"', "'"]) {
    if (line.split(quote).length % 2 === 0 && line.lastIndexOf(quote) > (open ? line.lastIndexOf(open) : -1)) open = quote;
  }
  return open;
}

