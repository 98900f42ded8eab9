/** The code of a call refused because no verdict was available, and it could do harm. */
export const NO_VERDICT = "no_verdict";
/** The code of a call refused because it is undecided, perhaps as its approval is pending. */
export const APPROVAL_PENDING = "approval_pending";
/** The code of a call refused because the guard, or the adapter, failed. */
export const NOT_CHECKED = "not_checked";
/** The code of a call that needs arguments which its function does not take. */
export const NOT_CHANGED = "arguments_not_changed";

/** The call was not made, and must not be repeated unchanged. Its `message` is for the model. */
export class Refused extends Error {
  override readonly name: string = "Refused";
  /** Further text for the model: hints for this call, or from before it. */
  hints = "";

  constructor(
    /** The machine-readable code, such as `session_killed_loop_guard` or `no_verdict`. */
    readonly code: string,
    /** The text for the model, of at most 400 characters. */
    readonly reason: string,
    /** The request that an operator may approve, and its expiry (epoch milliseconds). */
    readonly approval?: { readonly requestId: string; readonly expires?: number },
  ) {
    super(reason);
  }
}
