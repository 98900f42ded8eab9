// Visibility of the events of this process to workers, as far as the topic of actions shows it. A broker that accepts
// every record is not enough: a topic may be deleted, or recreated, or have another number of partitions than before.

import { partitionOf } from "./partitioner.js";

export const LOOK_EVERY_MS = 5000;
const RESTART_WITHIN_S = 60;
const ORDER_WITHIN_S = 1;

export const GONE = "the topic of actions is gone: no worker sees what is done";
const RECREATED =
  "the topic of actions was recreated: workers may not see what is done until they have restarted";
const MOVED = "the topic of actions has other partitions than before: no worker reads that of this session";

/** The known state of the topic. */
export class WorkerPresence {
  readonly #highest = new Map<number, { offset: number; atS: number }>();
  #beganWith = 0;
  #count = 0;
  #gone = false;
  #recreatedS: number | undefined;

  constructor(private readonly nowS: () => number = () => performance.now() / 1000) {}

  /** Sets the current number of partitions of the topic; 0: it is missing. */
  looked(partitions: number): void {
    this.#gone = partitions === 0;
    if (partitions === 0) return;
    this.#count = partitions;
    this.#beganWith ||= partitions;
  }

  /** Records the offset of a delivered record of this process. */
  delivered(partition: number, offset: number): void {
    const nowS = this.nowS();
    const highest = this.#highest.get(partition) ?? { offset: -1, atS: nowS };
    if (offset < highest.offset && nowS - highest.atS <= ORDER_WITHIN_S) return;
    if (offset < highest.offset) this.#recreatedS = nowS;
    this.#highest.set(partition, { offset, atS: nowS });
  }

  /** Returns why workers may not see this session's events; undefined: no reason. */
  unwatchedReason(sessionId: string): string | undefined {
    if (this.#gone) return GONE;
    if (this.#recreatedS !== undefined && this.nowS() - this.#recreatedS < RESTART_WITHIN_S) return RECREATED;
    if (this.#beganWith === this.#count) return undefined;
    return partitionOf(sessionId, this.#beganWith) === partitionOf(sessionId, this.#count) ? undefined : MOVED;
  }
}
