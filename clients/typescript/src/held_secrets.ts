/**
 * Secrets that a session has read, held in memory only, and recognized where a call sends them elsewhere; by the same
 * tables as in the Python package (see held_secrets.py). Only the kind and a digest leave the process, under the key of
 * digests or a key of this process.
 */

import { randomBytes } from "node:crypto";

import { destinationOf, hostsIn, isLocal, isOf, isPublished } from "./destinations.js";
import { namesOf } from "./effects.js";
import { isOfBoth } from "./redaction/forms.js";
import { secretDigest } from "./redaction/marks.js";
import { wholeJson } from "./redaction/payload.js";
import { findSecrets } from "./redaction/secrets.js";
import {
  BESIDE, BREAKS, FORMS, HOLDS_CREDENTIALS, LABELS, NO_VALUE, UPLOADED_BY_TOOL, UPLOADING_TOOL, UPLOADS, VALUE,
} from "./redaction/tables.js";
import { head, wellFormed } from "./redaction/unicode.js";
import type { SentSecret } from "./transport.js";

const MAX_SECRETS = 2048; // the newest
const MAX_BYTES = 64 * 1024; // limit for a result, and for the arguments of a call: the rest is not searched
const MAX_SENT = 8; // per event
const LEAST_CHARS = 8;
const LONG_CHARS = 96;
const PART_CHARS = 48;
const BESIDE_CHARS = 240;

const BREAK = new RegExp(BREAKS, "g");
const ESCAPED: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };
const OF_CREDENTIALS = new RegExp(HOLDS_CREDENTIALS, "i");
const VALUES = new RegExp(VALUE, "g");
const OF_LABELS = new RegExp(LABELS);
const UPLOADING = UPLOADS.map((form) => new RegExp(form, "g"));
const BY_TOOL = new RegExp(UPLOADED_BY_TOOL, "g");
const UPLOADS_BY_TOOL = new RegExp(UPLOADING_TOOL, "i");
const NONE = new RegExp(`^(?:${NO_VALUE})$`);
const PUBLIC = new Set(FORMS.filter((row) => row.public).map((row) => row.kind));
/** The domains of the issuer, by kind. */
const HOSTS = new Map<string, string[]>();
for (const { kind, hosts = [] } of [...FORMS, ...BESIDE]) HOSTS.set(kind, [...(HOSTS.get(kind) ?? []), ...hosts]);

interface Held {
  readonly kind: string;
  readonly digest: string;
  /** The forms in which it is recognized. */
  readonly forms: readonly string[];
  /** The hosts that it may be sent to. */
  readonly hosts: Set<string>;
  readonly isOfKnownHosts: boolean;
}

/** The secrets of one session and of the sessions below it. */
export class HeldSecrets {
  readonly #key: Uint8Array;
  readonly #max: number;
  readonly #held = new Map<string, Held>(); // by digest, so that a long secret is not stored whole

  constructor(key: Uint8Array = new Uint8Array(), maxSecrets = MAX_SECRETS) {
    this.#key = key.length ? key : randomBytes(32);
    this.#max = maxSecrets;
  }

  /** Stores the secrets in a call's results. */
  take(results: readonly unknown[], args: Record<string, unknown>, action: string): void {
    for (const result of results) {
      const text = textOf(result);
      if (text.length < LEAST_CHARS) continue;
      this.#takeNamed(text);
      if (OF_CREDENTIALS.test([textOf(args), ...namesOf(action)].join(" "))) this.#takeValues(text);
    }
  }

