// Proposals of a session that await a verdict, or a person's answer. No I/O. The same as the Python client's
// `AwaitedVerdicts`.

import { awaitsApproval, isAnswer } from "./causes.js";
import { Later } from "./later.js";
import { type Decision, rank } from "./records.js";

const MAX_AWAITED = 512;

/** Undefined: there is no verdict. */
export type Verdict = Later<Decision | undefined>;

/** A proposal whose verdict has not arrived, or arrived too late. */
export interface Awaited {
  readonly verdict: Verdict;
  readonly sinceS: number;
  /** The call was refused without a verdict: a late refusal changes nothing. */
  notDone: boolean;
  /** The approval request to wait for; undefined: the worker's verdict is awaited. */
  readonly requestId?: string;
}

/** Awaited verdicts by the proposal's id; beyond 512 the oldest is dropped. */
export class AwaitedVerdicts {
  readonly #awaited = new Map<string, Awaited>();
  #silent = false;
  #firstRequestS: number | undefined; // on this connection
  #wasAnswered = false;

  constructor(
    private readonly budgetS: number,
    private readonly firstBudgetS: number,
    private readonly monotonicS: () => number,
  ) {}

  /** Whether the last awaited verdict did not arrive in time. */
  get isSilent(): boolean {
    return this.#silent;
  }

  /** Resets the time limit: the next verdict is the first of a new connection. */
  reconnected(): void {
    this.#firstRequestS = undefined;
    this.#wasAnswered = false;
  }

  /** Returns the seconds to wait for the next verdict: the first of a connection may take the start-up time. */
  waitS(): number {
    if (this.#wasAnswered) return this.budgetS;
    const nowS = this.monotonicS();
    this.#firstRequestS ??= nowS;
    return Math.max(this.budgetS, this.#firstRequestS + this.firstBudgetS - nowS);
  }

  /** Registers a proposal, and returns its verdict to wait for. */
  expect(eventId: string): Verdict {
    const verdict: Verdict = new Later();
    this.#awaited.set(eventId, { verdict, sinceS: this.monotonicS(), notDone: false });
    keepNewest(this.#awaited, MAX_AWAITED);
    return verdict;
  }

  /** Returns the verdict of a proposal, if it is awaited. */
  of(eventId: string): Verdict | undefined {
    return this.#awaited.get(eventId)?.verdict;
  }

  /** Stops waiting for this verdict. */
  forget(eventId: string, verdict: Verdict): void {
    // A person's answer may be awaited since.
    if (this.of(eventId) === verdict) this.#awaited.delete(eventId);
  }

  /** Records that the verdict did not arrive in time; the call is refused for it, or continues. */
  giveUp(eventId: string, refused: boolean): void {
    this.#silent = true;
    const waiting = this.#awaited.get(eventId);
    if (waiting !== undefined) waiting.notDone = refused;
  }

  /** Returns the proposal that awaits this decision, and removes it; one that awaits a person's answer stays. */
  answeredBy(decision: Decision): Awaited | undefined {
    const waiting = this.#awaited.get(decision.event_id);
    if (waiting === undefined || !isAnsweredBy(waiting, decision)) return undefined;
    if (waiting.requestId === undefined) this.#awaited.delete(decision.event_id);
    return waiting;
  }

  /** Lets the call wait for a person's answer. */
  waitOn(decision: Decision): void {
    const requestId = awaitsApproval(decision)?.request_id;
    if (requestId === undefined) return;
    this.#awaited.set(decision.event_id, {
      verdict: new Later(), sinceS: this.monotonicS(), notDone: false, requestId,
    });
  }

  /** Records that the worker answers in time again. */
  arrived(waiting: Awaited): void {
    this.#wasAnswered = true;
    if (this.monotonicS() - waiting.sinceS <= this.budgetS) this.#silent = false;
  }

  /** Completes all verdicts with undefined. */
  end(): void {
    for (const waiting of this.#awaited.values()) waiting.verdict.set(undefined);
  }
}

/** Sets the verdict. False: no call waits for it. */
export function answer(waiting: Awaited | undefined, verdict: Decision | undefined): boolean {
  return waiting !== undefined && !waiting.notDone && waiting.verdict.set(verdict);
}

/** Drops the oldest entries beyond the limit. */
export function keepNewest(kept: Map<string, unknown> | Set<string>, most: number): void {
  for (const oldest of kept.keys()) {
    if (kept.size <= most) return;
    kept.delete(oldest);
  }
}

function isAnsweredBy(waiting: Awaited, decision: Decision): boolean {
  if (rank(decision.level) > rank("PAUSE")) return true; // a decision above PAUSE ends the wait
  if (waiting.requestId !== undefined) {
    return isAnswer(decision) && decision.approval?.request_id === waiting.requestId;
  }
  // Rules across sessions name events without judging them.
  return decision.scope_id === undefined || decision.level === "PAUSE";
}
