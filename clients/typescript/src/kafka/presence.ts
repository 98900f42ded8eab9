// Whether workers can see what the sessions of this process do: what the topic of actions itself shows of it. A broker
// that takes every record is not enough: a topic may be gone, or recreated, or have other partitions than before.

import { partitionOf } from "./partitioner.js";

export const LOOK_EVERY_MS = 5000;
const BEGIN_ANEW_WITHIN_S = 60;
const ORDER_WITHIN_S = 1;

export const GONE = "the topic of actions is gone: no worker sees what is done";
const MADE_ANEW =
  "the topic of actions was recreated: workers may not see what is done until they have begun anew";
const MOVED = "the topic of actions has other partitions than before: no worker reads that of this session";

/** What is known of the topic. */
export class WorkerPresence {
  readonly #highest = new Map<number, { offset: number; atS: number }>();
  #beganWith = 0;
  #count = 0;
  #gone = false;
  #madeAnewS: number | undefined;

  constructor(private readonly nowS: () => number = () => performance.now() / 1000) {}

  /** How many partitions the topic has now; 0: it is not there. */
  looked(partitions: number): void {
    this.#gone = partitions === 0;
    if (partitions === 0) return;
    this.#count = partitions;
    this.#beganWith ||= partitions;
  }

  /** Where a record of this process has come to stand. */
  delivered(partition: number, offset: number): void {
    const nowS = this.nowS();
    const highest = this.#highest.get(partition) ?? { offset: -1, atS: nowS };
    if (offset < highest.offset && nowS - highest.atS <= ORDER_WITHIN_S) return;
    if (offset < highest.offset) this.#madeAnewS = nowS;
    this.#highest.set(partition, { offset, atS: nowS });
  }

  /** Why workers cannot be expected to see what this session does; undefined: nothing speaks against it. */
  unwatchedReason(sessionId: string): string | undefined {
    if (this.#gone) return GONE;
    if (this.#madeAnewS !== undefined && this.nowS() - this.#madeAnewS < BEGIN_ANEW_WITHIN_S) return MADE_ANEW;
    if (this.#beganWith === this.#count) return undefined;
    return partitionOf(sessionId, this.#beganWith) === partitionOf(sessionId, this.#count) ? undefined : MOVED;
  }
}
