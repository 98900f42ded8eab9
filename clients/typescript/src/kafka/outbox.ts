// Records on their way to the broker: in the library's queue, in memory until the first connection, or on disk.

import { QUEUE_RECORDS } from "./clients.js";
import type { LibraryError, Producer } from "./library.js";
import type { KafkaSettings } from "./settings.js";
import { DiskSpool } from "./spool.js";
import { type Outgoing, Waiting } from "./waiting.js";

const RESERVED_RECORDS = 2000;
const MIB = 1024 * 1024;

/** How it stands with the connection. */
export interface Line {
  /** The broker did not answer when it was last asked. */
  isDown: () => boolean;
  /** Undefined until the first connection. */
  producer: () => Producer | undefined;
}

/** Throws Error where the folder of the spool cannot be used. */
export class Outbox {
  readonly #line: Line;
  readonly #waiting = new Waiting();
  readonly #spool: DiskSpool | undefined;
  readonly #onTheWay = new Set<Outgoing>();
  #queued = 0;

  constructor({ spoolDir, spoolMaxMb }: KafkaSettings, line: Line, warn: (message: string) => void) {
    this.#line = line;
    if (spoolDir !== undefined) this.#spool = new DiskSpool(spoolDir, spoolMaxMb * MIB, warn);
  }

  /** Takes one record, which hears whether it was delivered. False: there is no room for it. */
  publish(record: Outgoing, must: boolean): boolean {
    if (this.#spool !== undefined && (this.#line.isDown() || !this.#spool.isEmpty)) return this.#keep(record); // in order
    const hasRoom = this.#queued + this.#waiting.count < QUEUE_RECORDS - (must ? 0 : RESERVED_RECORDS);
    const isTaken = hasRoom && (this.#line.producer() === undefined ? this.#waiting.add(record) : this.#produce(record));
    return isTaken || this.#keep(record);
  }

  /** The first connection is made. */
  connected(): void {
    for (const record of this.#waiting.take()) if (!this.#produce(record)) record.report(false);
  }

  /** There is none now. */
  failed(): void {
    if (this.#line.isDown()) this.toDisk();
    this.#waiting.dropOld();
  }

  /** What became of a record that the library was given. */
  delivered(error: LibraryError | null, record: Outgoing): void {
    this.#queued--;
    if (!this.#onTheWay.delete(record)) return; // it waits on disk since
    if (!error || !this.#keep(record)) record.report(!error);
  }

  /** What is on its way to a broker that is away, or slow, goes to the disk, as far as there is one with room. */
  toDisk(): void {
    if (this.#spool === undefined) return;
    for (const record of this.#waiting.take()) if (!this.#keep(record)) record.report(false);
    for (const record of [...this.#onTheWay]) if (this.#keep(record)) this.#onTheWay.delete(record);
  }

  /** What waits on disk is sent, as far as the queue has room. */
  catchUp(): void {
    this.#spool?.drain((record, report) => this.#queued < QUEUE_RECORDS / 2 && this.#produce({ ...record, report }));
  }

  drop(): void {
    this.#waiting.drop();
  }

  /** Once the producer has ended. */
  close(): void {
    this.#spool?.close();
  }

  /** A record waits on disk: it will arrive, if not by this process. False: there is no room. */
  #keep(record: Outgoing): boolean {
    const isKept = this.#spool?.append(record) ?? false;
    if (isKept) record.report(true);
    return isKept;
  }

  #produce(record: Outgoing): boolean {
    try {
      this.#line.producer()?.produce(record.topic, null, record.value, record.key, null, record);
    } catch {
      return false; // its queue is full
    }
    this.#queued++;
    this.#onTheWay.add(record);
    return true;
  }
}