  /** Returns the secrets that a call sends to hosts where they do not belong. */
  sent(action: string, args: Record<string, unknown>): SentSecret[] {
    if (Object.keys(args).length === 0) return [];
    const text = textOf(args);
    const hosts = destinationOf(action, args, text);
    if (hosts === undefined || (hosts.size > 0 && [...hosts].every(isLocal))) return [];
    const isPublic = isPublished(action, text);
    const written = writings(text);
    const sent: SentSecret[] = [];
    for (const one of this.#held.values()) {
      if (!one.forms.some((form) => written.some((text) => text.includes(form)))) continue;
      const elsewhere = isPublic ? one.isOfKnownHosts || undefined : isElsewhere(one, hosts);
      if (elsewhere === false) continue;
      sent.push({ kind: one.kind, digest: one.digest, ...(elsewhere ? { elsewhere } : {}) });
      if (sent.length === MAX_SENT) break;
    }
    const files = uploaded(action, text).map((file) => ({ kind: "credential_file", digest: secretDigest(file, this.#key) }));
    return [...sent, ...files].slice(0, MAX_SENT);
  }

  #takeNamed(text: string): void {
    for (const { start, end, kind } of findSecrets(text)) {
      const found = text.slice(start, end);
      const secret = kind === "url_password" ? found.slice(found.indexOf(":") + 1 || found.length) : found;
      if (PUBLIC.has(kind) || secret.length < LEAST_CHARS) continue;
      if (isOfBoth(secret) || secret.length >= 2 * LEAST_CHARS) this.#hold(kind, secret, hostsBeside(text, start, end));
    }
  }

  #takeValues(text: string): void {
    for (const found of text.matchAll(VALUES)) {
      const value = found[1]!;
      if (!isOfBoth(value) || NONE.test(value)) continue;
      this.#hold("credential", value, hostsBeside(text, found.index, found.index + value.length));
    }
  }

  #hold(kind: string, secret: string, hosts: Set<string>): void {
    const digest = secretDigest(secret, this.#key);
    const known = this.#held.get(digest);
    if (known !== undefined) {
      this.#held.delete(digest);
      for (const host of hosts) known.hosts.add(host);
      this.#held.set(digest, known);
      return;
    }
    const own = HOSTS.get(kind) ?? [];
    const forms = [...new Set(formsOf(secret))];
    this.#held.set(digest, { kind, digest, forms, hosts: new Set([...own, ...hosts]), isOfKnownHosts: own.length > 0 });
    for (const oldest of this.#held.size > this.#max ? this.#held.keys() : []) {
      this.#held.delete(oldest);
      break;
    }
  }
}

/** Returns the beginning of a value's text, without JSON escapes. */
function textOf(value: unknown): string {
  if (typeof value === "string") return head(value, MAX_BYTES);
  if (value === undefined || value === null) return "";
  const json = wholeJson(value);
  const text = json.length * 3 <= MAX_BYTES ? json : Buffer.from(json).subarray(0, MAX_BYTES).toString();
  return text.replace(/\\(.)/g, (_, letter: string) => ESCAPED[letter] ?? letter);
}

/** Returns false if it is sent to where it belongs; undefined: unknown. */
function isElsewhere(held: Held, hosts: ReadonlySet<string>): boolean | undefined {
  if (hosts.size === 0) return undefined;
  const others = [...hosts].filter((host) => !isLocal(host) && !isOf(host, held.hosts));
  if (others.length === 0) return false;
  return held.isOfKnownHosts && others.length === hosts.size ? true : undefined;
}

function hostsBeside(text: string, start: number, end: number): Set<string> {
  return hostsIn(text.slice(Math.max(0, start - BESIDE_CHARS), end + BESIDE_CHARS));
}

/** Returns the text, and what it is without spaces, percent-encoding, and the dots between labels of a host. */
function writings(text: string): string[] {
  const found = [text, text.replace(BREAK, "")];
  if (text.includes("%")) found.push(text.replace(/(?:%[0-9A-Fa-f]{2})+/g, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString()));
  if (OF_LABELS.test(text)) found.push(text.replaceAll(".", ""));
  return found;
}

/** Returns the files of credentials that a call with this text of its arguments uploads. */
function uploaded(action: string, text: string): string[] {
  const forms = UPLOADS_BY_TOOL.test(action) ? [...UPLOADING, BY_TOOL] : UPLOADING;
  const found = forms.flatMap((form) => [...text.matchAll(form)].map((match) => match[1]!));
  return [...new Set(found)].slice(0, MAX_SENT);
}

/** Returns base32 without padding and a last letter that depends on what follows. */
function base32(data: Buffer): string {
  const bits = [...data].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{5}/g) ?? []).map((five) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[parseInt(five, 2)]).join("");
}

/** Yields the forms of the secret, or of a part of a long one. */
function* formsOf(secret: string): Generator<string> {
  const part = partOf(secret);
  const data = Buffer.from(wellFormed(part));
  yield part;
  yield [...part].reverse().join("");
  yield data.toString("hex");
  yield data.toString("hex").toUpperCase();
  yield encodeURIComponent(wellFormed(part)).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
  yield base32(data);
  yield base32(data).toLowerCase();
  for (let before = 0; before < 3; before++) {
    // The base64 letters that do not depend on the neighbours, for each alignment.
    const whole = Buffer.concat([Buffer.alloc(before), data]).toString("base64").replace(/={1,2}$/, "");
    const core = whole.slice(Math.ceil((before * 4) / 3), (before + data.length) % 3 ? -1 : undefined);
    yield core;
    yield core.replaceAll("+", "-").replaceAll("/", "_");
  }
}

function partOf(secret: string): string {
  if (secret.length <= LONG_CHARS && !secret.includes("\n")) return secret;
  const lines = secret.replaceAll("\\n", "\n").split("\n").map((line) => line.trim()).filter((line) => !line.includes("-----"));
  const longest = lines.reduce((one, other) => (other.length > one.length ? other : one), lines[0] ?? secret);
  const middle = Math.max(0, Math.floor(longest.length / 2) - PART_CHARS / 2);
  return longest.slice(middle, middle + PART_CHARS);
}
