/** One session of an agent: its calls, turns and hints, between a framework and the service. Every adapter uses it. */

import { randomUUID } from "node:crypto";

import { copied, IN_FLIGHT, keyOf, type Result, Results, STILL_RUNNING } from "./once.js";
import { type Allowed, type CallOptions, checked, type Denied, EFFECTS, MODES, type SessionOptions, type Turn, type Usage, WHEN_DOWN } from "./options.js";
import { onlyReads } from "./reads.js";
import { NOT_CHANGED, NOT_CHECKED, Refused } from "./refused.js";
import { Away, type Service, Waiting } from "./service.js";
import { Standing } from "./standing.js";
import { argumentsOf, failureOf, jsonOf, sentResult, withHints } from "./texts.js";
import { changed, type Changes, denied, type Verdict, verdictOf, withOwnHints } from "./verdict.js";

/** Open calls; beyond it, the end of the oldest is not awaited any more. */
const MAX_OPEN = 4096;
const MAX_ID_CHARS = 256;
const UNCHECKED = "haltline did not make this call: it could not be checked. Write it in a simpler way, or report it.";

interface Open {
  readonly hints: string;
  /** The key of a call that is made once. */
  key?: string;
}

export class Session {
  readonly sessionId: string;
  readonly agentId: string | undefined;
  readonly #service: Service;
  readonly #options: SessionOptions;
  readonly #above: Session | undefined;
  readonly #open = new Map<string, Open>();
  readonly #results: Results;
  readonly #standing: Standing;
  #kept: string[] = [];
  #started: Promise<void> | undefined;
  #ended: Promise<void> | undefined;
  #isAway = false;

