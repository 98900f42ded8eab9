/** One session of an agent: its calls, turns and hints, between a framework and a transport. Every adapter uses it. */

import { randomUUID } from "node:crypto";

import { checked, denied, id, key, refusedOf, withOwnHints } from "./answers.js";
import { Describer } from "./describe.js";
import { HeldSecrets } from "./held_secrets.js";
import { SeenWords } from "./novelty.js";
import { copied, IN_FLIGHT, keyOf, REPLAYED, type Result, Results, STILL_RUNNING } from "./once.js";
import type { Allowed, CallOptions, Denied, SessionOptions, Turn } from "./options.js";
import { Prompts } from "./prompts.js";
import { infoOf, optionsBelow, proposedCall } from "./proposed.js";
import { NOT_CHANGED, NOT_CHECKED, Refused } from "./refused.js";
import { Standing } from "./standing.js";
import { argumentsOf, shownJson, withHints } from "./texts.js";
import {
  Away,
  EFFECTS,
  MODES,
  type Effect,
  type Outcome,
  type ProposedCall,
  type Transport,
  type Verdict,
  Waiting,
} from "./transport.js";

/** Open calls; beyond it, the oldest counts as one without a reported end. */
const MAX_OPEN = 4096;
const UNCHECKED = "This call could not be checked, and so it was not made. Report it instead.";

interface Open {
  readonly action: string;
  readonly args: Record<string, unknown>;
  readonly began: number;
  hints: string;
  /** The key of a call that is made once. */
  key?: string;
}

export class Session {
  readonly sessionId: string;
  readonly agentId: string | undefined;
  readonly #transport: Transport;
  readonly #options: SessionOptions;
  readonly #describer: Describer;
  readonly #above: Session | undefined;
  readonly #open = new Map<string, Open>();
  readonly #seen = new SeenWords();
  readonly #held: HeldSecrets;
  readonly #results: Results;
  readonly #standing: Standing;
  #kept: string[] = [];
  #started: Promise<void> | undefined;
  #ended: Promise<void> | undefined;
  #isAway = false;
  readonly #prompts: Prompts;

  /** Throws RangeError for an invalid effect or mode. */
  constructor(transport: Transport, options: SessionOptions = {}, above?: Session) {
    this.#transport = transport;
    this.#options = options;
    this.#above = above;
    this.#describer = new Describer(options);
    this.#prompts = new Prompts((text) => this.#describer.digest(text));
    this.#held = above === undefined ? new HeldSecrets(this.#describer.digestKey) : above.#held;
    this.sessionId = id(options.sessionId ?? randomUUID(), "sessionId");
    this.agentId = options.agentId === undefined ? undefined : id(options.agentId, "agentId");
    if (options.keyTtlS !== undefined && !(options.keyTtlS > 0)) throw new RangeError(`keyTtlS: expected seconds, got ${options.keyTtlS}`);
    this.#results = new Results(options.keyTtlS ?? 3600);
    for (const [name, effect] of Object.entries(options.effects ?? {})) checked(effect, EFFECTS, `effects.${name}`);
    checked(options.mode, MODES, "mode");
    const { failClosedFrom = "destructive" } = options;
    if (failClosedFrom !== null) checked(failClosedFrom, EFFECTS, "failClosedFrom");
    this.#standing = new Standing(failClosedFrom, above === undefined ? undefined : above.#standing);
  }

  /** The reason against a further model turn, as far as it is known; undefined: no reason. */
  get stopped(): Refused | undefined {
    return this.#standing.stopped;
  }

  /** Why every further call is refused; undefined: they are not. */
  get killed(): Refused | undefined {
    return this.#standing.killed;
  }

  /**
   * Returns whether the call may be made; waits according to the mode. `args`: an object, or its JSON as the model
   * wrote it. Any failure in here denies the call. Throws Refused if the session was stopped: its run has to end.
   */
  async before(callId: string | undefined, name: string, args?: unknown, options: CallOptions = {}): Promise<Allowed | Denied> {
    try {
      return await this.#beforeOnce(callId, name, argumentsOf(args), options);
    } catch (error) {
      if (error instanceof Refused) throw error;
      this.#warn(`a call of ${String(name).slice(0, 80)} could not be checked: ${String(error)}`);
      return denied(new Refused(NOT_CHECKED, UNCHECKED), "");
    }
  }

