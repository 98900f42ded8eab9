/**
 * Secrets recognized by their names: of a field, a variable, an option, or in a sentence. The Python package has the
 * same rules, and writes `test/vectors.json` to check that both find the same.
 */

import { matchAt } from "./forms.js";
import type { Found } from "./marks.js";
import { placeOf } from "./places.js";
import { isStandIn } from "./stand_ins.js";
import { anyCase, before, SPACES, WORD } from "./unicode.js";

// No secret begins with these: a shell variable or command, a template, and words for an empty value.
const NOTHING = ["null", "none", "nil", "true", "false", "undefined"].map(anyCase).join("|");
export const NO_VALUE = `(?!\\$[(\\{A-Z_]|[\\{<]|(?:${NOTHING})(?:(?<=${WORD})(?!${WORD})))`;
const VALUE = [
  `(?:(?<=")[^"\\n\\[]{3,256}(?<!\\\\)(?=")|(?<=')[^'\\n\\[]{3,256}(?<!\\\\)(?=')`,
  `|(?:[^${SPACES}"'&,;\\[\\\\]|\\\\(?!\\\\{0,15}["'])){3,512})`,
].join("");
const VALUE_CHARS = 512;
const REST = new RegExp(`[^${SPACES}"'&,;\\[\\\\]*`, "uy");
const IDENTIFIER = new RegExp(`^(?!\\p{N})${WORD}+$`, "u");
const SUFFIXES = ["access", "key", "base", "value", "hash", "data", "text", "string", "b64", "prod", "dev", "test"];
const SUFFIX = `(?:[_\\-]?(?:${[...SUFFIXES, "staging", "live", "v?[0-9]{1,3}"].map(anyCase).join("|")})(?![a-z])){0,3}`;
const QUOTED = `\\\\{0,15}["'][${SPACES}]{0,8}(?::|=>)[${SPACES}]{0,8}\\\\{0,15}["']?`;
// auth=("bob", "x"), HTTPBasicAuth("bob", "x")
const IN_PAIR = `\\\\{0,15}["']?[ \\t]{0,2}[:=]?[ \\t]{0,2}[\\(\\[][ \\t]?\\\\{0,15}["'][^"'\\n]{1,64}\\\\{0,15}["'],[ \\t]?\\\\{0,15}["']`;
const SCHEMES = ["basic", "bearer", "digest", "token", "negotiate", "apikey", "ssws", "bot", "key", "oauth", "jwt", "splunk", "geniekey"].map(anyCase).join("|");
// Without backtracking: the lookahead and the reference are Python's possessive `?+`.
const SCHEME = `(?=(?<scheme>(?:(?:${SCHEMES})[ \\t]{1,4}(?=[^${SPACES}]))?))\\k<scheme>`;

/** Matches `PGPASSWORD=hunter2`, `?token=abc`, `"password": "hunter2"`, `x-api-key: abc`; the name stays. */
function after(colon = ":(?![:/])", but = ""): RegExp {
  const spaced = `(?:[ \\t]{0,4}(?:=>|:=|={1,2}|${colon})[ \\t]{0,4}(?:!!str[ \\t]|&${WORD}{1,40}[ \\t])?\\\\?["']?|${QUOTED})${NO_VALUE}`;
  return found(`${SUFFIX}(?:=["']?|${spaced})${but}`);
}

function found(name: string, value = VALUE): RegExp {
  return new RegExp(`(?<name>${name})(?<value>${value})`, "uy");
}

// `arn:aws:secretsmanager:...:secret:prod/db` and `org/token:latest` are no values of that name.
const SPACED_COLON = `:(?=[ \\t"'])`;
// A number of tokens is no token, and PWD=/srv is a directory.
export const NO_COUNT = `(?!\\p{Nd}{1,5}(?:\\.\\p{Nd}{1,3})?[kKmM]?(?![^${SPACES}"'&,;)\\}\\]]))`;
const NO_PATH = "(?![/~.$]|[A-Za-z]:\\\\)";
/** The beginning of a path. */
export const PATH = /^(?:[/~.$]|[A-Za-z]:\\)/u;

