/** Secrets without a distinctive form, found by an adjacent word, or by a random-looking value under a certain name. */

import { compiled, matchAt, oneOf } from "./forms.js";
import type { Found } from "./marks.js";
import { BESIDE } from "./tables.js";

const IDENTIFIER_CHARS = 64;
const LEAST_BITS = 3.2;
const TELLS = "key|token|secret|pass|passw|pw|auth|[_-]pat|creds?|credentials?|sas|psk|mnemonic|seed|dsn|webhook";
const JOINS = "[\"'`]{0,2}[ \\t]{0,4}(?:=>|:=|==?|:|[ \\t]is)[ \\t]{0,4}[\"'`]{0,2}";
const GAP = new RegExp(`([A-Za-z0-9_.-]{0,40}(?: (?:[A-Za-z]{2,12} ){0,2}?[A-Za-z]{2,12})?)${JOINS}`, "y");
const TELLING = new RegExp(`(?:${TELLS})(?:[_-][A-Za-z0-9_-]{0,14}|[0-9]{0,3})$`, "i");
const IDENTIFIER = /[A-Za-z0-9_.-]{0,60}$/;
const WEAK_WORDS = ["key", "pass", "_pw", "auth", "_pat", "cred", "creds", "_sas", "psk", "mnemonic", "dsn"];
const WEAK = new RegExp(`(${JOINS})([A-Za-z0-9+/=_.~!@#%^*-]{16,512})(?![A-Za-z0-9])`, "y");
const NO_SECRETS_NAME = new RegExp(
  "public|primary|foreign|cache|partition|sort|row|index|dedup|idempot|routing|group|object|fingerprint|loop|lookup" +
    "|hash|digest|sum\\b|map|event|unique|join|natural|composite|bucket|path|file|ssh|known|host|config|i18n|label|stack",
  "i",
);
const DIGEST =
  /^(?:(?:0x)?[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?:sha|md5|blake)[0-9a-z]{0,4}[:-].*|[0-9.,:-]+)$/;
const PASS =
  /((?:=["']?|\\?["'][ \t]{0,4}:[ \t]{0,4}\\?["']|["']\][ \t]{0,4}=[ \t]{0,4}["'])(?!\$|[{<(]))([^ \t\r\n"'&,;[\\(]{3,128})(?![A-Za-z0-9(])/uy;
const PASS_NAME =
  /(?:^|[^A-Za-z]|db|user|root|admin|smtp|mail|ftp|ssh|redis|proxy|bind|auth|sudo|my|usr|login|ldap)$/i;
const NO_PASS = /^(?:true|false|none|null|yes|[0-9]{1,5}%?|ed(?![A-Za-z0-9_]).*)$/i;

const PROVIDERS = oneOf([...new Set(BESIDE.flatMap((row) => row.words))].sort());
const FORMS = new Map<string, { kind: string; form: string }[]>();
for (const { kind, words, form } of BESIDE) {
  for (const word of words) {
    FORMS.set(word, [...(FORMS.get(word) ?? []), { kind, form: `(?:${form})(?![A-Za-z0-9+/_=-])` }]);
  }
}

/** Returns the secrets beside such a word; `lower` is the text in lower case. */
export function findBeside(text: string, lower: string): Found[] {
  const found: Found[] = [];
  for (const word of lower.matchAll(compiled(PROVIDERS, "g"))) {
    const at = word.index + word[0].length;
    const gap = matchAt(GAP, text, at);
    if (gap === null || !TELLING.test(text.slice(word.index, at + gap[1]!.length))) continue;
    for (const { kind, form } of FORMS.get(word[0])!) {
      const start = at + gap[0].length;
      const secret = matchAt(compiled(form, "uy"), text, start);
      if (secret === null) continue;
      found.push({ start, end: start + secret[0].length, kind });
      break;
    }
  }
  return found;
}

/** Returns random-looking values under a name such as `storage_key`; under `pass`, any value. */
export function findRandom(text: string, lower: string): Found[] {
  const found: Found[] = [];
  for (const name of WEAK_WORDS) {
    for (let at = lower.indexOf(name); at >= 0; at = lower.indexOf(name, at + name.length)) {
      const one = weak(text, name, at);
      if (one !== undefined) found.push(one);
    }
  }
  return found;
}

function weak(text: string, name: string, at: number): Found | undefined {
  const after = at + name.length;
  const before = text.slice(Math.max(0, at - IDENTIFIER_CHARS), at);
  if (name === "pass") {
    const short = matchAt(PASS, text, after);
    if (short !== null && PASS_NAME.test(before) && !NO_PASS.test(short[2]!)) return behind(short, after, "password");
  }
  const secret = matchAt(WEAK, text, after);
  if (secret === null || !isRandom(secret[2]!)) return undefined;
  const identifier = IDENTIFIER.exec(before)?.[0] ?? "";
  if (name === "key" && !/[^_.-]/.test(identifier)) return undefined; // too generic a name
  return NO_SECRETS_NAME.test(identifier) ? undefined : behind(secret, after, name.replace(/^_/, ""));
}

function behind(match: RegExpExecArray, at: number, kind: string): Found {
  const start = at + match[1]!.length;
  return { start, end: start + match[2]!.length, kind };
}

/** Returns whether a text looks random: letters of both cases and digits in one run, evenly spread. */
function isRandom(text: string): boolean {
  if (DIGEST.test(text)) return false;
  const runs = text.match(/[A-Za-z0-9+]{12,}/g) ?? [];
  if (!runs.some((run) => /[0-9]/.test(run) && /[a-z]/.test(run) && /[A-Z]/.test(run))) return false;
  const counts = new Map<string, number>();
  for (const letter of text) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length);
  return bits >= LEAST_BITS;
}
