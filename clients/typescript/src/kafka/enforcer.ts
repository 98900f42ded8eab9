// What the session may do, from all that has arrived. No I/O. The same as the Python client's `Enforcer`: recorded
// sequences of what arrives and of what is asked hold the two together (test/vectors/kafka-enforcer.json).
//
// A kill of the session, one above it, its agent, its mission or the fleet is permanent in this object: a reset is for
// a new session object. What holds for a tool or a target, and what is frozen, ends with its entry.

import type { Acknowledge, Admittable, Admitted, Clocks, EnforcerSettings } from "./admission.js";
import {
  adviceOf,
  awaitsApproval,
  type Cause,
  causeOf,
  causeOfEntry,
  causeOfWaiting,
  isAnswer,
  isOneThing,
  isSameRequest,
  mayLook,
  refuses,
} from "./causes.js";
import { Later } from "./later.js";
import { Pending } from "./pending.js";
import { type Approval, type ControlRecord, type Decision, HALTLINE, rank, WHOLE_SESSION } from "./records.js";
import { type Effect, EFFECTS } from "../transport.js";

const MAX_LATE = 64;
const MAX_REMEMBERED = 512;

interface Awaited {
  verdict: Later<Decision | undefined>;
  sinceS: number;
  /** The call was refused without a verdict: a late refusal is nothing new. */
  notDone: boolean;
  /** The request that a person is to answer; undefined: the worker's verdict is awaited. */
  requestId?: string;
}

function isAnsweredBy(waiting: Awaited, decision: Decision): boolean {
  if (rank(decision.level) > rank("PAUSE")) return true; // what refuses more than a person may let pass ends the waiting
  if (waiting.requestId !== undefined) {
    return isAnswer(decision) && decision.approval?.request_id === waiting.requestId;
  }
  // A decision of a rule across sessions names an event without judging it.
  return decision.scope_id === undefined || decision.level === "PAUSE";
}

/** Takes in control entries and decisions from one side, and admits or refuses calls on the other. */
export class Enforcer {
  readonly #own: string;
  readonly #always: Set<string>;
  #entries = new Map<string, ControlRecord>();
  #before = new Map<string, ControlRecord>(); // while the topic is read anew: what stood
  #loaded = false;
  #loading: Later<void>[] = [];
  #killed: Cause | undefined;
  #unacknowledged = new Map<string, number | undefined>(); // kills after which something may still run
  readonly #running = new Map<string, string>();
  readonly #awaited = new Map<string, Awaited>();
  #late: Decision[] = [];
  readonly #seen = new Set<string>();
  #silent = false;
  #firstRequestS: number | undefined; // of this connection
  #wasAnswered = false;
  readonly #pending = new Pending();
  #behindUntilS = 0;

  private readonly settings: EnforcerSettings;
  private readonly acknowledge: Acknowledge;
  private readonly clocks: Clocks;

  constructor(settings: EnforcerSettings, acknowledge: Acknowledge, clocks: Clocks) {
    this.settings = settings;
    this.acknowledge = acknowledge;
    this.clocks = clocks;
    this.#own = `session:${settings.sessionId}`;
    const lineage = settings.lineage.map((one) => `session:${one}`);
    this.#always = new Set([...lineage, `agent:${settings.agentId}`, "fleet:*"]);
    if (settings.missionId !== undefined) this.#always.add(`mission:${settings.missionId}`);
  }

  // What arrives.

  /** Whether an entry with this key can be about one of this session's calls. */
  concerns(key: string): boolean {
    return this.#always.has(key) || key.startsWith("tool:") || key.startsWith("target:");
  }