  /** Reports the end of a call with its output, or its error. Returns the hints to add to the output. */
  async after(callId: string, output?: unknown, { error }: { error?: unknown } = {}): Promise<string> {
    const open = this.#open.get(key(callId));
    if (open === undefined) return "";
    this.#open.delete(key(callId));
    const hasFailed = error !== undefined && error !== null;
    if (open.key !== undefined) this.#results.end(open.key, hasFailed ? undefined : { value: output, atMs: Date.now() });
    try {
      const hasOutput = output !== undefined && output !== null;
      const ended: Outcome = hasFailed ? this.#describer.error(error) : { outcome: "ok" };
      // The result of an interrupted call is unknown, so the text of its error is no result.
      const isKnown = hasOutput || (hasFailed && ended.outcome !== "unknown");
      const result = [...(hasOutput ? [output] : []), ...(hasFailed ? [this.#describer.errorText(error)] : [])];
      this.#held.take(result, open.args, open.action);
      await this.#transport.result(key(callId), {
        ...ended,
        ...(hasOutput ? { output: this.#describer.output(output) } : {}),
        ...(isKnown ? { novelty: this.#seen.take(result, open.args) } : {}),
        durationMs: Math.round((performance.now() - open.began) * 1000) / 1000,
      });
    } catch (lost) {
      this.#warn(`the end of call ${key(callId)} was not reported: ${String(lost)}`);
    }
    return open.hints;
  }

  /** Reports a failed call whose result cannot have hints: they are added to the next one. */
  async failed(callId: string, error: unknown): Promise<void> {
    this.keep(await this.after(callId, undefined, { error: error ?? "failed" }));
  }

  /** Keeps hints that could not be returned with their call: the next one returns them. */
  keep(hints: string): void {
    if (hints) this.#kept.push(hints);
  }

  /**
   * Guards a function: checks the call, makes it with the allowed arguments, reports its end. Throws Refused if the
   * call must not be made: end the run if `stopped` is set, else pass its message and hints to the model. An error of
   * the function propagates. Hints are added to a result that is text, or wait for the next call.
   */
  async run<A extends object, R>(name: string, args: A, fn: (args: A) => R | Promise<R>, options: CallOptions = {}): Promise<R> {
    const verdict = await this.before(undefined, name, args, options);
    if (!verdict.allowed) throw verdict.refused;
    if (verdict.replayed !== undefined) return this.#withHints(verdict.replayed.value as R, verdict.hints ?? "");
    let result: R;
    try {
      result = await fn(verdict.args as A);
    } catch (error) {
      await this.failed(verdict.callId, error);
      throw error;
    }
    return this.#withHints(result, await this.after(verdict.callId, result));
  }

  /** Returns the function of one object of arguments, with each call through `run`. */
  guarded<A extends object, R>(name: string, fn: (args: A) => R | Promise<R>, options: CallOptions = {}): (args: A) => Promise<R> {
    return (args) => this.run(name, args, fn, options);
  }

  /** Throws Refused if the session was stopped: no more tokens are spent. */
  async beforeTurn(): Promise<void> {
    await this.#start();
    if (this.killed) throw this.killed;
    let verdict: Verdict;
    try {
      verdict = await this.#transport.turnVerdict();
    } catch (error) {
      if (!(error instanceof Away)) {
        this.#warn(`a turn could not be checked: ${String(error)}`);
        throw new Refused(NOT_CHECKED, "It could not be checked whether this session may go on. Report it instead.");
      }
      this.#away(error);
      if (this.stopped) throw this.stopped;
      return;
    }
    this.#heard(verdict, "read");
    if (!verdict.allowed) throw refusedOf(verdict);
  }

  /** Publishes a turn of the model. */
  async turn({ usage, output }: Turn): Promise<void> {
    try {
      await this.#start();
      const described = output ? { output: this.#describer.turn(output) } : {};
      await this.#transport.event({ kind: "model.turn", ...(usage === undefined ? {} : { usage }), ...described });
    } catch (error) {
      this.#warn(`a turn of the model was not reported: ${String(error)}`);
    }
  }

  /**
   * Reports a prompt of the session's user: from the second one on, progress is judged from there. Only a digest leaves
   * the process, not the text. One that says nothing new (`continue`, or one given before) is a no-op. Rejects with
   * TypeError if it is not a text.
   */
  async prompt(text: string): Promise<void> {
    if (typeof text !== "string") throw new TypeError(`prompt: expected a text, got ${typeof text}`);
    if (!this.#prompts.take(text)) return;
    try {
      await this.#start();
      await this.#transport.prompt?.({ digest: this.#describer.digest(text), count: this.#prompts.count });
    } catch (error) {
      this.#warn(`a prompt was not reported: ${String(error)}`);
    }
  }

  /** Over Kafka, starts the next run: `run_budget` of the rules is unspent again, and evidence is cleared. */
  async beginRun(): Promise<void> {
    await this.#start();
    this.#transport.beginRun?.();
  }

  /**
   * Over Kafka, saves a state of the work with `checkpoints`, if given, and reports it. Undefined: it was not saved.
   */
  async checkpoint(id: string = randomUUID(), { safe = true }: { safe?: boolean } = {}): Promise<string | undefined> {
    try {
      await this.#start();
      if (this.#transport.checkpoint === undefined) throw new Error("only sessions over Kafka have checkpoints");
      await this.#transport.checkpoint(id, safe);
      return id;
    } catch (error) {
      this.#warn(`checkpoint ${id} was not kept: ${String(error)}`);
      return undefined;
    }
  }

  /** Returns a session below this one: a stop of this one stops it. */
  subagent({ sessionId, agentId }: { sessionId?: string | undefined; agentId?: string | undefined } = {}): Session {
    const ids = { sessionId: sessionId ?? randomUUID(), agentId: agentId ?? this.agentId };
    return new Session(this.#transport.below(), { ...optionsBelow(this.#options, this.sessionId), ...ids }, this);
  }

  /** Ends the session; idempotent. */
  end(): Promise<void> {
    return (this.#ended ??= this.#end());
  }

  // Internal.

  /** A call with the key of an earlier one is not made, and gets its result. */
  async #beforeOnce(callId: string | undefined, name: string, args: Record<string, unknown>, options: CallOptions): Promise<Allowed | Denied> {
    const once = keyOf(String(name), options, args);
    if (once === undefined) return this.#before(callId, name, args, options);
    await this.#start();
    const rollbacks = (await this.#transport.rollbacks?.()) ?? 0;
    const earlier = this.#results.begin(once, Date.now(), rollbacks);
    if (earlier !== undefined) return this.#before(callId, name, args, options, earlier);
    let isOpen = false;
    try {
      const verdict = await this.#before(callId, name, args, options);
      const open = verdict.allowed ? this.#open.get(verdict.callId) : undefined;
      if (open !== undefined) open.key = once;
      isOpen = open !== undefined;
      return verdict;
    } finally {
      if (!isOpen) this.#results.end(once);
    }
  }

  /** `earlier`: the result of an equal call, or that it is running, so that this one is not made. */
  async #before(
    callId: string | undefined,
    name: string,
    args: Record<string, unknown>,
    options: CallOptions,
    earlier?: Result | "running",
  ): Promise<Allowed | Denied> {
    checked(options.effect, EFFECTS, "effect");
    checked(options.mode, MODES, "mode");
    if (options.costUsd !== undefined && !(options.costUsd >= 0)) throw new RangeError(`costUsd: expected an amount, got ${options.costUsd}`);
    if (this.#ended) throw new Error("expected a session that has not ended, got one that has");
    await this.#start();
    if (this.killed) throw withOwnHints(this.killed, this.#takeKept());
    const call = proposedCall(callId, name, args, options, this.#options.effects, this.#describer, this.#held);
    let verdict: Verdict;
    try {
      if (earlier !== undefined) {
        const standing = await this.#transport.notMade?.(call, earlier === "running" ? IN_FLIGHT : REPLAYED);
        if (standing === undefined) return this.#notMade(call.callId, args, earlier);
        verdict = standing;
      } else verdict = await this.#transport.verdict(call);
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      this.#away(error);
      return this.#withoutVerdict(call, args, error instanceof Waiting);
    }
    this.#heard(verdict, call.knownEffect);
    const hints = [this.#takeKept(), verdict.hints ?? ""].filter(Boolean).join("\n");
    if (!verdict.allowed) {
      const refused = refusedOf(verdict);
      if (verdict.killed) throw withOwnHints(refused, hints);
      return denied(refused, hints);
    }
    return this.#admitted(verdict.callId ?? call.callId, { action: call.action, args, hints, began: 0 }, verdict);
  }

  #notMade(callId: string, args: Record<string, unknown>, earlier: Result | "running"): Allowed | Denied {
    const hints = this.#takeKept();
    if (earlier === "running") return denied(new Refused(IN_FLIGHT, STILL_RUNNING), hints);
    return { allowed: true, callId, args, changed: false, replayed: { value: copied(earlier.value) }, ...(hints ? { hints } : {}) };
  }

  async #admitted(callId: string, open: Open, verdict: Verdict): Promise<Allowed | Denied> {
    const { args, hints } = open;
    if (this.#open.has(callId)) await this.#lose(callId); // some servers number the calls of each response from zero
    this.#open.set(callId, { ...open, began: performance.now() });
    if (this.#open.size > MAX_OPEN) await this.#lose([...this.#open.keys()][0] ?? callId);
    const changes = verdict.changeArguments;
    if (changes === undefined) return { allowed: true, callId, args, changed: false, ...(hints ? { hints } : {}) };
    const kept = Object.entries(args).filter(([name]) => !changes.remove.includes(name));
    const changed = Object.fromEntries([...kept, ...Object.entries(changes.put)]);
    if (this.#options.changesArguments !== false) {
      return { allowed: true, callId, args: changed, changed: true, ...(hints ? { hints } : {}) };
    }
    // It must not be made with the proposed arguments.
    await this.after(callId, undefined, { error: "not made: other arguments were required" });
    const text = `This call is only allowed with other arguments: ${shownJson(changed)}`;
    return { ...denied(new Refused(NOT_CHANGED, text), hints), text: withHints(text, hints) };
  }

  #withoutVerdict(call: ProposedCall, args: Record<string, unknown>, isUndecided: boolean): Allowed | Denied {
    const { callId, action, knownEffect } = call;
    const hints = this.#takeKept();
    if (this.killed) throw withOwnHints(this.killed, hints);
    const refused = this.#standing.withoutVerdict(knownEffect, isUndecided);
    if (refused !== undefined) return denied(refused, hints);
    this.#open.set(callId, { began: performance.now(), hints, action, args });
    return { allowed: true, callId, args, changed: false, ...(hints ? { hints } : {}) };
  }

  #heard(verdict: Verdict, effect: Effect): void {
    this.#isAway = false;
    this.#standing.heard(verdict, effect);
  }

  #away(error: Away): void {
    if (!this.#isAway) this.#warn(`${error instanceof Waiting ? "no verdict" : "no response"}: ${error.message}`);
    this.#isAway = true;
  }

  #start(): Promise<void> {
    this.#started ??= (async () => {
      if (this.#above !== undefined) await this.#above.#start();
      try {
        await this.#transport.open(infoOf(this.#options, this.sessionId, this.agentId, this.#describer));
      } catch (error) {
        this.#warn(`the start of the session was not reported: ${String(error)}`);
      }
    })();
    return this.#started;
  }

  async #end(): Promise<void> {
    for (const callId of [...this.#open.keys()]) await this.#lose(callId);
    try {
      await this.#transport.close();
    } catch (error) {
      this.#warn(`the end of the session was not reported: ${String(error)}`);
    }
  }

  /** Reports a call without a result: neither an error nor a success. */
  async #lose(callId: string): Promise<void> {
    const open = this.#open.get(callId);
    this.#open.delete(callId);
    if (open?.key !== undefined) this.#results.end(open.key);
    this.keep(open?.hints ?? "");
    try {
      await this.#transport.result(callId, { outcome: "unknown", error: "ResultUnknown: its result was not reported" });
    } catch (error) {
      this.#warn(`the end of call ${callId} was not reported: ${String(error)}`);
    }
  }

  /** Returns a result with hints: in its text, or with the next call. */
  #withHints<R>(result: R, hints: string): R {
    if (typeof result === "string") return withHints(result, hints) as R;
    this.keep(hints);
    return result;
  }

  #takeKept(): string {
    const kept = this.#kept;
    this.#kept = [];
    return kept.join("\n");
  }

  #warn(message: string): void {
    try {
      const text = `haltline: session ${this.sessionId}: ${message}`;
      if (this.#options.onWarning) this.#options.onWarning(text);
      else process.emitWarning(text);
    } catch {
      // an error of `onWarning` must not stop the agent
    }
  }
}
