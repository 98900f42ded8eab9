/** The restrictions in force for a session, as its verdicts have shown them: for calls and turns without a response. */

import type { WhenDown } from "./options.js";
import { onlyReads } from "./reads.js";
import { APPROVAL_PENDING, NO_VERDICT, Refused } from "./refused.js";
import type { Verdict } from "./verdict.js";

/* The texts of haltline.interventions.state.texts. */
const NOBODY =
  "haltline did not make this call: no decision on it could be obtained, and it could do harm. Continue with " +
  "calls that only read, or end your turn and report it. Ask whoever operates you to look at haltline.";
const UNDECIDED =
  "haltline did not make this call: it is not decided yet, and a person may have to approve it. Do not try to " +
  "reach the same result another way. Continue with something else, or end your turn and report it.";

export class Standing {
  readonly #above: Standing | undefined;
  readonly #whenDown: WhenDown;
  #killed: Refused | undefined;
  #frozen: Refused | undefined;
  /** The containment: calls that read and turns are allowed, and do not end it. */
  #contained: Refused | undefined;

  /** `above`: of the session above. */
  constructor(whenDown: WhenDown, above: Standing | undefined) {
    this.#whenDown = whenDown;
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

  /** Stores the restrictions of a verdict. `reads`: on a turn, or a call that only reads. */
  heard({ allowed, killed, refused }: Verdict, reads: boolean): void {
    if (killed) this.#killed ??= refused;
    else if (allowed) {
      this.#frozen = undefined;
      if (!reads) this.#contained = undefined;
    } else if (refused.code.includes("_frozen_")) this.#frozen = refused;
    else if (refused.code.includes("_contained_")) this.#contained = refused;
  }

  /** Returns the refusal of a call without a response; undefined: it is made. */
  withoutVerdict(action: string, isUndecided: boolean): Refused | undefined {
    const reads = onlyReads(action);
    const stands = this.#frozen ?? (reads ? undefined : this.#contained);
    if (stands) return stands;
    if (isUndecided) return new Refused(APPROVAL_PENDING, UNDECIDED);
    return reads || this.#whenDown === "all" ? undefined : new Refused(NO_VERDICT, NOBODY);
  }
}