  /** Takes in an entry of the control topic; undefined: nothing holds under this key any more. */
  control(key: string, record: ControlRecord | undefined): void {
    if (!this.concerns(key)) return;
    const stops = record !== undefined && record.state !== "probation";
    if (!stops || record.spared.includes(this.settings.sessionId)) {
      this.#entries.delete(key);
      return;
    }
    this.#entries.set(key, record);
    if (this.#loaded) this.#applyEntry(key, record);
  }

  /** From now on what stands is known; until now a later entry could take an earlier one back. */
  loaded(): void {
    this.#loaded = true;
    this.#before = new Map();
    for (const [key, record] of [...this.#entries]) this.#applyEntry(key, record);
    const waiting = this.#loading;
    this.#loading = [];
    for (const one of waiting) one.set();
  }

  /** What stands is read anew. A kill stays; what else stood holds until all is read. */
  unloaded(): void {
    if (this.#loaded) this.#before = this.#entries;
    this.#loaded = false;
    this.#entries = new Map();
    this.#firstRequestS = undefined;
    this.#wasAnswered = false;
  }

  /** Takes in a decision for this session. */
  decision(decision: Decision): void {
    const waiting = this.#answeredBy(decision);
    // One in shadow decides nothing, and comes from a group of its own, which may be far behind.
    if (waiting !== undefined || decision.mode !== "shadow") this.#apply(decision, waiting);
  }

  // What the agent asks.

  /** Done when it is known what stands. */
  whenLoaded(): Later<void> {
    const later = new Later<void>();
    if (this.#loaded) later.set();
    else this.#loading.push(later);
    return later;
  }

  get isLoaded(): boolean {
    return this.#loaded;
  }

  /** How long the next verdict is waited for: the first of a connection may take as long as a start. */
  verdictWaitS(): number {
    const { budgetS, firstBudgetS } = this.settings;
    if (this.#wasAnswered) return budgetS;
    const nowS = this.clocks.monotonicS();
    this.#firstRequestS ??= nowS;
    return Math.max(budgetS, this.#firstRequestS + firstBudgetS - nowS);
  }

  /** The last verdict that was waited for did not come in time. */
  get isSilent(): boolean {
    return this.#silent;
  }

  /** Why decisions cannot be relied on now, in words. */
  degraded(linkUp: boolean): string | undefined {
    if (!this.#loaded) return "it is not known what stands";
    if (!linkUp) return "the broker is away";
    if (this.#silent) return "the last verdict that was waited for did not come in time";
    if (this.clocks.monotonicS() < this.#behindUntilS) return "decisions come too late: the workers are behind";
    return undefined;
  }

  /** What killed the session, or one above it, its agent, its mission or the fleet. */
  get killed(): Cause | undefined {
    return this.#killed;
  }

  /** Ended with the session above it, which has acknowledged that. */
  stayKilled(cause: Cause): void {
    this.#killed = cause;
  }

  /** What refuses this call now, without any verdict. */
  against(action: string, targets: readonly string[], effect: Effect = "read"): Cause | undefined {
    if (this.#killed !== undefined) return this.#killed;
    const looks = EFFECTS.indexOf(effect) <= EFFECTS.indexOf("poll");
    const keys = new Set([...this.#always, `tool:${action}`, ...targets.map((target) => `target:${target}`)]);
    for (const [key, record] of [...this.#entries, ...this.#before]) {
      if (keys.has(key) && !(looks && mayLook(record))) return causeOfEntry(record);
    }
    return undefined;
  }

  againstCall(call: Admittable): Cause | undefined {
    return this.against(call.action, call.matchTargets, call.effect);
  }

  /** Expects a verdict on a proposal; done with undefined when there will be none, or the session is killed. */
  awaitVerdict(eventId: string): Later<Decision | undefined> {
    const verdict = new Later<Decision | undefined>();
    this.#awaited.set(eventId, { verdict, sinceS: this.clocks.monotonicS(), notDone: false });
    keepNewest(this.#awaited, MAX_REMEMBERED);
    if (this.#killed !== undefined) verdict.set(undefined);
    return verdict;
  }

  /** The verdict, if there is one already; expects it no longer. */
  takeVerdict(eventId: string, verdict: Later<Decision | undefined>): Decision | undefined {
    this.#expectNoLonger(eventId, verdict);
    return verdict.cancel() ? undefined : verdict.value;
  }

  /** What a person says to a proposal that needs approval; done with undefined when the session is killed. */
  awaitApproval(eventId: string): Later<Decision | undefined> {
    const waiting = this.#awaited.get(eventId);
    if (waiting !== undefined && this.#killed === undefined) return waiting.verdict;
    const answered = new Later<Decision | undefined>();
    answered.set(undefined);
    return answered;
  }

  /** Waits no longer: the call is refused for it, or goes on. The verdict, if it arrived in time. */
  giveUp(eventId: string, verdict: Later<Decision | undefined>, refused: boolean): Decision | undefined {
    if (!verdict.cancel()) {
      this.#expectNoLonger(eventId, verdict);
      return verdict.value;
    }
    this.#silent = true;
    const waiting = this.#awaited.get(eventId);
    if (waiting !== undefined) waiting.notDone = refused;
    return undefined;
  }

  /** The last word before a call runs: why it is refused, or that it runs now, with its advice. */
  admit(call: Admittable, verdict: Decision | undefined, parameters: () => string | undefined): Admitted {
    const cause = this.againstCall(call);
    // A freeze and the request that could lift it are one: a call that has waited gets the answer to that.
    const mayAnswer = this.#killed === undefined && verdict !== undefined && ofSession(verdict) !== undefined;
    if (cause !== undefined && !mayAnswer) return { cause, advice: [], rollbacks: [] };
    const waits = this.#pending.against(parameters, this.clocks.nowMs());
    if (verdict === undefined && waits !== undefined) {
      // A late decision about anything else is for the next call.
      this.#late = this.#late.filter((one) => !isSameRequest(one, waits));
      return { cause: causeOfWaiting(waits), advice: [], rollbacks: [] };
    }
    // What a person has answered refuses no longer, also when it was of the call before.
    const decisions = this.#late.filter(
      (one) => (verdict === undefined || !isSameRequest(one, verdict)) && !this.#isStale(one),
    );
    this.#late = [];
    if (verdict !== undefined && verdict.level !== "ALLOW") decisions.push(verdict);
    for (const one of decisions) {
      if (one.level === "ROLLBACK") continue;
      this.acknowledge("applied", one.decision_id, one.decided_at, { callId: call.callId });
    }
    // Of two as hard, the verdict on this call before a late one: the agent reads why this one is refused.
    let refusing: Decision | undefined;
    for (const one of [...decisions].reverse()) {
      if (refuses(one) && (refusing === undefined || rank(one.level) > rank(refusing.level))) refusing = one;
    }
    if (refusing === undefined) this.#running.set(call.callId, call.action);
    return {
      ...(refusing === undefined ? {} : { cause: causeOf(refusing) }),
      advice: decisions.filter((one) => !refuses(one)).map(adviceOf),
      rollbacks: decisions.filter((one) => one.level === "ROLLBACK"),
    };
  }

  /** A call that was admitted has ended. */
  done(callId: string): void {
    this.#running.delete(callId);
    this.#acknowledgeStopped();
  }

  // Inside.

  #apply(decision: Decision, waiting: Awaited | undefined): void {
    this.#onVerdict(waiting);
    const isNew = this.#isNew(decision.decision_id);
    if (decision.level === "KILL" && !isOneThing(decision.scope)) {
      if (isNew) this.#received(decision);
      // One that is sent again, though it was answered: the answer did not arrive.
      this.#kill(causeOf(decision), isNew || "issued" in decision.values);
      waiting?.verdict.set(undefined);
      return;
    }
    const stale = this.#isStale(decision);
    // One that comes too late says that the workers are behind; who waits for no verdict learns it only so.
    this.#behindUntilS = stale ? this.clocks.monotonicS() + this.settings.maxDecisionAgeS : 0;
    const wasRequested = this.#pending.update(decision);
    if (isAnswer(decision)) {
      this.#lift(decision);
      this.#late = this.#late.filter((one) => !isSameRequest(one, decision));
      if (decision.level !== "ALLOW" && isNew) this.#received(decision);
      // Nobody waits: it is for the next such call. A hint is for whatever comes next.
      if (!answer(waiting, decision) && decision.level === "NUDGE" && isNew) this.#addLate(decision);
      return;
    }
    if (decision.level === "ALLOW" || !isNew || stale) {
      if (decision.level !== "ALLOW" && isNew) this.#received(decision, "stale: not applied");
      // The freeze that it brings may have been known before: the caller waits for the person all the same.
      if (answer(waiting, stale ? undefined : decision) && !stale) this.#mayWaitOn(decision);
      return;
    }
    this.#received(decision);
    if (answer(waiting, decision)) this.#mayWaitOn(decision);
    else if (!wasRequested && (!refuses(decision) || !waiting?.notDone)) this.#addLate(decision);
  }

  /** A standing entry: acknowledged when it stops this session, and a kill is permanent. */
  #applyEntry(key: string, record: ControlRecord): void {
    if (!this.#always.has(key)) return;
    const isNew = this.#isNew(record.decision_id);
    if (isNew) this.acknowledge("received", record.decision_id, record.decided_at, {});
    if (record.state === "killed") {
      // Before a restart this session may have acknowledged the stop already; one above it speaks for itself.
      const acknowledged = key === this.#own && record.stopped_at !== undefined;
      this.#kill(causeOfEntry(record), isNew && !acknowledged);
    } else if (isNew) {
      this.acknowledge("applied", record.decision_id, record.decided_at, {});
    }
  }

  /** The freeze of the whole session ends with its approval: the control topic may show it later. */
  #lift(decision: Decision): void {
    const held = this.#entries.get(this.#own);
    if (held === undefined || held.state !== "frozen" || held.by !== HALTLINE) return;
    if (ofSession(decision)?.state === "approved") this.#entries.delete(this.#own);
  }

  #kill(cause: Cause, say: boolean): void {
    if (say) {
      const running = [...new Set(this.#running.values())].sort().join(", ");
      const detail = running === "" ? "" : `still running: ${running}`;
      this.acknowledge("applied", cause.decisionId, cause.decidedAtMs, { detail });
      this.#unacknowledged.set(cause.decisionId, cause.decidedAtMs);
    }
    if (this.#killed === undefined) this.#killed = cause;
    else if (this.#killed.decision === undefined && cause.decisionId === this.#killed.decisionId) {
      this.#killed = cause; // the decision behind the entry, with all that it says
    }
    for (const waiting of this.#awaited.values()) waiting.verdict.set(undefined);
    this.#acknowledgeStopped();
  }

  #acknowledgeStopped(): void {
    if (this.#unacknowledged.size === 0 || this.#running.size > 0) return;
    const unsaid = this.#unacknowledged;
    this.#unacknowledged = new Map();
    for (const [decisionId, decidedAtMs] of unsaid) this.acknowledge("stopped", decisionId, decidedAtMs, {});
  }

  /** What waits for this decision; it waits no longer, but a person's answer stays until it is fetched. */
  #answeredBy(decision: Decision): Awaited | undefined {
    const waiting = this.#awaited.get(decision.event_id);
    if (waiting === undefined || !isAnsweredBy(waiting, decision)) return undefined;
    if (waiting.requestId === undefined) this.#awaited.delete(decision.event_id);
    return waiting;
  }

  /** The call may wait on, for a person's answer. */
  #mayWaitOn(decision: Decision): void {
    const approval = awaitsApproval(decision);
    if (approval === undefined) return;
    const verdict = new Later<Decision | undefined>();
    const sinceS = this.clocks.monotonicS();
    this.#awaited.set(decision.event_id, { verdict, sinceS, notDone: false, requestId: approval.request_id });
  }

  #expectNoLonger(eventId: string, verdict: Later<Decision | undefined>): void {
    // Not what is expected of a person since.
    if (this.#awaited.get(eventId)?.verdict === verdict) this.#awaited.delete(eventId);
  }

  #received(decision: Decision, detail = ""): void {
    this.acknowledge("received", decision.decision_id, decision.decided_at, { callId: decision.call_id, detail });
  }

  #addLate(decision: Decision): void {
    this.#late.push(decision);
    if (this.#late.length > MAX_LATE) this.#late.shift();
  }

  #isStale(decision: Decision): boolean {
    const nowMs = this.clocks.nowMs();
    const expired = decision.expires !== undefined && decision.expires < nowMs;
    return expired || nowMs - decision.time > this.settings.maxDecisionAgeS * 1000;
  }

  #isNew(decisionId: string): boolean {
    if (this.#seen.has(decisionId)) return false;
    this.#seen.add(decisionId);
    keepNewest(this.#seen, MAX_REMEMBERED);
    return true;
  }

  /** The worker answers in time again. */
  #onVerdict(waiting: Awaited | undefined): void {
    if (waiting === undefined) return;
    this.#wasAnswered = true;
    if (this.clocks.monotonicS() - waiting.sinceS <= this.settings.budgetS) this.#silent = false;
  }
}

/** The request to let the whole session go on, where a decision is about one. */
function ofSession(decision: Decision): Approval | undefined {
  return decision.approval?.action === WHOLE_SESSION ? decision.approval : undefined;
}

/** False: nobody waits for it. */
function answer(waiting: Awaited | undefined, verdict: Decision | undefined): boolean {
  return waiting !== undefined && !waiting.notDone && waiting.verdict.set(verdict);
}

function keepNewest(kept: Map<string, unknown> | Set<string>, most: number): void {
  for (const oldest of kept.keys()) {
    if (kept.size <= most) return;
    kept.delete(oldest);
  }
}
