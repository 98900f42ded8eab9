// Conversion of the client library's messages for this folder.

import type { Message } from "./library.js";
import { type Decision, decisionOf } from "./records.js";
import type { RawRecord } from "./seals.js";

/** Returns the decision; undefined if it is unreadable, after calling `failed` with the reason. */
export function read(value: Buffer | null, failed: (why: string) => void = () => {}): Decision | undefined {
  try {
    return decisionOf(value);
  } catch (bad) {
    failed(bad instanceof Error ? bad.message : String(bad));
    return undefined;
  }
}

/** Returns the record, with its headers in order. */
export function rawOf({ topic, key, value, headers }: Message): RawRecord {
  const named = (headers ?? []).flatMap((one) => Object.entries(one));
  return {
    topic,
    key: key === null || key === undefined ? null : Buffer.from(key),
    value: value ?? null,
    headers: named.map(([name, text]) => [name, text === null || text === undefined ? null : Buffer.from(text)] as const),
  };
}
