/** Secrets that are piped, or given as a here-document, to a program that reads a password from standard input. */

import { argumentsOf, isNoSecret } from "./command_lines.js";
import { matchAt } from "./forms.js";
import type { Found } from "./marks.js";

const KIND = "password";
const LINE_CHARS = 400;
const DOCUMENT_CHARS = 4096;
const READER = new RegExp(
  [
    String.raw`--password-stdin|--with-token|--pass(?:word|phrase)-(?:fd|stdin)|--(?:pw|token|key|secret|pass)-stdin`,
    String.raw`-pass(?:in|out)?[ \t]+(?:stdin|fd:)|sudo(?:[ \t]+-[A-Za-z-]+(?:[ \t]+root)?)*[ \t]+(?:-[A-Za-z]{0,4}S|--stdin)`,
    String.raw`chpasswd|smbpasswd|kinit|luks(?:Format|Open|AddKey)|secrets?[ \t:]+(?:set|create|put|add)|vault[ \t]+login`,
    String.raw`pass[ \t]+insert|htpasswd[ \t]+-[A-Za-z]*i|auth[ \t]+login|apikey[ \t]+set|login[ \t]+-{1,2}stdin|[ \t]su[ \t]`,
    String.raw`(?:^|[|;&\n]|sudo)[ \t]*passwd(?![A-Za-z0-9_.:-])|(?:file|key|pass\w{0,8})[= \t]+/dev/stdin|--password(?:-file)?[= ]-(?![A-Za-z0-9_-])`,
    String.raw`ansible-vault[ \t]+encrypt_string|(?:npm|pnpm|yarn)[ \t]+(?:login|adduser)`,
    String.raw`file=(?:[\w.-]{1,60}=)?/dev/stdin|data-file=-`,
    String.raw`ssh-add[ \t]+-(?![\w-])|env[ \t]+add[ \t]|(?:kv|versions)[ \t]+(?:put|add)[ \t]|cryptsetup[ \t]`,
  ].join("|"),
);
const PRODUCER = /(?<![A-Za-z0-9_.-])(?:echo|printf|Write-Output|Write-Host)[ \t]/g;
const HERE = /<<<[ \t]*(?:"([^"\n]{1,256})"|'([^'\n]{1,256})'|([^ \t\n"';|&)]{1,256}))/dy;
const DOCUMENT = /<<-?[ \t]*["']?([A-Za-z_][A-Za-z0-9_]{0,40})["']?[^\n]{0,200}\n/y;
const PAIR = /[^ \t\r\n:\\]{1,64}:((?:[^ \t\r\n\\]|\\(?!n)){1,256})/dg;

type Place = readonly [start: number, end: number];

/** Returns the secrets of a text that are piped or given as a document. */
export function findPiped(text: string): Found[] {
  if (!READER.test(text)) return [];
  return [...echoed(text), ...inDocuments(text)].map(([start, end]) => ({ start, end, kind: KIND }));
}

function* echoed(text: string): Generator<Place> {
  for (const producer of text.matchAll(PRODUCER)) {
    const args = [...argumentsOf(text, producer.index, producer.index + producer[0].length)];
    const last = args.at(-1);
    if (last === undefined) continue;
    let at = last.start + last.text.length;
    while (at < text.length && " \t\"'\\".includes(text[at]!)) at++;
    if (text[at] !== "|" || text[at + 1] === "|") continue;
    const reader = READER.exec(lineFrom(text, at));
    if (reader === null) continue;
    for (const one of args) {
      if (!one.text.startsWith("-") && !one.text.includes("%s")) yield* secretsOf(one.text, one.start, isOfPairs(reader));
    }
  }
}

function* inDocuments(text: string): Generator<Place> {
  let at = text.indexOf("<<");
  while (at >= 0) {
    const first = Math.max(text.lastIndexOf("\n", at - 1) + 1, at - LINE_CHARS, 0);
    const reader = READER.exec(text.slice(first, at) + lineFrom(text, at));
    let done = at + 3;
    if (reader !== null) {
      for (const [start, end] of inputTexts(text, at)) {
        yield* secretsOf(text.slice(start, end), start, isOfPairs(reader));
        done = end;
      }
    }
    at = text.indexOf("<<", done);
  }
}

/** Yields the text after `<<<`, or the lines of a document. */
function* inputTexts(text: string, at: number): Generator<Place> {
  const here = matchAt(HERE, text, at);
  if (here !== null) {
    yield here.indices![1] ?? here.indices![2] ?? here.indices![3]!;
    return;
  }
  const document = matchAt(DOCUMENT, text, at);
  if (document === null) return;
  let start = at + document[0].length;
  for (const line of text.slice(start, start + DOCUMENT_CHARS).split("\n")) {
    if (line.replace(/^[ \t\r]+|(?<![ \t\r])[ \t\r]+$/g, "") === document[1]) return;
    yield [start, start + line.length];
    start += line.length + 1;
  }
}

function isOfPairs(reader: RegExpExecArray): boolean {
  return reader[0].includes("chpasswd");
}

function lineFrom(text: string, at: number): string {
  return text.slice(at, at + LINE_CHARS).split("\n")[0]!;
}

function* secretsOf(line: string, at: number, isPair: boolean): Generator<Place> {
  if (isPair) {
    for (const pair of line.matchAll(PAIR)) {
      const [start, end] = pair.indices![1]!;
      if (!isNoSecret(pair[1]!)) yield [at + start, at + end];
    }
  } else if (/[^ \t\r]/.test(line) && !isNoSecret(line)) {
    yield [at, at + line.length];
  }
}
