/**
 * Secrets are taken out before anything leaves the process: by the name they go under, or by their form. The rules are
 * those of the Python package; `test/vectors.json`, which it writes, holds that they find the same.
 */

import type { Json } from "../transport.js";
import { anyCase, before, BOUNDARY, SPACES, WORD } from "./unicode.js";

const MAX_DEPTH = 64;

const KEY = new RegExp(
  [
    "(?:",
    `(?:${["api", "access", "account", "private"].map(anyCase).join("|")})[_-]?${anyCase("key")}`,
    ...["secret", "token", "password", "passwd", "passphrase"].map((name) => `|${anyCase(name)}`),
    `|${anyCase("pwd")}$|${anyCase("authorization")}|${anyCase("credential")}`,
    `|${anyCase("auth")}[_-]?${anyCase("header")}|${anyCase("auth")}$|${anyCase("cookie")}(?=${anyCase("s")}?$))`,
  ].join(""),
  "u",
);

const FORMS: readonly (readonly [kind: string, literals: readonly string[], form: RegExp])[] = (
  [
    [
      "private_key",
      ["PRIVATE KEY-----"],
      "-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|$)",
    ],
    ["aws_access_key", ["AKIA", "ASIA"], `${BOUNDARY}(?:AKIA|ASIA)[0-9A-Z]{16}${BOUNDARY}`],
    [
      "github_token",
      ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
      `${BOUNDARY}(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_${WORD}{20,})`,
    ],
    ["slack_token", ["xox"], `${BOUNDARY}xox[a-z]-[A-Za-z0-9\\-]{10,}`],
    ["stripe_key", ["k_live_", "k_test_"], `${BOUNDARY}[sr]k_(?:live|test)_[A-Za-z0-9]{16,}`],
    ["api_key", ["sk-"], `${BOUNDARY}sk-[A-Za-z0-9_\\-]{16,}`],
    ["gitlab_token", ["glpat-"], `${BOUNDARY}glpat-[A-Za-z0-9_\\-]{16,}`],
    ["npm_token", ["npm_"], `${BOUNDARY}npm_[A-Za-z0-9]{20,}`],
    ["google_key", ["AIza"], `${BOUNDARY}AIza[A-Za-z0-9_\\-]{30,}`],
    ["huggingface_token", ["hf_"], `${BOUNDARY}hf_[A-Za-z0-9]{20,}`],
    ["jwt", ["eyJ"], `${BOUNDARY}eyJ[A-Za-z0-9_\\-]{8,}\\.[A-Za-z0-9_\\-]{4,}\\.[A-Za-z0-9_\\-]*`],
    ["bearer", ["earer "], "(?<=[Bb]earer )[A-Za-z0-9._~+/\\-]{8,}=*"],
    ["url_password", ["://"], `(?<=://)[^${SPACES}/:@]{0,64}:[^${SPACES}/@]{1,256}(?=@)`],
  ] as const
).map(([kind, literals, form]) => [kind, literals, new RegExp(form, "gsu")] as const);

// What no secret begins with: a variable or a command of the shell, a template, and that there is none.
const NOTHING = ["null", "none", "nil", "true", "false", "undefined"].map(anyCase).join("|");
const NO_VALUE = `(?!\\$[(\\{A-Z_]|[\\{<]|(?:${NOTHING})(?:(?<=${WORD})(?!${WORD})))`;
const VALUE = [
  `(?:(?<=")[^"\\n\\[]{3,256}(?<!\\\\)(?=")|(?<=')[^'\\n\\[]{3,256}(?<!\\\\)(?=')`,
  `|(?:[^${SPACES}"'&,;\\[\\\\]|\\\\(?!["'])){3,})`,
].join("");
const SUFFIXES = ["access", "key", "base", "value", "hash", "data", "text", "string", "b64", "prod", "dev", "test"];
const SUFFIX = `(?:[_\\-]?(?:${[...SUFFIXES, "staging", "live", "v?[0-9]{1,3}"].map(anyCase).join("|")})(?![a-z])){0,3}`;
const QUOTED = `\\\\{0,3}["'][${SPACES}]{0,8}(?::|=>)[${SPACES}]{0,8}\\\\{0,3}["']?`;
const SCHEMES = ["basic", "bearer", "digest", "token", "negotiate", "apikey"].map(anyCase).join("|");
// What was found once is not given back: the lookahead and the reference are Python's possessive `?+`.
const SCHEME = `(?=(?<scheme>(?:(?:${SCHEMES})[ \\t]{1,4}(?=[^${SPACES}]))?))\\k<scheme>`;

