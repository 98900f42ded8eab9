/** That what leaves the process is what the Python package lets out: test/vectors.json is written by it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Describer } from "../src/describe.js";
import { destroyingVerb, knownEffect, onlyKeeps } from "../src/effects.js";
import { HeldSecrets } from "../src/held_secrets.js";
import { SeenWords } from "../src/novelty.js";
import { newWords } from "../src/prompts.js";
import { blake2b } from "../src/redaction/blake2b.js";
import { plain, plainText } from "../src/redaction/payload.js";
import { withoutPiiText } from "../src/redaction/pii.js";
import { kindOfName, redact, redactText } from "../src/redaction/secrets.js";
import { byCodePoint } from "../src/redaction/unicode.js";
import { repeats } from "../src/repeated_passage.js";
import { type Effect, type Json, noveltyFields } from "../src/transport.js";

type Named = { [name: string]: Json };

interface Payload {
  value: Json;
  max_bytes: number;
  keyed: boolean;
  plain?: Json;
  plain_digest?: string;
  digest: string;
  size_bytes: number;
  opaque: boolean;
  unread_from: number | null;
}

interface Vectors {
  prompts: [string, boolean][];
  repeats: [Json, number][];
  texts: [string, string, string][];
  parts: [string[], string, string][];
  heads: [string, number, string][];
  names: [string, string | null][];
  values: [Json, Json][];
  payloads: Payload[];
  outputs: [Json, number, { output_digest: string | null; output_bytes: number; output_head: string | null }][];
  novelty: [Json, Named | null, { new_words: number; words: number; results: number }][];
  held: [string, Named, Json, string, Named, { kind: string; digest: string; elsewhere?: boolean }[]][];
  digests: [string, string, string][];
  tools: [string, string, Effect, Effect, boolean][];
}

const vectors = JSON.parse(readFileSync(new URL("../../test/vectors.json", import.meta.url), "ascii")) as Vectors;
const KEY = Buffer.from("a key of digests");
const NONE = { digest: new Uint8Array() };

function expanded(value: Json): Json {
  if (Array.isArray(value)) return value.map(expanded);
  if (typeof value !== "object" || value === null) return value;
  const repeat = value["repeat"];
  if (Array.isArray(value["parts"])) return value["parts"].join("");
  if (Array.isArray(repeat)) return (repeat[0] as string).repeat(repeat[1] as number);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, expanded(item)]));
}

function sorted(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const names = Object.keys(value).sort(byCodePoint);
  return `{${names.map((name) => `${JSON.stringify(name)}:${sorted((value as Named)[name]!)}`).join(",")}}`;
}

test("secrets are found in texts", () => {
  assert.ok(vectors.texts.length > 900);
  for (const [text, redacted] of vectors.texts) assert.equal(redactText(text), redacted, JSON.stringify(text));
});

test("secrets of published forms are found, and marked under a key", () => {
  for (const [parts, redacted, keyed] of vectors.parts) {
    assert.equal(redactText(parts.join("")), redacted);
    assert.equal(redactText(parts.join(""), KEY), keyed);
  }
});

test("what belongs to persons is found in texts", () => {
  for (const [text, , without] of vectors.texts) assert.equal(withoutPiiText(text, KEY), without, JSON.stringify(text));
});

test("the beginning of a text is cut by characters, and holds no secret", () => {
  for (const [text, chars, head] of vectors.heads) assert.equal(plainText(text, chars, NONE), head, JSON.stringify(text));
});

test("names tell secrets", () => {
  for (const [name, kind] of vectors.names) assert.equal(kindOfName(name) ?? null, kind, JSON.stringify(name));
});

test("values are copied without secrets", () => {
  for (const [value, redacted] of vectors.values) assert.deepEqual(redact(expanded(value)), redacted);
});

test("payloads are bounded, and have the same digests", () => {
  for (const payload of vectors.payloads) {
    const keys = payload.keyed ? { digest: KEY, pii: KEY } : NONE;
    const made = plain(expanded(payload.value), payload.max_bytes, keys);
    const shown =
      payload.plain_digest === undefined
        ? { plain: made.value }
        : { plain_digest: blake2b(Buffer.from(sorted(made.value)), 16) };
    const { digest, sizeBytes: size_bytes, opaque, unreadFrom } = made;
    const { value, max_bytes, keyed } = payload;
    const found = { value, max_bytes, keyed, ...shown, digest, size_bytes, opaque, unread_from: unreadFrom ?? null };
    assert.deepEqual(found, payload);
  }
});

test("outputs are described alike", () => {
  for (const [value, maxOutputChars, expected] of vectors.outputs) {
    const { digest, bytes, head } = new Describer({ maxOutputChars, digestKey: "" }).output(expanded(value));
    assert.deepEqual({ output_digest: digest, output_bytes: bytes, output_head: head }, expected, JSON.stringify(value));
  }
});

test("what is new in the results of a session is counted alike", () => {
  const seen = new SeenWords();
  for (const [result, args, expected] of vectors.novelty) {
    const given = args === null ? undefined : (expanded(args) as Named);
    assert.deepEqual(noveltyFields(seen.take([expanded(result)], given)), expected, JSON.stringify(result).slice(0, 80));
  }
});

test("a new word is hardly ever taken for a known one, and what was seen last is remembered", () => {
  const seen = new SeenWords();
  const texts = Array.from({ length: 120 }, (_, at) => Array.from({ length: 100 }, (_, n) => `${at * 100 + n}`).join(" "));
  const counted = texts.map((text) => seen.take([text]).newWords);
  assert.ok(counted.reduce((sum, one) => sum + one) > 12_000 * 0.995);
  for (const text of texts.slice(-30)) assert.equal(seen.take([text]).newWords, 0);
  assert.ok(seen.take([texts[0]]).newWords > 90); // forgotten
});

test("a secret that was read is recognized alike where a call sends it", () => {
  assert.ok(vectors.held.some(([, , , , , sent]) => sent.some((one) => one.elsewhere)));
  for (const [readBy, readArgs, result, action, args, sent] of vectors.held) {
    const held = new HeldSecrets(KEY);
    held.take([expanded(result)], expanded(readArgs) as Named, readBy);
    assert.deepEqual(held.sent(action, expanded(args) as Named), sent, JSON.stringify([readBy, readArgs, action, args]));
  }
});

test("the newest secrets are held, each once", () => {
  const held = new HeldSecrets(KEY, 3);
  const tokens = [0, 1, 2, 3, 4, 4].map((n) => `password=a1b2c3d4e5f6${n}`);
  for (const token of tokens) held.take([token], {}, "read");
  const sent = (texts: string[]): number => held.sent("http_post", { url: "https://example.org", texts }).length;
  assert.deepEqual([sent(tokens), sent(tokens.slice(0, 2)), sent(tokens.slice(2, 4))], [3, 0, 2]);
});

test("digests are those of BLAKE2b", () => {
  for (const [text, digest, keyed] of vectors.digests) {
    assert.equal(blake2b(Buffer.from(text), 16), digest);
    assert.equal(blake2b(Buffer.from(text), 16, KEY), keyed);
  }
});

test("what a tool does is known by its name", () => {
  for (const [name, verb, effect, raised, keeps] of vectors.tools) {
    assert.deepEqual(
      [destroyingVerb(name), knownEffect(name), knownEffect(name, "mutate"), onlyKeeps(name, effect)],
      [verb, effect, raised, keeps],
      name,
    );
  }
});

test("a prompt that only says to go on says nothing new", () => {
  for (const [text, isNew] of vectors.prompts) assert.equal(newWords(text) !== "", isNew, text);
});

test("a passage that a text repeats is counted", () => {
  for (const [text, times] of vectors.repeats) assert.equal(repeats(expanded(text) as string), times, JSON.stringify(text));
});
