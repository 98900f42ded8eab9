/**
 * Redaction of secrets before anything leaves the process. They are recognized by their form, by a provider's name
 * beside them, by their own name, and in command lines by the program's options. The rules are those of the Python
 * package, which writes `test/vectors.json` to check that both find the same.
 */

import type { Json } from "../transport.js";
import { findBeside, findRandom } from "./beside.js";
import { findCommandLines, secretItems } from "./command_lines.js";
import { namesOfFields } from "./fields.js";
import { findForms, isOfBoth } from "./forms.js";
import { type Found, mark, marked } from "./marks.js";
import { findNamed, kindOf, NO_COUNT, NO_TOKEN, NO_VALUE, OF_OPTIONS, OPTION_NAME, PATH } from "./named.js";
import { findPiped } from "./piped.js";
import { isTemplate } from "./stand_ins.js";
import { anyCase, isLonger } from "./unicode.js";

const MAX_DEPTH = 64;
const NAME_CHARS = 12; // a shorter name of a field has no secret in it
const BEFORE_KEY = ["api", "access", "account", "private", "app", "application", "master", "encryption", "signing"];
const NAMES = ["secret", "token", "password", "passwd", "passphrase", "passcode", "presharedkey", "client-key-data"];
const DOUBTFUL = ["key", "pass", "pw", "pat", "sas", "psk", "dsn"];

const KEY = new RegExp(
  [
    "(?:",
    `(?:${[...BEFORE_KEY, "license", "subscription"].map(anyCase).join("|")})[_-]?${anyCase("key")}`,
    ...NAMES.map((name) => `|${anyCase(name)}`.replaceAll("-", "\\x2d")),
    `|${anyCase("pwd")}$|${anyCase("authorization")}|${anyCase("credential")}`,
    `|${anyCase("auth")}[_-]?${anyCase("header")}|${anyCase("auth")}$|${anyCase("cookie")}(?=${anyCase("s")}?$)`,
    `|(?<doubtful>${DOUBTFUL.map((name) => `${anyCase(name)}$`).join("|")}|${anyCase("cred")}${anyCase("s")}?$))`,
  ].join(""),
  "u",
);
/** Without a match there is no named secret, as in most texts. */
const MAY_BE_NAMED = /key|token|secret|pass|pw|auth|cookie|[_-]pat|cred|sas|psk|mnemonic|seed|dsn|webhook/;
const ITEM_OPTION = new RegExp(`^-{1,2}(?!-|no-)${OPTION_NAME}{1,60}$`, "u");
const ITEM_VALUE = new RegExp(`^(?!-|\\[redacted:)${NO_VALUE}${NO_COUNT}`, "u");

/** Returns the kind of secret under such a name, or undefined. */
export function kindOfName(name: string): string | undefined {
  return kindOfField(name) || undefined;
}

/** Returns the kind of a field by its name; empty: the value decides; undefined: no secret. */
function kindOfField(name: string): string | undefined {
  const found = KEY.exec(name);
  if (found === null || name.includes("[redacted:")) return undefined;
  if (found[0].toLowerCase() === "token" && NO_TOKEN.test(name.slice(0, found.index))) return undefined;
  return found.groups?.["doubtful"] === undefined ? kindOf(found[0].toLowerCase()) : "";
}

/** Returns the text without recognizable secrets; with a key, marks have digests. */
export function redactText(text: string, key?: Uint8Array): string {
  return marked(text, findSecrets(text), key);
}

/** Returns the ranges of secrets in a text, the most specific kind first; they may overlap. */
export function findSecrets(text: string): Found[] {
  const found = [...findForms(text), ...findCommandLines(text), ...findPiped(text)];
  const lower = lowerOf(text);
  if (MAY_BE_NAMED.test(lower)) {
    found.push(...findBeside(text, lower), ...findNamed(text, lower), ...findRandom(text, lower));
  }
  return found;
}