/** `PGPASSWORD=hunter2`, `?token=abc`, `"password": "hunter2"`, `x-api-key: abc`: the name stays, the value goes. */
function after(colon = ":(?![:/])", but = ""): RegExp {
  const spaced = `(?:[ \\t]{0,4}(?:=>|:=|={1,2}|${colon})[ \\t]{0,4}\\\\?["']?|${QUOTED})${NO_VALUE}`;
  return found(`${SUFFIX}(?:=["']?|${spaced})${but}`);
}

function found(name: string, value = VALUE): RegExp {
  return new RegExp(`(?<name>${name})(?<value>${value})`, "uy");
}

// `arn:aws:secretsmanager:...:secret:prod/db` and `org/token:latest` are no values of that name.
const SPACED_COLON = `:(?=[ \\t"'])`;
// The number of tokens is no token, and PWD=/srv is a directory.
const NO_COUNT = `(?!\\p{Nd}{1,5}(?:\\.\\p{Nd}{1,3})?[kKmM]?(?![^${SPACES}"'&,;)\\}\\]]))`;
const NO_PATH = "(?![/~.$]|[A-Za-z]:\\\\)";
const PATH = /^(?:[/~.$]|[A-Za-z]:\\)/u;

const ANY = after();
const KEYS = ["api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"];
const MORE_KEYS = ["account_key", "account-key", "accountkey", "private_key", "private-key"];
const AFTER_NAME: ReadonlyMap<string, RegExp> = new Map([
  ...[...KEYS, ...MORE_KEYS, "password", "passwd", "passphrase"].map((name) => [name, ANY] as const),
  ["secret", after(SPACED_COLON)],
  ["token", after(SPACED_COLON, NO_COUNT)],
  ["pwd", after(undefined, NO_PATH)],
  ["authorization", found(`(?:[ \\t]{0,4}[:=][ \\t]{0,4}["']?|${QUOTED})${SCHEME}${NO_VALUE}`)],
  ["auth", found(`${QUOTED}${NO_VALUE}`)],
  ["cookie", found(`s?(?:\\\\{0,3}["'])?[ \\t]{0,4}:[ \\t]{0,4}(?:\\\\{0,3}["'])?`, `[^\\r\\n"'\\[\\{]{3,}`)],
]);
const NAMES = [...AFTER_NAME.keys()];
const OF_OPTIONS = NAMES.filter((name) => !["auth", "authorization", "pwd"].includes(name));

const OPTION_NAME = `(?:${WORD}|[.\\-])`;
const OPTION = new RegExp(`(?:^|[${SPACES}"'])-{1,2}(?!-|no-)${OPTION_NAME}{0,40}$`, "u");
const AFTER_OPTION = found(
  `${SUFFIX}[ \\t]{1,4}["']?(?!-|(?:id|name|type|source|src)=)${NO_VALUE}${NO_COUNT}`,
);
const BEFORE_OPTION = 48;

// `curl -u user:password`: the user stays.
const CURL = new RegExp(
  `(?<name>${BOUNDARY}curl${BOUNDARY}[^\\n|;]{0,300}?[${SPACES}](?:-[A-Za-z]{0,8}u|--(?:proxy-)?user)` +
    `[ =]{0,2}["']?[^${SPACES}:"']{0,64}:)(?<value>[^${SPACES}"'\\[]{1,256})`,
  "gu",
);
const ITEM_OPTION = new RegExp(`^-{1,2}(?!-|no-)${OPTION_NAME}{1,60}$`, "u");
const ITEM_VALUE = new RegExp(`^(?!-|\\[redacted:)${NO_VALUE}${NO_COUNT}`, "u");

