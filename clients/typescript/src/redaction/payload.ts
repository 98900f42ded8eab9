/**
 * Arguments and results of any type as bounded JSON without secrets, and as digests. A digest is of the whole value
 * after redaction; a value of more than 64 KiB is digested without redaction.
 */

import type { Json } from "../transport.js";
import { blake2b } from "./blake2b.js";
import { withoutPii, withoutPiiText } from "./pii.js";
import { fromEntries, redact, redactText } from "./secrets.js";
import { byCodePoint, head, isLonger, wellFormed } from "./unicode.js";

const REDACT_WHOLE_BYTES = 64 * 1024;
const MARGIN_CHARS = 4096; // read beyond the cut, so that a secret across it is complete
// Calls that differ only in a secret have one digest.
const SECRET_MARK = /\[redacted:(?!(?:email|us_ssn|credit_card|phone_us|api_key_like):)(\w+):[0-9a-f]{8}\]/g;
const MAX_NODES = 100_000;
const MAX_DEPTH = 32;
const DEEPEST = 254; // the limit of orjson
const STEPS = [196_608, 65_536, 16_384, 4096, 1024, 256, 64, 16];

/** Keys of digests, as bytes. */
export interface Keys {
  readonly digest: Uint8Array;
  /** Set: personal data is removed as well. */
  readonly pii?: Uint8Array;
}

/** A value ready to leave the process. */
export interface Plain {
  readonly value: Json;
  readonly digest: string;
  /** Size of the whole value as JSON. */
  readonly sizeBytes: number;
  /** A part of it cannot be compared, so an equal digest proves nothing. */
  readonly opaque: boolean;
  /** Its texts and lists are truncated after this number of characters or items; undefined: it is complete. */
  readonly unreadFrom: number | undefined;
}

/** Returns the value as JSON of about `maxBytes` at most, with the digest of the whole. Accepts any value. */
export function plain(value: unknown, maxBytes: number, keys: Keys): Plain {
  const { json, opaque } = jsonOf(value);
  const whole = Buffer.from(encode(json));
  const sizeBytes = whole.length;
  if (sizeBytes > Math.max(maxBytes, REDACT_WHOLE_BYTES)) {
    const { shown, limit } = cut(json, maxBytes, keys);
    return { value: shown, digest: digest(whole, keys), sizeBytes, opaque, unreadFrom: limit };
  }
  const redacted = redact(json, keys.digest);
  const clean = keys.pii === undefined ? redacted : withoutPii(redacted, keys.pii);
  const text = encode(clean);
  const encoded = Buffer.from(text);
  const bare = keys.digest.length ? Buffer.from(text.replace(SECRET_MARK, "[redacted:$1]")) : encoded;
  const both = { digest: digest(bare, keys), sizeBytes, opaque };
  if (encoded.length <= maxBytes) return { value: clean, ...both, unreadFrom: undefined };
  const { shown, limit } = cut(clean, maxBytes, keys);
  return { value: shown, ...both, unreadFrom: limit };
}

/** Returns any value as JSON including secrets, for use in this process only. */
export function wholeJson(value: unknown): string {
  return encode(jsonOf(value).json);
}

/** Returns the beginning of a text, without secrets. */
export function plainText(text: string, maxChars: number, keys: Keys): string {
  let clean = redactText(head(text, maxChars + MARGIN_CHARS), keys.digest);
  if (keys.pii !== undefined) clean = withoutPiiText(clean, keys.pii);
  clean = wellFormed(clean);
  return isLonger(clean, maxChars) ? `${head(clean, maxChars)}[cut]` : clean;
}

/** Returns 32 hex digits, equal for equal data. */
function digest(data: Uint8Array, keys: Keys): string {
  return blake2b(data, 16, keys.digest.subarray(0, 64));
}

