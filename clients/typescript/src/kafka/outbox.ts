// Outgoing records: in the library's queue, in memory until the first connection, or on disk.

import { QUEUE_RECORDS } from "./clients.js";
import type { LibraryError, Producer } from "./library.js";
import type { KafkaSettings } from "./settings.js";
import { DiskSpool } from "./spool.js";
import { type Outgoing, Waiting } from "./waiting.js";

const RESERVED_RECORDS = 2000;
const MIB = 1024 * 1024;

/** The state of the connection. */
export interface Line {
  /** The broker did not respond to the last request. */
  isDown: () => boolean;
  /** Undefined until the first connection. */
  producer: () => Producer | undefined;
}

/** The outgoing records. Throws Error if the folder of the spool cannot be used. */
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

  /** Queues one record; its report receives whether it was delivered. False: there is no room for it. */
  publish(record: Outgoing, must: boolean): boolean {
    if (this.#spool !== undefined && (this.#line.isDown() || !this.#spool.isEmpty)) return this.#keep(record); // in order
    const hasRoom = this.#queued + this.#waiting.count < QUEUE_RECORDS - (must ? 0 : RESERVED_RECORDS);
    const isTaken = hasRoom && (this.#line.producer() === undefined ? this.#waiting.add(record) : this.#produce(record));
    return isTaken || this.#keep(record);
  }

  /** Handles the first connection. */
  connected(): void {
    for (const record of this.#waiting.take()) if (!this.#produce(record)) record.report(false);
  }

  /** Handles a failed connection. */
  failed(): void {
    if (this.#line.isDown()) this.toDisk();
    this.#waiting.dropOld();
  }

  /** Handles the delivery report of a record. */
  delivered(error: LibraryError | null, record: Outgoing, isStored: boolean): void {
    this.#queued--;
    if (!this.#onTheWay.delete(record)) return; // it waits on disk since
    if (!error && !isStored && this.#produce(record)) return;
    if (isStored || !this.#keep(record)) record.report(isStored);
  }

  /** Moves undelivered records to the disk if the broker is down or slow, as far as there is room. */
  toDisk(): void {
    if (this.#spool === undefined) return;
    for (const record of this.#waiting.take()) if (!this.#keep(record)) record.report(false);
    for (const record of [...this.#onTheWay]) if (this.#keep(record)) this.#onTheWay.delete(record);
  }

  /** Sends records that waited on disk, as far as the queue has room. */
  catchUp(): void {
    this.#spool?.drain((record, report) => this.#queued < QUEUE_RECORDS / 2 && this.#produce({ ...record, report }));
  }

  drop(): void {
    this.#waiting.drop();
  }

  /** Closes after the producer has ended. */
  close(): void {
    this.#spool?.close();
  }

  /** Saves a record on disk, possibly for another process to send. False: there is no room. */
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
