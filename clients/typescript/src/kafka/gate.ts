// The path of one call over Kafka: restrictions, limits, proposal, verdict, refusal or admission, end. The same as the
// Python client's `CallGate`.

import { simpleTargets } from "../targets.js";
import {
  type Effect,
  EFFECTS,
  noveltyFields,
  type Outcome,
  type Output,
  type ProposedCall,
  type SessionInfo,
  type TurnEvent,
  type Verdict,
} from "../transport.js";
import type { Admittable, Admitted } from "./admission.js";
import { APPROVAL_EXPIRED, APPROVAL_PENDING, awaitsApproval, type Cause, NOBODY } from "./causes.js";
import { Enforcer } from "./enforcer.js";
import type { Later } from "./later.js";
import { fieldsOf, parametersOf, Publisher, type Send } from "./publisher.js";
import type { Decision } from "./records.js";
import { Rollbacks } from "./rollback.js";
import { type Objection, RuleBook, type Ticket } from "./rules.js";
import type { KafkaSettings } from "./settings.js";
import { Throttled } from "./throttled.js";
import { TokenBucket } from "./token_bucket.js";
import { holdsWord } from "./words.js";

const THROTTLED: Objection = {
  code: "throttled",
  message: "Your limits were lowered, and this call exceeds them. Review what was done, and continue with less.",
};

/** The state of the connection. */
export interface Link {
  /** False: the broker did not respond to the last request. */
  up: () => boolean;
  /** Returns why workers may not see this session's events. */
  unwatched: () => string | undefined;
}

const WALL_AND_MONOTONIC = { nowMs: () => Date.now(), monotonicS: () => performance.now() / 1000 };

/** Admits the calls of one session, and publishes their ends. */
export class Gate {
  readonly enforcer: Enforcer;
  readonly publisher: Publisher;
  readonly #session: SessionInfo;
  readonly #settings: KafkaSettings;
  readonly #link: Link;
  readonly #parent: Gate | undefined;
  readonly #startedS = performance.now() / 1000;
  readonly #refusals = new TokenBucket(10, 20);
  readonly #throttled = new Throttled();
  readonly #calls = new Map<string, { readonly call: ProposedCall; readonly ticket: Ticket | undefined }>();
  readonly rules: RuleBook | undefined;
  readonly #rollbacks: Rollbacks;
  #restored = 0;

