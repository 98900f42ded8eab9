// What the client library gives, as the rest of this folder reads it.

import type { Message } from "./library.js";
import { type Decision, decisionOf } from "./records.js";
import type { RawRecord } from "./seals.js";

/** The decision; undefined, after `failed` was told why, for what cannot be read. */
export function read(value: Buffer | null, failed: (why: string) => void = () => {}): Decision | undefined {
  try {
    return decisionOf(value);
  } catch (bad) {
    failed(bad instanceof Error ? bad.message : String(bad));
    return undefined;
  }
}

/** The record, its headers in their order. */
export function rawOf({ topic, key, value, headers }: Message): RawRecord {
  const named = (headers ?? []).flatMap((one) => Object.entries(one));
  return {
    topic,
    key: key === null || key === undefined ? null : Buffer.from(key),
    value: value ?? null,
    headers: named.map(([name, text]) => [name, text === null || text === undefined ? null : Buffer.from(text)] as const),
  };
}