/** Returns JSON with sorted names, and numbers as the Python package writes them. The mark of a cut comes last. */
export function encode(value: Json): string {
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return `[${value.map(encode).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const names = Object.keys(value).sort(byCodePoint);
  const isCut = /^[0-9]+ more$/.test(String(value["[cut]"]));
  const ordered = isCut ? [...names.filter((name) => name !== "[cut]"), "[cut]"] : names;
  return `{${ordered.map((name) => `${JSON.stringify(name)}:${encode(value[name] ?? null)}`).join(",")}}`;
}

/** JavaScript uses exponents from other values on, and does not distinguish integers: 1.0 is 1. */
function number(value: number): string {
  if (!Number.isFinite(value)) return "null";
  if (Object.is(value, -0)) return "-0.0";
  if (Number.isSafeInteger(value)) return String(value);
  const [digits = "", exponent = "0"] = value.toExponential().split("e");
  const power = Number(exponent);
  if (power >= 16 || power < -5) return `${digits}e${power < 0 ? "" : "+"}${power}`;
  return Number.isInteger(value) ? `${BigInt(value)}.0` : String(value);
}

/** Returns any value as JSON; values that cannot be compared are replaced by their class, and recorded. */
function jsonOf(value: unknown): { json: Json; opaque: boolean } {
  const walk = new Walk(DEEPEST, Number.POSITIVE_INFINITY);
  const json = walk.plain(value);
  if (!walk.isRefused) return { json, opaque: walk.opaque };
  const bounded = new Walk(MAX_DEPTH, MAX_NODES); // lone surrogates, a cycle, nested too deeply
  return { json: bounded.plain(value), opaque: bounded.opaque };
}

/** Converts each value, to a maximum depth. */
class Walk {
  opaque = false;
  isRefused = false;
  #left: number;
  readonly #isFirst: boolean;

  constructor(
    readonly maxDepth: number,
    maxNodes: number,
  ) {
    this.#left = maxNodes;
    this.#isFirst = maxNodes === Number.POSITIVE_INFINITY;
  }

  plain(value: unknown, depth = 0): Json {
    this.#left--;
    if (this.isRefused || this.#left < 0 || depth > this.maxDepth) {
      this.opaque = true;
      this.isRefused = this.isRefused || this.#isFirst;
      return "[cut]";
    }
    switch (typeof value) {
      case "string":
        return this.#text(value);
      case "boolean":
      case "number":
        return value;
      case "bigint":
        return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
      case "undefined":
        return null;
      case "object":
        return value === null ? null : this.#object(value, depth);
      default:
        this.opaque = true;
        return `<${typeof value}>`;
    }
  }

  #text(text: string): string {
    const clean = wellFormed(text);
    if (clean !== text && this.#isFirst) this.isRefused = true;
    return clean;
  }

  #object(value: object, depth: number): Json {
    try {
      if (Array.isArray(value)) return Array.from(value, (item) => this.plain(item, depth + 1));
      if (value instanceof Uint8Array) return this.#bytes(value);
      if (value instanceof Error) return this.plain(`${value.name}: ${value.message}`, depth);
      if (value instanceof Set) return this.plain([...value], depth);
      if (value instanceof Map) return this.#entries([...value.entries()].map(([k, v]) => [String(k), v]), depth);
      if ("toJSON" in value && typeof value.toJSON === "function") return this.plain(value.toJSON(), depth + 1);
      return this.#entries(Object.entries(value), depth);
    } catch {
      this.opaque = true; // the value's own code failed
      return `<${nameOf(value)}>`;
    }
  }

  #entries(entries: [string, unknown][], depth: number): Json {
    const kept = entries.filter(([, item]) => item !== undefined && typeof item !== "function");
    return fromEntries(kept.map(([name, item]) => [this.#text(name), this.plain(item, depth + 1)]));
  }

  #bytes(value: Uint8Array): string {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
    } catch {
      this.opaque = true;
      return `<${value.length} bytes>`;
    }
  }
}

function nameOf(value: object): string {
  try {
    return String(value.constructor?.name ?? "object").slice(0, 100);
  } catch {
    return "object";
  }
}

/** Returns the value with its texts and lists truncated until it fits, and the limit used. */
function cut(value: Json, maxBytes: number, keys: Keys): { shown: Json; limit: number } {
  for (const limit of STEPS) {
    if (limit > maxBytes) continue;
    const shorter = shorten(value, limit, keys);
    if (Buffer.byteLength(encode(shorter)) > maxBytes) continue; // before the rest is redacted, too
    const redacted = redact(shorter, keys.digest);
    const shown = keys.pii === undefined ? redacted : withoutPii(redacted, keys.pii);
    if (Buffer.byteLength(encode(shown)) <= maxBytes) return { shown, limit };
  }
  return { shown: isObject(value) ? { "[cut]": "all" } : "[cut]", limit: 0 };
}

function shorten(value: Json, limit: number, keys: Keys): Json {
  if (typeof value === "string") return isLonger(value, limit) ? plainText(value, limit, keys) : value;
  if (Array.isArray(value)) {
    const kept = value.slice(0, limit).map((item) => shorten(item, limit, keys));
    return value.length > limit ? [...kept, `[cut: ${value.length - limit} more]`] : kept;
  }
  if (!isObject(value)) return value;
  const names = Object.keys(value).sort(byCodePoint);
  const kept: [string, Json][] = names
    .slice(0, limit)
    .map((name) => [head(name, limit), shorten(value[name] ?? null, limit, keys)]);
  if (names.length > limit) kept.push(["[cut]", `${names.length - limit} more`]);
  return fromEntries(kept);
}

function isObject(value: Json): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