/** Where none of these is found there is no secret: most texts are done with that. */
const MAY_HOLD = new RegExp(
  [
    "(?:api|access|account|private)[_-]?key|akia|asia|gh[pousr]_|github_pat_|xox|k_(?:live|test)_|sk-|eyj|earer |://",
    "secret|token|passw|passphrase|pwd|auth(?:[\"'\\\\]|orization|[_-]?header)|cookie|credential|glpat-|npm_|aiza|hf_|curl",
    "PRIVATE KEY-----|[\\u0130\\u0131\\u017f\\u212a]",
  ].join("|"),
  "i",
);

/** The kind of secret that goes under such a name, or undefined. */
export function kindOfName(name: string): string | undefined {
  return KEY.exec(name)?.[0].toLowerCase().replaceAll("-", "_");
}

/** The text without what has the form of a secret. */
export function redactText(text: string): string {
  if (!MAY_HOLD.test(text)) return text;
  for (const [kind, literals, form] of FORMS) {
    if (literals.some((literal) => text.includes(literal))) text = text.replace(form, `[redacted:${kind}]`);
  }
  let lower = lowerOf(text);
  if (lower.includes("curl")) {
    text = text.replace(CURL, "$<name>[redacted:password]");
    lower = lowerOf(text);
  }
  for (const name of NAMES) {
    if (lower.includes(name)) {
      text = withoutNamed(text, lower, name);
      lower = lowerOf(text);
    }
  }
  return text;
}

function withoutNamed(text: string, lower: string, name: string): string {
  const kept: string[] = [];
  const form = AFTER_NAME.get(name) ?? ANY;
  let done = 0;
  let at = lower.indexOf(name);
  while (at >= 0) {
    const end = at + name.length;
    let match = matchAt(form, text, end);
    if (match === null && OF_OPTIONS.includes(name) && OPTION.test(before(text, at, BEFORE_OPTION))) {
      match = matchAt(AFTER_OPTION, text, end);
    }
    if (match !== null) {
      const begin = end + (match.groups?.["name"] ?? "").length;
      kept.push(text.slice(done, begin), `[redacted:${name.replaceAll("-", "_")}]`);
      done = end + match[0].length;
    }
    at = lower.indexOf(name, Math.max(done, at + 1));
  }
  return kept.length ? kept.join("") + text.slice(done) : text;
}

function matchAt(form: RegExp, text: string, at: number): RegExpExecArray | null {
  form.lastIndex = at;
  return form.exec(text);
}

/** In lower case, place by place: a few letters have a lower case of two. */
function lowerOf(text: string): string {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** A copy of a JSON value without secrets; what lies too deep is cut. */
export function redact(value: Json, depth = 0): Json {
  if (typeof value === "string") return redactText(value);
  if (depth > MAX_DEPTH) return "[cut]";
  if (Array.isArray(value)) return value.map((item, at) => insteadOfItem(value, at) ?? redact(item, depth + 1));
  if (typeof value === "object" && value !== null) {
    return fromEntries(Object.entries(value).map(([name, item]) => [name, redactNamed(name, item, depth)]));
  }
  return value;
}

/** An object of its own, whose names may be those of every object's properties. */
export function fromEntries(entries: [string, Json][]): { [name: string]: Json } {
  return Object.fromEntries(entries);
}

/** `[redacted:kind]` in place of an item that is the value of the option before it: `["--password", "x"]`. */
function insteadOfItem(items: readonly Json[], at: number): string | undefined {
  const option = items[at - 1];
  const item = items[at];
  if (typeof option !== "string" || typeof item !== "string" || !ITEM_OPTION.test(option)) return undefined;
  const lower = option.toLowerCase();
  const kind = OF_OPTIONS.find((name) => lower.endsWith(name));
  return kind === undefined || !ITEM_VALUE.test(item) ? undefined : `[redacted:${kind.replaceAll("-", "_")}]`;
}

function redactNamed(name: string, value: Json, depth: number): Json {
  const kind = kindOfName(name);
  if (kind === undefined || value === null || typeof value === "boolean") return redact(value, depth + 1);
  if (kind === "token" && typeof value === "number") return value; // max_tokens: numbers of tokens, not tokens
  if (kind === "pwd" && typeof value === "string" && PATH.test(value)) return redact(value, depth + 1); // a directory
  return `[redacted:${kind}]`;
}
