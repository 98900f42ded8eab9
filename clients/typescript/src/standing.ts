/** The restrictions in force for a session, as its verdicts have shown them: for calls and turns without a response. */

import { refusedOf } from "./answers.js";
import { onlyLooks } from "./effects.js";
import { APPROVAL_PENDING, NO_VERDICT, Refused } from "./refused.js";
import { EFFECTS, type Effect, type Verdict } from "./transport.js";

const NOBODY = "No verdict on this call is available, and it could do harm. Report it instead.";
const UNDECIDED =
  "It is not decided yet whether this may be done, and a person may have to approve it. It was not done. " +
  "Do not try to reach the same result another way; report it instead.";

export class Standing {
  readonly #above: Standing | undefined;
  readonly #failClosedFrom: Effect | null;
  #killed: Refused | undefined;
  #frozen: Refused | undefined;
  /** The containment: read-only calls and turns are allowed, and do not end it. */
  #contained: Refused | undefined;

  /** `above`: of the session above. */
  constructor(failClosedFrom: Effect | null, above: Standing | undefined) {
    this.#failClosedFrom = failClosedFrom;
    this.#above = above;
  }

  /** Why every further call is refused; undefined: they are not. */
  get killed(): Refused | undefined {
    return this.#killed ?? this.#above?.killed;
  }

  /** The reason against a further model turn, as far as it is known; undefined: no reason. */
  get stopped(): Refused | undefined {
    return this.killed ?? this.#frozen;
  }

  /** Stores the restrictions of a verdict. */
  heard(verdict: Verdict, effect: Effect): void {
    if (verdict.killed) this.#killed ??= refusedOf(verdict);
    else if (verdict.allowed) {
      this.#frozen = undefined;
      if (!onlyLooks(effect)) this.#contained = undefined;
    } else if (verdict.code?.includes("_frozen_")) this.#frozen = refusedOf(verdict);
    else if (verdict.code?.includes("_contained_")) this.#contained = refusedOf(verdict);
  }

  /**
   * Returns the refusal of a call without a response: known restrictions apply, undecided and destructive calls are
   * refused. Undefined: it is made.
   */
  withoutVerdict(effect: Effect, isUndecided: boolean): Refused | undefined {
    const stands = this.#frozen ?? (onlyLooks(effect) ? undefined : this.#contained);
    if (stands) return stands;
    if (isUndecided) return new Refused(APPROVAL_PENDING, UNDECIDED);
    const from = this.#failClosedFrom;
    const isClosed = from !== null && EFFECTS.indexOf(effect) >= EFFECTS.indexOf(from);
    return isClosed ? new Refused(NO_VERDICT, NOBODY) : undefined;
  }
}
