/** The code of a call that was refused because nobody could be asked, and it could do harm. */
export const NO_VERDICT = "no_verdict";
/** The code of a call that was refused because it is still undecided, perhaps as a person has not approved it yet. */
export const APPROVAL_PENDING = "approval_pending";
/** The code of a call that was refused because the guard, or the adapter, failed. */
export const NOT_CHECKED = "not_checked";
/** The code of a call that would have had to be made with arguments that its function does not take. */
export const NOT_CHANGED = "arguments_not_changed";

/** The call was not made, and must not be tried again as it is. Its `message` is what the model may see. */
export class Refused extends Error {
  override readonly name: string = "Refused";
  /** For the model, besides: hints for this call, or from before it. */
  hints = "";
  /** The state to go back to, where a ROLLBACK leaves that to the agent. */
  checkpoint: string | undefined;

  constructor(
    /** For programs, such as `session_killed_loop_guard` or `no_verdict`. */
    readonly code: string,
    /** For the model: one or two sentences. */
    readonly reason: string,
    /** The request that an operator may approve, and until when (epoch milliseconds). */
    readonly approval?: { readonly requestId: string; readonly expires?: number },
  ) {
    super(`${code}: ${reason}`);
  }
}
