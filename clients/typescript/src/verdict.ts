/** The verdict on a call, or on the model's next turn, from the service's answer. */

import type { Denied } from "./options.js";
import { Refused } from "./refused.js";
import { ServiceProblem } from "./service.js";
import { isObject, withHints } from "./texts.js";

export type Verdict = {
  /** The session was stopped permanently: its run has to end. */
  readonly killed: boolean;
  readonly callId: string | undefined;
  /** Further text for the model. */
  readonly hints: string;
} & (
  | { readonly allowed: true; readonly changes: Changes | undefined; readonly refused?: undefined }
  | { readonly allowed: false; readonly refused: Refused }
);

/** Arguments that were decided in place of the proposed ones. */
export interface Changes {
  readonly put: Record<string, unknown>;
  readonly remove: readonly string[];
}

/** Throws ServiceProblem for an answer without a verdict. */
export function verdictOf(body: Record<string, unknown>): Verdict {
  const { allowed, killed, call_id, code, message, hints, change_arguments, request_id, expires } = body;
  if (typeof allowed !== "boolean") throw new ServiceProblem(200, "expected a verdict, got none");
  const about = {
    killed: killed === true,
    callId: typeof call_id === "string" ? call_id : undefined,
    hints: typeof hints === "string" ? hints : "",
  };
  if (allowed) {
    const { put, remove } = (isObject(change_arguments) ? change_arguments : {}) as Partial<Changes>;
    return { ...about, allowed, changes: isObject(change_arguments) ? { put: put ?? {}, remove: remove ?? [] } : undefined };
  }
  const approval =
    typeof request_id === "string" ? { requestId: request_id, ...(typeof expires === "number" ? { expires } : {}) } : undefined;
  const refused = new Refused(
    typeof code === "string" ? code : "refused",
    typeof message === "string" ? message : "This was refused.",
    approval,
  );
  return { ...about, allowed, refused };
}

/** Returns arguments with the changes. */
export function changed(args: Record<string, unknown>, { put, remove }: Changes): Record<string, unknown> {
  const kept = Object.entries(args).filter(([name]) => !remove.includes(name));
  return Object.fromEntries([...kept, ...Object.entries(put)]);
}

export function withOwnHints(refused: Refused, hints: string): Refused {
  refused.hints = hints;
  return refused;
}

export function denied(refused: Refused, hints: string): Denied {
  refused.hints = hints;
  return { allowed: false, text: withHints(refused.message, hints), code: refused.code, refused };
}
