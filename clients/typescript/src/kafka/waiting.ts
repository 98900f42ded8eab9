// Records that wait in memory until the first connection to a broker: two minutes, as far as there is room.

const LONGEST_MS = 120_000;
const MAX_BYTES = 32 * 1024 * 1024;

/** Receives whether a record was delivered. */
export type Report = (delivered: boolean) => void;

/** A record to be sent to the broker. */
export interface Outgoing {
  readonly topic: string;
  readonly key: Buffer;
  readonly value: Buffer;
  readonly report: Report;
}

export class Waiting {
  #records: { readonly record: Outgoing; readonly sinceMs: number }[] = [];
  #bytes = 0;

  get count(): number {
    return this.#records.length;
  }

  /** False: there is no room. */
  add(record: Outgoing): boolean {
    if (this.#bytes + record.value.length > MAX_BYTES) return false;
    this.#bytes += record.value.length;
    this.#records.push({ record, sinceMs: performance.now() });
    return true;
  }

  /** Returns and clears all of them, in order. */
  take(): readonly Outgoing[] {
    const records = this.#records.map(({ record }) => record);
    this.#records = [];
    this.#bytes = 0;
    return records;
  }

  /** Drops records that have waited for too long. */
  dropOld(): void {
    const oldestMs = performance.now() - LONGEST_MS;
    for (let first = this.#records[0]; first !== undefined && first.sinceMs < oldestMs; first = this.#records[0]) {
      this.#records.shift();
      this.#bytes -= first.record.value.length;
      first.record.report(false);
    }
  }

  drop(): void {
    for (const record of this.take()) record.report(false);
  }
}