  /** Throws RangeError for invalid options. */
  constructor(service: Service, options: SessionOptions = {}, above?: Session) {
    this.#service = service;
    this.#options = options;
    this.#above = above;
    this.sessionId = id(options.sessionId ?? randomUUID(), "sessionId");
    this.agentId = options.agentId === undefined ? undefined : id(options.agentId, "agentId");
    if (options.keyTtlS !== undefined && !(options.keyTtlS > 0)) throw new RangeError(`keyTtlS: expected seconds, got ${options.keyTtlS}`);
    this.#results = new Results(options.keyTtlS ?? 3600);
    for (const [name, effect] of Object.entries(options.effects ?? {})) checked(effect, EFFECTS, `effects.${name}`);
    checked(options.mode, MODES, "mode");
    checked(options.whenDown, WHEN_DOWN, "whenDown");
    this.#standing = new Standing(options.whenDown ?? "reads", above === undefined ? undefined : above.#standing);
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
    const open = this.#open.get(callKey(callId));
    if (open === undefined) return "";
    this.#open.delete(callKey(callId));
    const hasFailed = error !== undefined && error !== null;
    if (open.key !== undefined) this.#results.end(open.key, hasFailed ? undefined : { value: output, atMs: Date.now() });
    const end = hasFailed ? failureOf(error) : output === undefined || output === null ? {} : { output: sentResult(output) };
    await this.#reporting(`the end of call ${callKey(callId)}`, () =>
      this.#service.ask("/v1/result", { session_id: this.sessionId, call_id: callKey(callId), ...end }),
    );
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
      verdict = verdictOf(await this.#service.ask("/v1/verdict", { ...this.#who(), kind: "model.turn" }));
    } catch (error) {
      if (!(error instanceof Away)) {
        this.#warn(`a turn could not be checked: ${String(error)}`);
        throw new Refused(NOT_CHECKED, "It could not be checked whether this session may go on. Report it instead.");
      }
      this.#away(error);
      if (this.stopped) throw this.stopped;
      return;
    }
    this.#heard(verdict, true);
    if (!verdict.allowed) throw verdict.refused;
  }

  /** Reports a turn of the model. */
  async turn({ usage, output }: Turn): Promise<void> {
    const said = { ...(usage === undefined ? {} : { usage: usageOf(usage) }), ...(output ? { output: sentResult(output) } : {}) };
    await this.#reporting("a turn of the model", async () => {
      await this.#start();
      return this.#service.ask("/v1/turn", { ...this.#who(), ...said });
    });
  }

  /**
   * Reports a prompt of the session's user: from the second one on, progress is judged from there. One that says nothing
   * new (`continue`, or one given before) changes nothing. Rejects with TypeError if it is not a text.
   */
  async prompt(text: string): Promise<void> {
    if (typeof text !== "string") throw new TypeError(`prompt: expected a text, got ${typeof text}`);
    await this.#reporting("a prompt", async () => {
      await this.#start();
      return this.#service.ask("/v1/start", { ...this.#who(), prompt: text });
    });
  }

  /** Returns a session below this one: a stop of this one stops it. */
  subagent({ sessionId, agentId }: { sessionId?: string | undefined; agentId?: string | undefined } = {}): Session {
    const { parentSessionId, rootSessionId, ancestors } = this.#options;
    const above = [this.sessionId, parentSessionId, rootSessionId, ...(ancestors ?? [])].filter((one) => one !== undefined);
    const options = {
      ...this.#options,
      sessionId: sessionId ?? randomUUID(),
      agentId: agentId ?? this.agentId,
      parentSessionId: this.sessionId,
      rootSessionId: rootSessionId ?? this.sessionId,
      ancestors: [...new Set(above)],
      goal: undefined,
    };
    return new Session(this.#service.below(), options, this);
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
    if (this.killed) throw withOwnHints(this.killed, this.#takeKept());
    const earlier = this.#results.begin(once, Date.now());
    if (earlier !== undefined) return this.#notMade(callId ?? randomUUID(), args, earlier);
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

  async #before(callId: string | undefined, name: string, args: Record<string, unknown>, options: CallOptions): Promise<Allowed | Denied> {
    checked(options.effect, EFFECTS, "effect");
    checked(options.mode, MODES, "mode");
    if (this.#ended) throw new Error("expected a session that has not ended, got one that has");
    await this.#start();
    if (this.killed) throw withOwnHints(this.killed, this.#takeKept());
    const action = String(name) || "unknown";
    const effects = this.#options.effects;
    const effect = options.effect ?? (effects !== undefined && Object.hasOwn(effects, action) ? effects[action] : undefined);
    const proposed = {
      ...this.#who(),
      call_id: callKey(callId ?? randomUUID()),
      action,
      args,
      targets: (options.targets ?? []).map(String),
      effect,
      mode: options.mode,
      loop_key: options.loopKey,
    };
    let verdict: Verdict;
    try {
      verdict = verdictOf(await this.#service.ask("/v1/verdict", proposed, !onlyReads(action)));
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      this.#away(error);
      return this.#withoutVerdict(proposed.call_id, action, args, error instanceof Waiting);
    }
    this.#heard(verdict, onlyReads(action));
    const hints = [this.#takeKept(), verdict.hints].filter(Boolean).join("\n");
    if (verdict.allowed) return this.#admitted(verdict.callId ?? proposed.call_id, args, hints, verdict.changes);
    if (verdict.killed) throw withOwnHints(verdict.refused, hints);
    return denied(verdict.refused, hints);
  }

  #notMade(callId: string, args: Record<string, unknown>, earlier: Result | "running"): Allowed | Denied {
    const hints = this.#takeKept();
    if (earlier === "running") return denied(new Refused(IN_FLIGHT, STILL_RUNNING), hints);
    return { allowed: true, callId, args, changed: false, replayed: { value: copied(earlier.value) }, ...(hints ? { hints } : {}) };
  }

  async #admitted(
    callId: string,
    args: Record<string, unknown>,
    hints: string,
    changes: Changes | undefined,
  ): Promise<Allowed | Denied> {
    this.#forget(callId); // some servers number the calls of each response from zero
    this.#open.set(callId, { hints });
    if (this.#open.size > MAX_OPEN) this.#forget([...this.#open.keys()][0] ?? callId);
    if (changes === undefined) return { allowed: true, callId, args, changed: false, ...(hints ? { hints } : {}) };
    const others = changed(args, changes);
    if (this.#options.changesArguments !== false) {
      return { allowed: true, callId, args: others, changed: true, ...(hints ? { hints } : {}) };
    }
    // It must not be made with the proposed arguments.
    await this.after(callId, undefined, { error: "not made: other arguments were required" });
    return denied(new Refused(NOT_CHANGED, `This call is only allowed with other arguments: ${jsonOf(others)}`), hints);
  }

  #withoutVerdict(callId: string, action: string, args: Record<string, unknown>, isUndecided: boolean): Allowed | Denied {
    const hints = this.#takeKept();
    const refused = this.#standing.withoutVerdict(action, isUndecided);
    if (refused !== undefined) return denied(refused, hints);
    this.#open.set(callId, { hints });
    return { allowed: true, callId, args, changed: false, ...(hints ? { hints } : {}) };
  }

  /** Forgets a call without a reported end; the service counts it as one with an unknown result. */
  #forget(callId: string): void {
    const open = this.#open.get(callId);
    this.#open.delete(callId);
    if (open?.key !== undefined) this.#results.end(open.key);
    this.keep(open?.hints ?? "");
  }

  #heard(verdict: Verdict, reads: boolean): void {
    this.#isAway = false;
    this.#standing.heard(verdict, reads);
  }

  #away(error: Away): void {
    if (!this.#isAway) this.#warn(`${error instanceof Waiting ? "no verdict" : "no response"}: ${error.message}`);
    this.#isAway = true;
  }

  #start(): Promise<void> {
    this.#started ??= (async () => {
      if (this.#above !== undefined) await this.#above.#start();
      const { goal } = this.#options;
      await this.#reporting("the start of the session", () =>
        this.#service.ask("/v1/start", { ...this.#who(), ...(goal === undefined ? {} : { task: { goal } }) }, true),
      );
    })();
    return this.#started;
  }

  async #end(): Promise<void> {
    if (this.#started !== undefined) {
      await this.#started;
      await this.#reporting("the end of the session", () => this.#service.ask("/v1/end", { session_id: this.sessionId }));
    }
    await this.#service.close();
  }

  /** The session, sent with each request for a service that was restarted, or had dropped it. */
  #who(): Record<string, unknown> {
    const { parentSessionId, rootSessionId, ancestors, missionId, mode } = this.#options;
    return {
      session_id: this.sessionId,
      agent_id: this.agentId,
      parent_session_id: parentSessionId,
      root_session_id: rootSessionId,
      ancestors,
      mission_id: missionId,
      session_mode: mode,
    };
  }

  /** Does what may fail without harm to the agent's work. */
  async #reporting(what: string, report: () => Promise<unknown>): Promise<void> {
    try {
      await report();
    } catch (error) {
      this.#warn(`${what} was not reported: ${String(error)}`);
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

function callKey(callId: string): string {
  return String(callId).slice(0, MAX_ID_CHARS).toWellFormed();
}

function id(text: string, field: string): string {
  if (typeof text === "string" && text && text.length <= MAX_ID_CHARS) return text.toWellFormed();
  throw new RangeError(`${field}: expected a text of 1 to ${MAX_ID_CHARS} characters, got ${JSON.stringify(text)?.slice(0, 80)}`);
}

/** Returns the usage in the wire format: non-negative integers; others are left out. */
function usageOf(usage: Usage): Record<string, number> {
  const count = (value: number | undefined) => (Number.isFinite(value) ? Math.max(0, Math.round(value as number)) : 0);
  return {
    input_tokens: count(usage.inputTokens) + count(usage.cacheWriteTokens),
    output_tokens: count(usage.outputTokens),
    cache_read_tokens: count(usage.cacheReadTokens),
    ...(Number.isFinite(usage.costUsd) ? { cost_usd: Math.max(0, usage.costUsd as number) } : {}),
  };
}