const ANY = after();
const KEYS = ["api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"];
const MORE_KEYS = ["account_key", "account-key", "accountkey", "private_key", "private-key", "app_key", "app-key", "appkey"];
const RARE_KEYS = ["application_key", "application-key", "master_key", "encryption_key", "signing_key", "signing-key"];
const OTHER_KEYS = ["license_key", "subscription-key", "client-key-data", "presharedkey", "privatekey"];
const KEYS_IN_WORDS = ["api key", "access key", "private key", "auth key"];
// In sentences a word follows, unless it has digits.
const IN_WORDS = found(
  "(?:[ \\t]{0,3}(?:=|:|[ \\t](?:is|was)(?=[ \\t:]):?)[ \\t]{0,3}[\"'`]?|[ \\t]{1,3}[\"'`]?(?=[A-Za-z0-9_+\\/=.\\-]{20}))(?![\\{<$\\(])",
  `(?=[^${SPACES}]{0,128}[0-9])(?=[^${SPACES}]{0,128}[A-Za-z])[^${SPACES}"'\`,;\\[]{6,256}`,
);
const AFTER_NAME: ReadonlyMap<string, RegExp> = new Map([
  ...[...KEYS, ...MORE_KEYS, ...RARE_KEYS, ...OTHER_KEYS].map((name) => [name, ANY] as const),
  ...["password", "passwd", "passphrase", "passcode"].map((name) => [name, ANY] as const),
  ...KEYS_IN_WORDS.map((name) => [name, IN_WORDS] as const),
  ["secret", after(SPACED_COLON)],
  ["token", after(SPACED_COLON, NO_COUNT)],
  ["pwd", after(undefined, NO_PATH)],
  ["authorization", found(`(?:[ \\t]{0,4}[:=][ \\t]{0,4}["']?|${QUOTED})${SCHEME}${NO_VALUE}`)],
  ["auth", found(`(?:${QUOTED}${NO_VALUE}|${IN_PAIR})`)],
  ["cookie", found(`s?(?:\\\\{0,3}["'])?[ \\t]{0,4}:[ \\t]{0,4}(?:\\\\{0,3}["'])?`, `[^\\r\\n"'\\[\\{]{3,}`)],
]);
const NAMES = [...AFTER_NAME.keys()];
/** Names of options. */
export const OF_OPTIONS = NAMES.filter((name) => ![...KEYS_IN_WORDS, "auth", "authorization", "pwd"].includes(name));
const IN_SENTENCES = ["password", "passphrase", "passcode", "token", "secret"];

export const OPTION_NAME = `(?:${WORD}|[.\\-])`;
const OPTION = new RegExp(`(?:^|[${SPACES}"'])-{1,2}(?!-|no-)${OPTION_NAME}{0,40}$`, "u");
const AFTER_OPTION = found(
  `${SUFFIX}[ \\t]{1,4}["']?(?!-|(?:id|name|type|source|src)=)${NO_VALUE}${NO_COUNT}`,
);
const BEFORE_OPTION = 48;

/** Names of tokens of a text, as models have them. */
export const NO_TOKEN = /(?:pad|eos|bos|unk|sep|cls|mask|stop|end|start|begin|special|image|video|audio|eot|fim)_?$/i;

/** Returns the secrets whose names are in a text; `lower` is the text in lower case. */
export function findNamed(text: string, lower: string): Found[] {
  const found: Found[] = [];
  for (const [name, after] of AFTER_NAME) {
    let at = lower.indexOf(name);
    while (at >= 0) {
      const one = behind(text, name, after, at);
      if (one !== undefined) found.push(one);
      at = lower.indexOf(name, Math.max(at + 1, one?.end ?? 0));
    }
  }
  return found;
}

function behind(text: string, name: string, after: RegExp, at: number): Found | undefined {
  const end = at + name.length;
  if (name === "token" && NO_TOKEN.test(before(text, at, 12))) return undefined;
  let match = matchAt(after, text, end);
  if (match === null && OF_OPTIONS.includes(name) && OPTION.test(before(text, at, BEFORE_OPTION))) {
    match = matchAt(AFTER_OPTION, text, end);
  }
  let place: readonly [start: number, end: number] | undefined;
  if (match === null || isNoSecret(text, name, match)) {
    place = placeOf(text, at, end);
    if (place !== undefined && isStandIn(text.slice(...place), name, true)) return undefined;
  }
  if (match === null && place === undefined && IN_SENTENCES.includes(name)) match = matchAt(IN_WORDS, text, end);
  if (place === undefined) {
    if (match === null || isNoSecret(text, name, match)) return undefined;
    place = [end + (match.groups?.["name"] ?? "").length, endOf(text, match)];
  }
  return { start: place[0], end: place[1], kind: kindOf(name) };
}

/** Returns the end of a value, of which the expression takes a bounded part. */
function endOf(text: string, match: RegExpExecArray): number {
  const end = match.index + match[0].length;
  const rest = (match.groups?.["value"] ?? "").length >= VALUE_CHARS ? matchAt(REST, text, end) : null;
  return end + (rest?.[0] ?? "").length;
}

function isNoSecret(text: string, name: string, match: RegExpExecArray): boolean {
  const { name: join = "", value = "" } = match.groups ?? {};
  const quoted = "\"'`".includes(text[match.index + join.length - 1] ?? " ");
  if (name === "cookie") return isStandIn(value, name, true);
  return (!quoted && join.includes("==") && IDENTIFIER.test(value)) || isStandIn(value, name, quoted);
}

/** Returns the kind as marks name it. */
export function kindOf(name: string): string {
  return name.replaceAll("-", "_").replaceAll(" ", "_");
}