  constructor(session: SessionInfo, settings: KafkaSettings, send: Send, link: Link, parent?: Gate) {
    this.#session = session;
    this.#settings = settings;
    this.#link = link;
    this.#parent = parent;
    this.publisher = new Publisher(session, settings.topicPrefix, send);
    const above = [session.parentSessionId, session.rootSessionId, ...session.ancestors];
    const lineage = [session.sessionId, ...above.filter((one) => one !== undefined)];
    const enforcer = { ...settings, ...session, agentId: session.agentId ?? "unknown", lineage };
    this.enforcer = new Enforcer(enforcer, this.publisher.acknowledge, WALL_AND_MONOTONIC);
    this.rules = settings.rules && new RuleBook(settings.rules);
    this.#rollbacks = new Rollbacks(settings.checkpoints, settings.rollbackBudgetS, (stage, of, detail) => {
      if (stage === "applied") this.#restored++;
      this.publisher.acknowledge(stage, of.decision_id, of.decided_at, { callId: of.call_id, detail });
    });
  }

  /** Why decisions are not reliable now, as text; undefined if they are. */
  get degraded(): string | undefined {
    return this.enforcer.degraded(this.#link.up()) ?? this.#link.unwatched();
  }

  /** Reports the start of the session, or of its user's next prompt. */
  started(prompts?: number): void {
    const { goal } = this.#session;
    const task = { goal, prompts };
    this.publisher.event("session.started", goal === undefined && prompts === undefined ? {} : { task }, true);
  }

  end(): void {
    this.publisher.event("session.ended", {}, true);
  }

  /** Saves a state of the work, and reports it. Rejects if it cannot be saved. */
  async checkpoint(id: string, safe: boolean): Promise<void> {
    await this.#settings.checkpoints?.keep(id);
    this.publisher.event("session.heartbeat", { checkpoint: { id, safe } }, true);
  }

  async verdict(call: ProposedCall): Promise<Verdict> {
    const mode = call.mode ?? this.#session.mode ?? "async";
    if (mode === "local") throw new TypeError(LOCAL);
    await this.#whenLoaded();
    await this.#rollbacks.whenDone();
    const admittable = admittableOf(call);

    // 1. Restrictions in force: after a kill no verdict is requested. 2. The author's rules, and the limits of a
    // THROTTLE.
    this.followParent();
    let standing = this.enforcer.againstCall(admittable);
    const ticket = standing ? undefined : this.rules?.begin(call.action, call.rawArgs(), Date.now(), call.costUsd);
    try {
      const isBeyond = this.#throttled.isBeyond(call.knownEffect, Date.now());
      standing ??= causeOfOwn(ticket?.refused ?? (isBeyond ? THROTTLED : undefined));
      if (standing === undefined) return await this.#admission(call, admittable, mode, ticket);
      return this.#refuseAtOnce(call, standing);
    } finally {
      if (ticket !== undefined && this.#calls.get(call.callId)?.ticket !== ticket) this.rules?.release(ticket);
    }
  }

  /** How often the work was restored, after a rollback that is being carried out. */
  async rollbacks(): Promise<number> {
    await this.#whenLoaded();
    await this.#rollbacks.whenDone();
    return this.#restored;
  }

  /** Publishes that a call is not made, as an equal one was or is. Returns the refusal, if a restriction is in force. */
  notMade(call: ProposedCall, code: string): Verdict | undefined {
    this.followParent();
    const standing = this.enforcer.againstCall(admittableOf(call));
    if (standing !== undefined) return this.#refuseAtOnce(call, standing);
    this.publisher.event("action.completed", { ...fieldsOf(call), outcome: "refused", error: code }, false);
    return undefined;
  }

  /** Refuses a call without a proposal; of many in a row, not each is published. */
  #refuseAtOnce(call: ProposedCall, cause: Cause): Verdict {
    const heldBack = this.#refusals.take();
    return heldBack === undefined ? this.#refusal(cause) : this.#refuse(call, cause, [], heldBack);
  }

  async #admission(call: ProposedCall, admittable: Admittable, mode: string, ticket: Ticket | undefined): Promise<Verdict> {
    const enforcer = this.enforcer;
    const hints = (ticket?.hints ?? []).map(({ message }) => message);

    // 3. Publish the proposal.
    const closed = atLeast(call.knownEffect, this.#settings.failClosedFrom);
    const waits = this.#waits(call, mode);
    const fields = { ...fieldsOf(call), secrets_sent: call.secretsSent, await_verdict: waits };
    const { eventId, handedOver } = this.publisher.event("action.proposed", fields, closed);
    const answer = waits ? enforcer.awaitVerdict(eventId) : undefined;

    // 4. Get the verdict: from the worker within the budget, or none.
    let verdict: Decision | undefined;
    let known = true;
    if (answer === undefined) known = !closed || this.degraded === undefined;
    else [verdict, known] = await this.#answered(eventId, answer, closed);

    // 5. Apply it.
    if (closed && !(known && handedOver)) {
      return this.#refuse(call, enforcer.againstCall(admittable) ?? NOBODY); // no destruction without a record
    }
    this.followParent();
    const admitted = enforcer.admit(admittable, verdict, () => parametersOf(call));
    for (const one of admitted.advice) this.#throttled.take(one.limits, Date.now(), one.decision.expires);
    let cause = admitted.cause;
    for (const one of admitted.rollbacks) {
      const done = await this.#rollbacks.carryOut(one);
      if (cause?.decision === one) cause = { ...cause, message: `${cause.message} ${done}`.trim() };
    }
    hints.push(...admitted.advice.map(({ message }) => message));
    const changed = changes(call, admitted);
    if (cause === undefined && this.rules !== undefined && changed.changeArguments !== undefined) {
      const { put, remove } = changed.changeArguments; // the author's rules apply to a decision's arguments as well
      const kept = Object.entries(call.rawArgs()).filter(([name]) => !remove.includes(name));
      const { refused, hint } = this.rules.againstChanged(call.action, { ...Object.fromEntries(kept), ...put });
      if (hint !== undefined) hints.push(hint.message);
      cause = causeOfOwn(refused);
      if (cause !== undefined) enforcer.done(call.callId); // it was admitted already
    }
    if (cause !== undefined) return this.#refuse(call, cause, hints);
    this.#throttled.note(call.knownEffect);
    this.#calls.set(call.callId, { call, ticket });
    return { allowed: true, killed: false, callId: call.callId, ...said(hints), ...changed };
  }

  /** Returns whether the model may take its next turn. */
  async turnVerdict(): Promise<Verdict> {
    await this.#whenLoaded();
    this.followParent();
    const cause = this.enforcer.againstTurn();
    return cause === undefined ? { allowed: true, killed: false } : this.#refusal(cause);
  }

  /** Publishes the end of an admitted call. */
  result(callId: string, { outcome, error, output, novelty, durationMs }: Outcome): void {
    const { call, ticket } = this.#calls.get(callId) ?? {};
    this.#calls.delete(callId);
    try {
      if (call === undefined) return;
      const cost = ticket === undefined ? call.costUsd : this.rules?.end(ticket, Date.now(), outcome === "ok");
      const usage = cost ? { cost_usd: cost } : undefined;
      const fields = { ...fieldsOf(call), usage, outcome, error, ...shown(output), output_novelty: novelty && noveltyFields(novelty), duration_ms: durationMs };
      this.publisher.event("action.completed", fields, atLeast(call.knownEffect, this.#settings.failClosedFrom));
    } finally {
      this.enforcer.done(callId);
    }
  }

  turn({ usage, output }: TurnEvent): void {
    const used = {
      input_tokens: count(usage?.inputTokens) + count(usage?.cacheWriteTokens),
      output_tokens: count(usage?.outputTokens),
      cache_read_tokens: count(usage?.cacheReadTokens),
      cost_usd: amount(usage?.costUsd),
    };
    this.rules?.spend(used.cost_usd);
    this.#throttled.used(used.input_tokens + used.output_tokens + used.cache_read_tokens);
    this.publisher.event("model.turn", { ...(usage === undefined ? {} : { usage: used }), ...shown(output) }, false);
  }

  /** Applies a kill of the session above, which a broker may not report. */
  followParent(): void {
    if (this.#parent === undefined || this.enforcer.killed !== undefined) return;
    this.#parent.followParent();
    const killed = this.#parent.enforcer.killed;
    if (killed !== undefined) this.enforcer.stayKilled(killed);
  }

  async #whenLoaded(): Promise<void> {
    const leftS = this.#startedS + this.#settings.startBudgetS - performance.now() / 1000;
    if (!this.enforcer.isLoaded && leftS > 0) await this.enforcer.whenLoaded().wait(leftS);
  }

  /** Whether the call waits for a verdict of the worker. A call's own mode comes first. */
  #waits(call: ProposedCall, mode: string): boolean {
    if (mode !== "async" || call.mode !== undefined) return mode === "blocking";
    if (call.secretsSent !== undefined) return this.#link.up();
    if (this.#settings.askFrom === null || !this.#link.up()) return false;
    if (atLeast(call.knownEffect, this.#settings.askFrom)) return true;
    const looks = EFFECTS.indexOf(call.knownEffect) <= EFFECTS.indexOf("poll");
    return !looks && (call.unreadFrom !== undefined || holdsWord(JSON.stringify(call.args)));
  }

  /** Returns the verdict, if there is one, and whether the restrictions in force are known. */
  async #answered(
    eventId: string,
    answer: Later<Decision | undefined>,
    closed: boolean,
  ): Promise<[Decision | undefined, boolean]> {
    const enforcer = this.enforcer;
    let known = enforcer.isLoaded;
    if (this.#link.up() && (closed || !enforcer.isSilent)) await answer.wait(enforcer.verdictWaitS());
    let verdict = enforcer.giveUp(eventId, answer, closed);
    known &&= verdict !== undefined;
    const approval = awaitsApproval(verdict);
    if (verdict === undefined || approval === undefined) return [verdict, known];
    const person = enforcer.awaitApproval(eventId);
    await person.wait(Math.min(this.#settings.approvalWaitS, (approval.expires - Date.now()) / 1000));
    const code = Date.now() >= approval.expires ? APPROVAL_EXPIRED : APPROVAL_PENDING;
    verdict = enforcer.takeVerdict(eventId, person) ?? { ...verdict, code };
    return [verdict, known];
  }

  #refuse(call: ProposedCall, cause: Cause, hints: readonly string[] = [], heldBack = 0): Verdict {
    // One event is enough: detectors do not count a refused end without a proposal as an attempt.
    const fields = { ...fieldsOf(call), outcome: "refused", error: cause.code };
    this.publisher.event("action.completed", fields, false);
    if (cause.decisionId !== "") {
      const detail = heldBack > 0 ? `${heldBack} more since the last were not published` : "";
      const more = { callId: call.callId, action: call.action, detail };
      this.publisher.acknowledge("refused", cause.decisionId, cause.decidedAtMs, more);
    }
    return { ...this.#refusal(cause), ...said(hints) };
  }

  #refusal({ code, message, decision }: Cause): Verdict {
    const approval = decision?.approval;
    const request = approval === undefined ? {} : { requestId: approval.request_id, expires: approval.expires };
    const checkpoint = decision?.checkpoint === undefined ? {} : { checkpoint: decision.checkpoint };
    return { allowed: false, killed: this.enforcer.killed !== undefined, code, message, ...request, ...checkpoint };
  }
}

export const LOCAL = "mode: expected async or blocking over Kafka, got local; for local use haltline's localSession";

/** Returns the cause of a refusal by the author's rules, which is not published. */
function causeOfOwn(objection: Objection | undefined): Cause | undefined {
  return objection && { decisionId: "", ...objection };
}

function atLeast(effect: Effect, from: Effect | null): boolean {
  return from !== null && EFFECTS.indexOf(effect) >= EFFECTS.indexOf(from);
}

function admittableOf(call: ProposedCall): Admittable {
  return { ...call, effect: call.knownEffect, matchTargets: matchTargets(call) };
}

/** Returns the targets that a control entry can name: of the call as it is, and as the workers see it. */
function matchTargets(call: ProposedCall): readonly string[] {
  return [...call.matchTargets(), ...call.targets, ...simpleTargets(call.args)];
}

/** Returns the distinct texts for the model. */
function said(texts: readonly string[]): { hints?: string } {
  const hints = [...new Set(texts.filter(Boolean))].join("\n");
  return hints === "" ? {} : { hints };
}

/** Returns the changes for this call; changes meant for another call do not apply. */
function changes(call: ProposedCall, admitted: Admitted): Pick<Verdict, "changeArguments"> {
  for (const { decision } of admitted.advice) {
    const remove = decision.without_arguments ?? [];
    if (decision.call_id !== call.callId || (decision.arguments === undefined && remove.length === 0)) continue;
    return { changeArguments: { put: decision.arguments ?? {}, remove } };
  }
  return {};
}

function shown(output: Output | undefined): Record<string, unknown> {
  if (output === undefined) return {};
  return {
    output_digest: output.digest ?? undefined,
    output_bytes: output.bytes,
    output_head: output.head ?? undefined,
    ...(output.repeats === undefined ? {} : { output_repeats: output.repeats }),
  };
}

function count(value: number | undefined): number {
  return Math.round(amount(value));
}

function amount(value: number | undefined): number {
  return value !== undefined && Number.isFinite(value) ? Math.min(1e15, Math.max(0, value)) : 0;
}
