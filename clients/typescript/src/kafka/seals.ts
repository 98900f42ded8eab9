// Verification of the worker's records against those of other writers on its topics (`verifyKey`): ed25519 in the header
// `haltline-seal`, over the topic, the key, the value and the time of the signature.
//
// A decision without a seal is ignored. A control entry without a seal counts as frozen if its key has no entry yet: a
// writer to the topic can stop an agent this way, but never release it. An entry or a release with a seal older than the
// last one under its key is a replay, and is ignored.

import { createHash, createPublicKey, type KeyObject, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { delimiter } from "node:path";

import { frozen } from "./records.js";

const HEADER = "haltline-seal";
const PURPOSE = Buffer.from("haltline record 1");
const ABSENT = 0xffffffff;
const RAW_KEY_BYTES = 32;
/** The maximum difference of two workers' clocks. */
const CLOCKS_DIFFER_MS = 60_000;

/** A record as received. */
export interface RawRecord {
  topic: string;
  key: Buffer | null;
  value: Buffer | null;
  /** In their order. */
  headers: readonly (readonly [string, Buffer | null])[];
}

/** A record without a valid signature of one of the keys. */
class NotSealed extends Error {}

/** Verifies the records of one connection, in their order. */
export class Sealed {
  readonly #keys: ReadonlyMap<string, KeyObject>;
  readonly #sealedAt = new Map<string, number>(); // of the entries in force
  readonly #warn: (message: string) => void;
  /** Records that were rejected. */
  refused = 0;

  constructor(keys: ReadonlyMap<string, KeyObject>, warn: (message: string) => void = () => {}) {
    this.#keys = keys;
    this.#warn = warn;
  }

  /** Whether a decision is from an authorized worker. */
  holds(record: RawRecord, decidesNothing: () => boolean): boolean {
    try {
      this.check(record);
      return true;
    } catch (notSealed) {
      // Workers of a rule in shadow mode need no key: the decision is ignored, and is no forgery.
      if (!decidesNothing()) this.#refuse(record, notSealed);
      return false;
    }
  }

  /** Returns the entry in force under the key from now on; undefined: no entry. */
  entry(key: string, record: RawRecord, standing: Buffer | undefined): Buffer | undefined {
    let at: number;
    try {
      at = this.check(record);
    } catch (notSealed) {
      this.#refuse(record, notSealed);
      if (standing !== undefined || record.value === null) return standing;
      const entry = frozen(key, "control_entry_not_sealed", "somebody else than a worker wrote it");
      return entry === undefined ? undefined : Buffer.from(JSON.stringify(entry));
    }
    const last = this.#sealedAt.get(key) ?? at;
    if (at < last - CLOCKS_DIFFER_MS) {
      this.#refuse(record, new NotSealed("it was sealed before what stands under its key"));
      return standing;
    }
    if (record.value === null) this.#sealedAt.delete(key);
    else this.#sealedAt.set(key, Math.max(at, last));
    return record.value ?? undefined;
  }

  /** Returns the time of the signature in epoch milliseconds. Throws NotSealed. */
  check(record: RawRecord): number {
    const found = record.headers.filter(([name]) => name === HEADER).map(([, value]) => value);
    const header = found[0];
    if (found.length !== 1 || header === null || header === undefined) {
      throw new NotSealed(`expected one header ${HEADER}, got ${found.length}`);
    }
    const { by, at, signature } = sealOf(header);
    const key = this.#keys.get(by);
    if (key === undefined) throw new NotSealed(`expected a seal of key ${[...this.#keys.keys()].join(", ")}, got another`);
    if (!verify(null, signed(record, at), key, signature)) {
      throw new NotSealed("expected the record as it was signed, got another");
    }
    return at;
  }

  #refuse(record: RawRecord, why: unknown): void {
    this.refused++;
    // The first, the tenth, the hundredth: an attacker must not fill a disk.
    if (!/^10*$/.test(String(this.refused))) return;
    const reason = why instanceof Error ? why.message : String(why);
    this.#warn(`a record of ${record.topic} is not of a worker: ${reason} (${this.refused} such records so far)`);
  }
}

/** Returns the check with the public keys in these files, separated as in PATH. Throws TypeError for invalid files. */
export function sealedOf(files: string, warn: (message: string) => void): Sealed {
  const keys = new Map<string, KeyObject>();
  for (const file of files.split(delimiter)) {
    let key: KeyObject;
    try {
      key = createPublicKey(readFileSync(file));
    } catch (error) {
      throw new TypeError(`verifyKey: expected files of public keys (PEM), got ${file}: ${String(error)}`);
    }
    if (key.asymmetricKeyType !== "ed25519") {
      throw new TypeError(`verifyKey: ${file}: expected an ed25519 public key, got ${key.asymmetricKeyType}`);
    }
    const raw = key.export({ format: "der", type: "spki" }).subarray(-RAW_KEY_BYTES);
    keys.set(createHash("sha256").update(raw).digest("hex").slice(0, 16), key);
  }
  return new Sealed(keys, warn);
}

function sealOf(header: Buffer): { by: string; at: number; signature: Buffer } {
  let seal: unknown;
  try {
    seal = JSON.parse(header.toString());
  } catch {
    seal = undefined;
  }
  const { key_id: by, at, signature } = (typeof seal === "object" && seal !== null ? seal : {}) as Record<string, unknown>;
  if (typeof by !== "string" || typeof at !== "number" || !Number.isSafeInteger(at) || typeof signature !== "string") {
    throw new NotSealed("expected key_id, at and signature, got something else");
  }
  return { by, at, signature: Buffer.from(signature, "base64") };
}

function signed(record: RawRecord, at: number): Buffer {
  const time = Buffer.alloc(8);
  time.writeBigInt64BE(BigInt(at));
  const parts: Buffer[] = [PURPOSE, time];
  for (const part of [Buffer.from(record.topic), record.key, record.value]) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part === null ? ABSENT : part.length);
    parts.push(length);
    if (part !== null) parts.push(part);
  }
  return Buffer.concat(parts);
}
