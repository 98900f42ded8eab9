// The permissions of a session, from all control entries and decisions received. No I/O. The same as the Python client's
// `Enforcer`, checked by recorded sequences of inputs and requests (test/vectors/kafka-enforcer.json).
//
// A kill of the session, one above it, its agent, its mission or the fleet is permanent in this object: a reset applies
// to a new session object. Restrictions of a tool or target, and freezes, end with their entry.

import type { Acknowledge, Admittable, Admitted, Clocks, EnforcerSettings } from "./admission.js";
import { answer, type Awaited, AwaitedVerdicts, keepNewest, type Verdict } from "./awaited.js";
import {
  adviceOf,
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
import { endsTurn } from "../effects.js";
import { type Effect, EFFECTS } from "../transport.js";

const HELD_CODE = "session_frozen_no_progress";
const MAX_LATE = 64;
const MAX_REMEMBERED = 512;

/** Receives control entries and decisions, and admits or refuses calls. */
export class Enforcer {
  readonly #own: string;
  readonly #always: Set<string>;
  #entries = new Map<string, ControlRecord>();
  #before = new Map<string, ControlRecord>(); // the previous entries, while the topic is read again
  #loaded = false;
  #loading: Later<void>[] = [];
  #killed: Cause | undefined;
  #unacknowledged = new Map<string, number | undefined>(); // kills during which calls may still run
  readonly #running = new Map<string, string>();
  readonly #awaited: AwaitedVerdicts;
  #late: Decision[] = [];
  readonly #seen = new Set<string>();
  readonly #pending = new Pending();
  #behindUntilS = 0;
  #refusedFor = ""; // the decision of the freeze that a call was refused for
  #turnPassedIn = ""; // that of the freeze in which a turn has passed
  #mayReport = false;

  private readonly settings: EnforcerSettings;
  private readonly acknowledge: Acknowledge;
  private readonly clocks: Clocks;

  constructor(settings: EnforcerSettings, acknowledge: Acknowledge, clocks: Clocks) {
    this.settings = settings;
    this.acknowledge = acknowledge;
    this.clocks = clocks;
    this.#own = `session:${settings.sessionId}`;
    this.#awaited = new AwaitedVerdicts(settings.budgetS, settings.firstBudgetS, () => clocks.monotonicS());
    const lineage = settings.lineage.map((one) => `session:${one}`);
    this.#always = new Set([...lineage, `agent:${settings.agentId}`, "fleet:*"]);
    if (settings.missionId !== undefined) this.#always.add(`mission:${settings.missionId}`);
  }

  // Records received.

  /** Whether an entry with this key can affect a call of this session. */
  concerns(key: string): boolean {
    return this.#always.has(key) || key.startsWith("tool:") || key.startsWith("target:");
  }

  /** Applies an entry of the control topic; undefined: the entry was removed. */
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

  /** Applies the entries once all are read: a later entry may revoke an earlier one. */
  loaded(): void {
    this.#loaded = true;
    this.#before = new Map();
    for (const [key, record] of [...this.#entries]) this.#applyEntry(key, record);
    const waiting = this.#loading;
    this.#loading = [];
    for (const one of waiting) one.set();
  }

  /** The control topic is read again. A kill stays; other entries apply until all are read. */
  unloaded(): void {
    if (this.#loaded) this.#before = this.#entries;
    this.#loaded = false;
    this.#entries = new Map();
    this.#awaited.reconnected();
  }

  /** Applies a decision for this session. */
  decision(decision: Decision): void {
    const waiting = this.#awaited.answeredBy(decision);
    // Decisions in shadow mode have no effect, and their consumer group may lag.
    if (waiting !== undefined || decision.mode !== "shadow") this.#apply(decision, waiting);
  }

  // Called by the agent.

  /** Completes when the restrictions in force are known. */
  whenLoaded(): Later<void> {
    const later = new Later<void>();
    if (this.#loaded) later.set();
    else this.#loading.push(later);
    return later;
  }

  get isLoaded(): boolean {
    return this.#loaded;
  }

  /** Returns the seconds to wait for the next verdict: the first of a connection may take the start-up time. */
  verdictWaitS(): number {
    return this.#awaited.waitS();
  }

  /** Whether the last awaited verdict did not arrive in time. */
  get isSilent(): boolean {
    return this.#awaited.isSilent;
  }

  /** Returns why decisions are not reliable now, as text. */
  degraded(linkUp: boolean): string | undefined {
    if (!this.#loaded) return "the control topic has not been read yet";
    if (!linkUp) return "the broker is unavailable";
    if (this.isSilent) return "the last awaited verdict did not arrive in time";
    if (this.clocks.monotonicS() < this.#behindUntilS) return "decisions arrive too late: the workers are behind";
    return undefined;
  }

  /** The kill of the session, one above it, its agent, its mission or the fleet. */
  get killed(): Cause | undefined {
    return this.#killed;
  }

  /** Keeps the kill of the session above, which has acknowledged it. */
  stayKilled(cause: Cause): void {
    this.#killed = cause;
  }

  /** Returns the cause that refuses this call now, without a verdict. */
  against(action: string, targets: readonly string[], effect: Effect = "read"): Cause | undefined {
    if (this.#killed !== undefined) return this.#killed;
    const looks = EFFECTS.indexOf(effect) <= EFFECTS.indexOf("poll");
    const keys = new Set([...this.#always, `tool:${action}`, ...targets.map((target) => `target:${target}`)]);
    for (const [key, record] of [...this.#entries, ...this.#before]) {
      if (!keys.has(key) || (looks && mayLook(record))) continue;
      // A frozen session may report, ask its user, and end its turn.
      if (record.state === "frozen" && endsTurn(action)) return undefined;
      if (action !== "") this.#noteRefused(record.decision_id);
      return causeOfEntry(record);
    }
    return undefined;
  }

  /** Notes that a call was refused for a restriction: after it, the model may have a turn for its report. */
  #noteRefused(decisionId: string): void {
    if (decisionId === this.#refusedFor) return;
    this.#refusedFor = decisionId;
    this.#mayReport = true;
  }

  /**
   * Returns the cause that refuses the next turn of the model. In a session that is held for lack of progress, one turn
   * may pass before a call was refused, and one after it: the model reads why, and reports.
   */
  againstTurn(): Cause | undefined {
    const held = [...this.#entries, ...this.#before].find(([key, one]) => this.#always.has(key) && one.code === HELD_CODE);
    if (held !== undefined && this.#killed === undefined) {
      const decisionId = held[1].decision_id;
      if (decisionId !== this.#refusedFor && decisionId !== this.#turnPassedIn) {
        this.#turnPassedIn = decisionId;
        return undefined;
      }
      if (this.#mayReport && decisionId === this.#refusedFor) {
        this.#mayReport = false;
        return undefined;
      }
    }
    return this.against("", []);
  }

  againstCall(call: Admittable): Cause | undefined {
    return this.against(call.action, call.matchTargets, call.effect);
  }

  /** Registers a proposal; completes with undefined if there will be no verdict, or the session is killed. */
  awaitVerdict(eventId: string): Verdict {
    const verdict = this.#awaited.expect(eventId);
    if (this.#killed !== undefined) verdict.set(undefined);
    return verdict;
  }

  /** Returns the verdict if it has arrived, and stops waiting for it. */
  takeVerdict(eventId: string, verdict: Verdict): Decision | undefined {
    this.#awaited.forget(eventId, verdict);
    return verdict.cancel() ? undefined : verdict.value;
  }

  /** Waits for a person's answer to a proposal; completes with undefined if the session is killed. */
  awaitApproval(eventId: string): Verdict {
    const verdict = this.#awaited.of(eventId);
    if (verdict !== undefined && this.#killed === undefined) return verdict;
    const answered: Verdict = new Later();
    answered.set(undefined);
    return answered;
  }

  /** Stops waiting; the call is refused, or continues. Returns the verdict if it arrived in time. */
  giveUp(eventId: string, verdict: Verdict, refused: boolean): Decision | undefined {
    if (!verdict.cancel()) {
      this.#awaited.forget(eventId, verdict);
      return verdict.value;
    }
    this.#awaited.giveUp(eventId, refused);
    return undefined;
  }

  /** Returns the final result for a call: the refusal, or its admission with advice. */
  admit(call: Admittable, verdict: Decision | undefined, parameters: () => string | undefined): Admitted {
    const cause = this.againstCall(call);
    // A freeze belongs to the request that can lift it: a call that has waited gets that request's answer.
    const mayAnswer = this.#killed === undefined && verdict !== undefined && ofSession(verdict) !== undefined;
    if (cause !== undefined && !mayAnswer) return { cause, advice: [], rollbacks: [] };
    const waits = this.#pending.against(parameters, this.clocks.nowMs());
    if (verdict === undefined && waits !== undefined) {
      // Other late decisions apply to the next call.
      this.#late = this.#late.filter((one) => !isSameRequest(one, waits));
      return { cause: causeOfWaiting(waits), advice: [], rollbacks: [] };
    }
    // An answered request no longer refuses, even if it was for an earlier call.
    const passes = endsTurn(call.action); // also in a session that is held from now on
    const decisions = this.#late.filter(
      (one) =>
        (verdict === undefined || !isSameRequest(one, verdict)) &&
        !this.#isStale(one) &&
        !(passes && ofSession(one) !== undefined),
    );
    this.#late = [];
    if (verdict !== undefined && verdict.level !== "ALLOW") decisions.push(verdict);
    for (const one of decisions) {
      if (one.level === "ROLLBACK") continue;
      this.acknowledge("applied", one.decision_id, one.decided_at, { callId: call.callId });
    }
    // Of equal levels, the verdict on this call comes before a late one: the agent reads this call's reason.
    let refusing: Decision | undefined;
    for (const one of [...decisions].reverse()) {
      if (refuses(one) && (refusing === undefined || rank(one.level) > rank(refusing.level))) refusing = one;
    }
    if (refusing === undefined) this.#running.set(call.callId, call.action);
    else if (ofSession(refusing) !== undefined) this.#noteRefused(refusing.decision_id);
    return {
      ...(refusing === undefined ? {} : { cause: causeOf(refusing) }),
      advice: decisions.filter((one) => !refuses(one)).map(adviceOf),
      rollbacks: decisions.filter((one) => one.level === "ROLLBACK"),
    };
  }

  /** Records the end of an admitted call. */
  done(callId: string): void {
    this.#running.delete(callId);
    this.#acknowledgeStopped();
  }

  // Internal.

  #apply(decision: Decision, waiting: Awaited | undefined): void {
    if (waiting !== undefined) this.#awaited.arrived(waiting);
    const isNew = this.#isNew(decision.decision_id);
    if (decision.level === "KILL" && !isOneThing(decision.scope)) {
      if (isNew) this.#received(decision);
      // A kill that is sent again was acknowledged, but the acknowledgement did not arrive.
      this.#kill(causeOf(decision), isNew || "issued" in decision.values);
      waiting?.verdict.set(undefined);
      return;
    }
    const stale = this.#isStale(decision);
    // A late decision shows that the workers lag; calls that await no verdict learn it only this way.
    this.#behindUntilS = stale ? this.clocks.monotonicS() + this.settings.maxDecisionAgeS : 0;
    const wasRequested = this.#pending.update(decision);
    if (isAnswer(decision)) {
      this.#lift(decision);
      this.#late = this.#late.filter((one) => !isSameRequest(one, decision));
      if (decision.level !== "ALLOW" && isNew) this.#received(decision);
      // No call waits: keep it for the next such call. A hint applies to the next call of any kind.
      if (!answer(waiting, decision) && decision.level === "NUDGE" && isNew) this.#addLate(decision);
      return;
    }
    if (decision.level === "ALLOW" || !isNew || stale) {
      if (decision.level !== "ALLOW" && isNew) this.#received(decision, "stale: not applied");
      // The freeze may be known already; the call waits for the person all the same.
      if (answer(waiting, stale ? undefined : decision) && !stale) this.#awaited.waitOn(decision);
      return;
    }
    this.#received(decision);
    if (answer(waiting, decision)) this.#awaited.waitOn(decision);
    else if (!wasRequested && (!refuses(decision) || !waiting?.notDone)) this.#addLate(decision);
  }

  /** Applies an entry in force: acknowledges it if it stops this session. A kill is permanent. */
  #applyEntry(key: string, record: ControlRecord): void {
    if (!this.#always.has(key)) return;
    const isNew = this.#isNew(record.decision_id);
    if (isNew) this.acknowledge("received", record.decision_id, record.decided_at, {});
    if (record.state === "killed") {
      // Before a restart this session may have acknowledged the stop; sessions above acknowledge their own.
      const acknowledged = key === this.#own && record.stopped_at !== undefined;
      this.#kill(causeOfEntry(record), isNew && !acknowledged);
    } else if (isNew) {
      this.acknowledge("applied", record.decision_id, record.decided_at, {});
    }
  }

  /** Ends the freeze of the whole session at its approval, before the control topic shows it. */
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
      this.#killed = cause; // the decision behind the entry, with all its fields
    }
    this.#awaited.end();
    this.#acknowledgeStopped();
  }

  #acknowledgeStopped(): void {
    if (this.#unacknowledged.size === 0 || this.#running.size > 0) return;
    const unsaid = this.#unacknowledged;
    this.#unacknowledged = new Map();
    for (const [decisionId, decidedAtMs] of unsaid) this.acknowledge("stopped", decisionId, decidedAtMs, {});
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
}

/** Returns the request to unfreeze the whole session, if the decision is about one. */
function ofSession(decision: Decision): Approval | undefined {
  return decision.approval?.action === WHOLE_SESSION ? decision.approval : undefined;
}
