// Execution of a ROLLBACK: the checkpoint is restored, and the result is published; as in the Python client.

import { AsyncLocalStorage } from "node:async_hooks";

import { Later } from "./later.js";
import type { Decision } from "./records.js";

const BY_THE_AGENT = "refused; the guard keeps no checkpoints: going back is left to the agent's own code";
const NO_SAFE_ONE = "nothing was restored: no checkpoint is safe, a person has to recover the work";

/** Saves and restores states of the agent's work: a database, a sandbox, a folder. Rejecting or throwing: failed. */
export interface Checkpoints {
  /** Saves the current state under this id. */
  keep(checkpointId: string): unknown;
  /** Restores the state. The return value is the proof, as text. */
  restore(checkpointId: string): unknown;
}

/** Reports progress to the worker. */
type Tell = (stage: "applied" | "failed", decision: Decision, detail: string) => void;

const carriedOut = new AsyncLocalStorage<Later<string>>();

/** The rollbacks of one session. */
export class Rollbacks {
  readonly #checkpoints: Checkpoints | undefined;
  readonly #budgetS: number;
  readonly #tell: Tell;
  #goingBack: Later<string> | undefined;

  constructor(checkpoints: Checkpoints | undefined, budgetS: number, tell: Tell) {
    this.#checkpoints = checkpoints;
    this.#budgetS = budgetS;
    this.#tell = tell;
  }

  /** Waits for the end of a rollback, which changes the work; not in a tool that `restore` itself calls. */
  async whenDone(): Promise<void> {
    if (carriedOut.getStore() !== this.#goingBack) await this.#goingBack?.wait(this.#budgetS);
  }

  /** Rolls back. Returns a further text for the model. Does not reject. */
  async carryOut(decision: Decision): Promise<string> {
    if (this.#checkpoints === undefined) {
      this.#tell("applied", decision, BY_THE_AGENT); // the refusal names the checkpoint
      return "";
    }
    const done = (this.#goingBack = new Later<string>());
    void carriedOut.run(done, () => this.#restored(decision)).then((said) => done.set(said));
    await done.wait(this.#budgetS);
    return done.value ?? "The files are still being restored. Do not touch them before that is done.";
  }

  async #restored(decision: Decision): Promise<string> {
    const id = decision.checkpoint;
    if (id === undefined) {
      this.#tell("failed", decision, NO_SAFE_ONE);
      return "Nothing was restored: a person has to review what was done.";
    }
    let proof: unknown;
    try {
      proof = await this.#checkpoints?.restore(id);
    } catch (error) {
      this.#tell("failed", decision, `not restored: checkpoint ${id}: ${String(error)}`);
      return "The changes could not be undone: a person has to review them.";
    }
    const said = proof === undefined || proof === null ? "" : `; ${String(proof)}`;
    this.#tell("applied", decision, `restored: checkpoint ${id}: 0 files restored, 0 removed${said}`);
    return `The work was restored to checkpoint ${id}. Continue from there with another approach.`;
  }
}
