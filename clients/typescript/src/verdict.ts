/** The verdict on a call, or on the model's next turn, from the service's answer. */

import type { Denied } from "./options.js";
import { Refused } from "./refused.js";
import { ServiceProblem } from "./service.js";
import { isObject, withHints } from "./texts.js";

export interface Verdict {
  /** `stop`: the session was killed, and its run has to end. `hold`: it is held, and its turn ends. */
  readonly answer: string;
  /** Further text for the model. */
  readonly hints: string;
  readonly changes?: Changes;
  /** Undefined: go on. */
  readonly refused?: Refused;
}

/** Arguments that were decided in place of the proposed ones. */
export interface Changes {
  readonly put: Record<string, unknown>;
  readonly remove: readonly string[];
}

const GOES_ON = new Set(["allow", "change", "reinforce"]);
const REFUSED = new Set(["refuse", "roll_back", "hold", "stop"]);

/** Throws ServiceProblem for an answer without a verdict. */
export function verdictOf(body: Record<string, unknown>): Verdict {
  const { answer, code, message, hints, put, remove, request_id, expires } = body;
  const about = { answer: String(answer), hints: typeof hints === "string" ? hints : "" };
  if (GOES_ON.has(about.answer)) {
    if (answer !== "change") return about;
    return { ...about, changes: { put: isObject(put) ? put : {}, remove: Array.isArray(remove) ? remove.map(String) : [] } };
  }
  if (!REFUSED.has(about.answer)) throw new ServiceProblem(200, `expected a verdict, got ${JSON.stringify(answer)?.slice(0, 80) ?? "none"}`);
  const approval =
    typeof request_id === "string" ? { requestId: request_id, ...(typeof expires === "number" ? { expires } : {}) } : undefined;
  const refused = new Refused(
    typeof code === "string" ? code : "refused",
    typeof message === "string" ? message : "This was refused.",
    approval,
  );
  return { ...about, refused };
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
