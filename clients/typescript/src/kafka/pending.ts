// Calls that wait for a person's approval, as known to the guard.

import { awaitsApproval, isSameRequest } from "./causes.js";
import type { Decision } from "./records.js";

const MAX = 64;

/** Open requests by canonical parameters. */
export class Pending {
  readonly #open = new Map<string, Decision>();

  get empty(): boolean {
    return this.#open.size === 0;
  }

  /** Applies a decision. Returns whether it is about a request, or a call, that was known to wait. */
  update(decision: Decision): boolean {
    const approval = decision.approval;
    if (approval === undefined) return false;
    const known = this.#open.get(approval.parameters);
    this.#open.delete(approval.parameters);
    if (awaitsApproval(decision) !== undefined) {
      for (const parameters of [approval.parameters, ...approval.also]) this.#open.set(parameters, decision);
      for (const oldest of this.#open.keys()) {
        if (this.#open.size <= MAX) break;
        this.#open.delete(oldest);
      }
      return known !== undefined;
    }
    if (approval.state !== "approved" && approval.state !== "used") {
      for (const parameters of approval.also) this.#open.delete(parameters);
    }
    return known !== undefined && isSameRequest(known, decision);
  }

  /** Returns the request that a call with these parameters has to wait for. */
  against(parametersOf: () => string | undefined, nowMs: number): Decision | undefined {
    if (this.empty) return undefined;
    const parameters = parametersOf();
    const decision = parameters === undefined ? undefined : this.#open.get(parameters);
    if (parameters === undefined || decision?.approval === undefined) return undefined;
    if (decision.approval.expires <= nowMs) {
      this.#open.delete(parameters); // on the repeated call, the worker reports the current state
      return undefined;
    }
    return decision;
  }
}