/** Returns the lower case with the same length: some letters have a lower case of two. */
function lowerOf(text: string): string {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** Returns a copy of a JSON value without secrets; too deep levels are cut. */
export function redact(value: Json, key?: Uint8Array, depth = 0): Json {
  if (typeof value === "string") return redactText(value, key);
  if (depth > MAX_DEPTH) return "[cut]";
  if (Array.isArray(value)) {
    if (isTableOfNames(value)) {
      return value.map(([name, item]) => [redactText(name, key), redactField(name, item, key, depth + 1)]);
    }
    const instead = insteadOfItems(value, key);
    return value.map((item, at) => instead.get(at) ?? redact(item, key, depth + 1));
  }
  if (typeof value === "object" && value !== null) {
    const names = namesOfFields(value);
    return fromEntries(
      Object.entries(value).map(([name, item]) => [
        isLonger(name, NAME_CHARS) ? redactText(name, key) : name,
        redactField(names.get(name) || name, item, key, depth),
      ]),
    );
  }
  return value;
}

/** Returns an object that may have names like `__proto__`. */
export function fromEntries(entries: [string, Json][]): { [name: string]: Json } {
  return Object.fromEntries(entries);
}

/** Returns whether a list has pairs of names and texts, of which one may be a secret: `[["DB_PASSWORD", "x1"]]`. */
function isTableOfNames(items: readonly Json[]): items is [string, string][] {
  return (
    items.every((item) => Array.isArray(item) && item.length === 2 && item.every((text) => typeof text === "string")) &&
    (items as [string, string][]).some(([name, text]) => kindOfField(name) && isOfBoth(text))
  );
}

/** Returns replacements, by index, of items that contain a secret as an option's value: `["--password", "x"]`. */
function insteadOfItems(items: readonly Json[], key?: Uint8Array): Map<number, string> {
  const instead = linesOfKey(items, key);
  for (const [at, [start, end]] of secretItems(items)) {
    const item = items[at] as string;
    instead.set(at, item.slice(0, start) + mark("password", item.slice(start, end), key) + item.slice(end));
  }
  for (const [at, item] of items.entries()) {
    const option = items[at - 1];
    if (instead.has(at) || typeof option !== "string" || typeof item !== "string" || !ITEM_OPTION.test(option)) continue;
    const lower = option.toLowerCase();
    const kind = OF_OPTIONS.find((name) => lower.endsWith(name));
    if (kind !== undefined && ITEM_VALUE.test(item)) instead.set(at, mark(kindOf(kind), item, key));
  }
  return instead;
}

/** Returns marks, by index, of the lines of a private key that is given as a list of them. */
function linesOfKey(items: readonly Json[], key?: Uint8Array): Map<number, string> {
  const instead = new Map<number, string>();
  let isInside = false;
  for (const [at, item] of items.entries()) {
    if (typeof item !== "string") {
      isInside = false;
    } else if (isInside) {
      instead.set(at, mark("private_key", item, key));
      isInside = !item.includes("-----END");
    } else {
      const begun = item.slice(item.lastIndexOf("-----BEGIN ") + 1);
      isInside = item.includes("-----BEGIN ") && begun.includes("PRIVATE KEY") && !begun.includes("-----END");
    }
  }
  return instead;
}

function redactField(name: string, value: Json, key: Uint8Array | undefined, depth: number): Json {
  const kind = kindOfField(name);
  if (kind === undefined || value === null || typeof value === "boolean") return redact(value, key, depth + 1);
  if (kind === "") {
    if (typeof value !== "string") return redact(value, key, depth + 1);
    return redactText(`${name}=${value}`, key).slice(name.length + 1);
  }
  if (typeof value === "string" && isTemplate(value)) return value;
  if (kind === "token" && typeof value === "number") return value; // max_tokens: numbers of tokens, not tokens
  if (kind === "pwd" && typeof value === "string" && PATH.test(value)) return redact(value, key, depth + 1); // a directory
  return typeof value === "string" ? mark(kind, value, key) : mark(kind);
}
