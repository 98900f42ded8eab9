// Whether the broker responds, and the topic of actions is as it was.

import { isAway, partitionsOf } from "./clients.js";
import type { LibraryError, Producer } from "./library.js";
import { GONE, LOOK_EVERY_MS, WorkerPresence } from "./presence.js";
import type { Topics } from "./topics.js";

/** What the last requests to the broker have shown. */
export class Reachability {
  readonly watched = new WorkerPresence();
  /** The broker did not respond to the last request. */
  isDown = false;
  #isSuspect = false;
  #complaint = "";
  #lookedMs = 0;

  constructor(
    private readonly topics: Topics,
    private readonly warn: (message: string) => void,
  ) {}

  /** Records that a connection has begun to read. */
  restored(): void {
    this.isDown = this.#isSuspect = false;
  }

  /** Handles an error that the library reports; true: the broker is to be asked now. */
  complained(error: LibraryError): boolean {
    this.#complaint = error.message;
    if (isAway(error)) this.#isSuspect = true;
    return isAway(error);
  }

  /** Returns a problem with the library's last complaint. */
  reasonOf(error: unknown): string {
    const problem = textOf(error);
    return this.#complaint === "" ? problem : `${problem} (${this.#complaint})`;
  }

  /** Asks what is due: whether a suspect broker responds, and from time to time about the topic of actions. */
  async ask(producer: Producer): Promise<void> {
    if (this.#isSuspect) await this.#probe(producer);
    if (!this.isDown && performance.now() - this.#lookedMs > LOOK_EVERY_MS) await this.look(producer);
  }

  /** Checks that the topic of actions exists, with the same number of partitions. */
  async look(producer: Producer): Promise<void> {
    this.#lookedMs = performance.now();
    try {
      const count = await partitionsOf(producer, this.topics.actions);
      this.watched.looked(count);
      if (count === 0) this.warn(GONE);
    } catch {
      this.#isSuspect = true;
    }
  }

  /** Requests metadata: the library reports when a connection ends, not when it is restored. */
  async #probe(producer: Producer): Promise<void> {
    try {
      await partitionsOf(producer, this.topics.control, true);
      this.restored();
    } catch (error) {
      if (!this.isDown) this.warn(`the broker is unavailable: ${textOf(error)}`);
      this.isDown = true;
    }
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
