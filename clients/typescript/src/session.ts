/** One session of an agent: its calls, turns and hints, between a framework and a transport. Every adapter uses it. */

import { randomUUID } from "node:crypto";

import { Describer, type Redaction } from "./describe.js";
import { knownEffect } from "./effects.js";
import { head, isLonger, wellFormed } from "./redaction/unicode.js";
import { NO_VERDICT, NOT_CHANGED, NOT_CHECKED, Refused } from "./refused.js";
import {
  Away,
  EFFECTS,
  MODES,
  type Effect,
  type Mode,
  type Outcome,
  type SessionInfo,
  type Transport,
  type TurnEvent,
  type Usage,
  type Verdict,
} from "./transport.js";

/** Calls that have begun and not ended; beyond it the oldest counts as one without a reported end. */
const MAX_OPEN = 4096;
const MAX_ID_CHARS = 256;
const MAX_TARGETS = 1000;
const MAX_NAME_CHARS = 512;
const MAX_GOAL_CHARS = 8192;
const NOBODY = "Nobody could be asked whether this may be done, and it could do harm. Report it instead.";
const UNCHECKED = "This call could not be checked, and so it was not made. Report it instead.";

/** The call may be made. */
export interface Allowed {
  readonly allowed: true;
  /** For `after` and `failed`: the framework's own, or a new one where it has none. */
  readonly callId: string;
  /** With the changes that were decided. */
  readonly args: Record<string, unknown>;
  /** Whether these differ from what was proposed. */
  readonly changed: boolean;
  /** For the model. `after` returns them as well: show them once. */
  readonly hints?: string;
}

/** The call must not be made; the run goes on. */
export interface Denied {
  readonly allowed: false;
  /** What the model reads. */
  readonly text: string;
  /** For programs. */
  readonly code: string;
  readonly refused: Refused;
}

/** Of one call. */
export interface CallOptions {
  /** What it is about, such as `["asset_id=fact_sales"]`. */
  readonly targets?: readonly string[] | undefined;
  /** What it does; raises what its name tells. */
  readonly effect?: Effect | undefined;
  readonly mode?: Mode | undefined;
  /** Calls of this name for which it is equal are the same call when loops are looked for. */
  readonly loopKey?: string | undefined;
}

/** One turn of the model. */
export interface Turn {
  readonly usage?: Usage | undefined;
  readonly output?: string | undefined;
}

export interface SessionOptions extends Redaction {
  /** One run of one agent. A kill holds for it until an operator resets it. A new one when left out. */
  readonly sessionId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly parentSessionId?: string | undefined;
  readonly rootSessionId?: string | undefined;
  readonly ancestors?: readonly string[] | undefined;
  readonly missionId?: string | undefined;
  /** What the session is to do. */
  readonly goal?: string | undefined;
  /** Left out: that of the intake (`blocking`), or of the transport. */
  readonly mode?: Mode | undefined;
  /** By name, what tools do whose names do not tell. */
  readonly effects?: Readonly<Record<string, Effect>> | undefined;
  /** False: the framework cannot change arguments, so a call that is only allowed with others is denied. */
  readonly changesArguments?: boolean | undefined;
  /** When nobody answers, calls of this effect or a worse one are refused, others go on; null: all go on. */
  readonly failClosedFrom?: Effect | null | undefined;
  /** Is told, in words, what does not work: nobody answers, a result was lost. Default: `process.emitWarning`. */
  readonly onWarning?: ((message: string) => void) | undefined;
}

interface Open {
  readonly began: number;
  hints: string;
}

export class Session {
  readonly sessionId: string;
  readonly agentId: string | undefined;
  readonly #transport: Transport;
  readonly #options: SessionOptions;
  readonly #describer: Describer;
  readonly #above: Session | undefined;
  readonly #open = new Map<string, Open>();
  #kept: string[] = [];
  #killed: Refused | undefined;
  #frozen: Refused | undefined;
  #started: Promise<void> | undefined;
  #ended: Promise<void> | undefined;
  #isAway = false;

  /** Throws RangeError for an effect or a mode that does not exist. */
  constructor(transport: Transport, options: SessionOptions = {}, above?: Session) {
    this.#transport = transport;
    this.#options = options;
    this.#above = above;
    this.#describer = new Describer(options);
    this.sessionId = id(options.sessionId ?? randomUUID(), "sessionId");
    this.agentId = options.agentId === undefined ? undefined : id(options.agentId, "agentId");
    for (const [name, effect] of Object.entries(options.effects ?? {})) checked(effect, EFFECTS, `effects.${name}`);
    checked(options.mode, MODES, "mode");
    if (options.failClosedFrom !== null) checked(options.failClosedFrom, EFFECTS, "failClosedFrom");
  }

  /**
   * Why no further turn of the model is to be made, as far as it is known by now; undefined: nothing is against it.
   */
  get stopped(): Refused | undefined {
    return this.#killed ?? this.#above?.killed ?? this.#frozen;
  }

  /** Why every further call is refused; undefined: they are not. */
  get killed(): Refused | undefined {
    return this.#killed ?? this.#above?.killed;
  }

  /**
   * Whether the call may be made; waits as the mode says. `args` are an object, or its JSON as the model wrote it.
   * Whatever fails in here denies the call. Throws Refused when the session was stopped: its run has to end.
   */
  async before(callId: string | undefined, name: string, args?: unknown, options: CallOptions = {}): Promise<Allowed | Denied> {
    try {
      return await this.#before(callId, name, argumentsOf(args), options);
    } catch (error) {
      if (error instanceof Refused) throw error;
      this.#warn(`a call of ${String(name).slice(0, 80)} could not be checked: ${String(error)}`);
      return denied(new Refused(NOT_CHECKED, UNCHECKED), "");
    }
  }

  /** The call has ended, and the model reads this output, or how it failed. Returns the hints to add to it. */
  async after(callId: string, output?: unknown, { error }: { error?: unknown } = {}): Promise<string> {
    const open = this.#open.get(key(callId));
    if (open === undefined) return "";
    this.#open.delete(key(callId));
    try {
      const ended: Outcome = error === undefined || error === null ? { outcome: "ok" } : this.#describer.error(error);
      await this.#transport.result(key(callId), {
        ...ended,
        ...(output === undefined || output === null ? {} : { output: this.#describer.output(output) }),
        durationMs: Math.round((performance.now() - open.began) * 1000) / 1000,
      });
    } catch (lost) {
      this.#warn(`the end of call ${key(callId)} was not reported: ${String(lost)}`);
    }
    return open.hints;
  }

  /** The call has ended without a result that hints could be added to: they are added to the next one. */
  async failed(callId: string, error: unknown): Promise<void> {
    this.keep(await this.after(callId, undefined, { error: error ?? "failed" }));
  }

  /** Hints that could not be returned with their call: the next one returns them. */
  keep(hints: string): void {
    if (hints) this.#kept.push(hints);
  }

  /**
   * Guards a function whole: asks, calls it with the arguments that may be used, reports its end. Throws Refused when
   * the call must not be made; `isStopped(error)` tells whether the run has to end. An error of the function goes on.
   * Hints wait for the next call, or are added to a result that is text.
   */
  async run<A extends object, R>(name: string, args: A, fn: (args: A) => R | Promise<R>, options: CallOptions = {}): Promise<R> {
    const verdict = await this.before(undefined, name, args, options);
    if (!verdict.allowed) throw verdict.refused;
    let result: R;
    try {
      result = await fn(verdict.args as A);
    } catch (error) {
      await this.failed(verdict.callId, error);
      throw error;
    }
    const hints = await this.after(verdict.callId, result);
    if (typeof result === "string") return withHints(result, hints) as R;
    this.keep(hints);
    return result;
  }

  /** The function of one object of arguments, each call of which goes through `run`. */
  guarded<A extends object, R>(name: string, fn: (args: A) => R | Promise<R>, options: CallOptions = {}): (args: A) => Promise<R> {
    return (args) => this.run(name, args, fn, options);
  }

  /** Throws Refused when the session was stopped: no more tokens are spent. */
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
    this.#heard(verdict);
    if (!verdict.allowed) throw refusedOf(verdict);
  }

  /** Publishes a turn of the model. */
  async turn({ usage, output }: Turn): Promise<void> {
    try {
      await this.#start();
      const event: TurnEvent = {
        kind: "model.turn",
        ...(usage === undefined ? {} : { usage }),
        ...(output ? { output: this.#describer.output(output) } : {}),
      };
      await this.#transport.event(event);
    } catch (error) {
      this.#warn(`a turn of the model was not reported: ${String(error)}`);
    }
  }

  /** A session below this one: what stops this one stops it. */
  subagent({ sessionId, agentId }: { sessionId?: string | undefined; agentId?: string | undefined } = {}): Session {
    const { parentSessionId, rootSessionId, ancestors } = this.#options;
    const above = [this.sessionId, parentSessionId, rootSessionId, ...(ancestors ?? [])].filter((one) => one !== undefined);
    const options: SessionOptions = {
      ...this.#options,
      sessionId: sessionId ?? randomUUID(),
      agentId: agentId ?? this.agentId,
      parentSessionId: this.sessionId,
      rootSessionId: rootSessionId ?? this.sessionId,
      ancestors: [...new Set(above)],
      goal: undefined,
    };
    return new Session(this.#transport.below(), options, this);
  }

  /** Ends the session; a second time does nothing. */
  end(): Promise<void> {
    this.#ended ??= this.#end();
    return this.#ended;
  }

  // Inside.

  async #before(callId: string | undefined, name: string, args: Record<string, unknown>, options: CallOptions): Promise<Allowed | Denied> {
    checked(options.effect, EFFECTS, "effect");
    checked(options.mode, MODES, "mode");
    await this.#start();
    if (this.killed) throw withOwnHints(this.killed, this.#takeKept());
    const action = wellFormed(head(String(name), MAX_NAME_CHARS)) || "unknown";
    const effect = options.effect ?? own(this.#options.effects, name);
    const known = knownEffect(action, effect);
    const described = this.#describer.args(args, action, known);
    const call = {
      callId: callId ? key(callId) : randomUUID(),
      action,
      ...described,
      targets: (options.targets ?? []).slice(0, MAX_TARGETS).map((target) => this.#describer.text(target)),
      ...(effect === undefined ? {} : { effect }),
      knownEffect: known,
      ...(options.mode === undefined ? {} : { mode: options.mode }),
      ...(options.loopKey === undefined ? {} : { loopKey: this.#describer.text(options.loopKey) }),
    };
    let verdict: Verdict;
    try {
      verdict = await this.#transport.verdict(call);
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      this.#away(error);
      return this.#withoutVerdict(call.callId, call.knownEffect, args);
    }
    this.#heard(verdict);
    const hints = [this.#takeKept(), verdict.hints ?? ""].filter(Boolean).join("\n");
    if (!verdict.allowed) {
      const refused = refusedOf(verdict);
      if (verdict.killed) throw withOwnHints(refused, hints);
      return denied(refused, hints);
    }
    return this.#admitted(verdict.callId ?? call.callId, args, verdict, hints);
  }

  async #admitted(callId: string, args: Record<string, unknown>, verdict: Verdict, hints: string): Promise<Allowed | Denied> {
    if (this.#open.has(callId)) await this.#lose(callId); // some servers number the calls of each response from zero
    this.#open.set(callId, { began: performance.now(), hints });
    if (this.#open.size > MAX_OPEN) await this.#lose([...this.#open.keys()][0] ?? callId);
    const changes = verdict.changeArguments;
    if (changes === undefined) return { allowed: true, callId, args, changed: false, ...(hints ? { hints } : {}) };
    const kept = Object.entries(args).filter(([name]) => !changes.remove.includes(name));
    const changed = Object.fromEntries([...kept, ...Object.entries(changes.put)]);
    if (this.#options.changesArguments !== false) {
      return { allowed: true, callId, args: changed, changed: true, ...(hints ? { hints } : {}) };
    }
    // With the arguments that were proposed it must not be made.
    await this.after(callId, undefined, { error: "not made: other arguments were required" });
    const text = `This call is only allowed with other arguments: ${JSON.stringify(changed)}`;
    const refused = new Refused(NOT_CHANGED, text);
    refused.hints = hints;
    return { allowed: false, text: withHints(text, hints), code: NOT_CHANGED, refused };
  }

  /** Nobody answered: what stood holds, what destroys is refused, and the rest is made. */
  #withoutVerdict(callId: string, effect: Effect, args: Record<string, unknown>): Allowed | Denied {
    const hints = this.#takeKept();
    if (this.killed) throw withOwnHints(this.killed, hints);
    const looks = EFFECTS.indexOf(effect) <= EFFECTS.indexOf("poll");
    if (this.#frozen && !(looks && this.#frozen.code.includes("_contained_"))) return denied(this.#frozen, hints);
    const from = this.#options.failClosedFrom === undefined ? "destructive" : this.#options.failClosedFrom;
    if (from !== null && EFFECTS.indexOf(effect) >= EFFECTS.indexOf(from)) {
      return denied(new Refused(NO_VERDICT, NOBODY), hints);
    }
    this.#open.set(callId, { began: performance.now(), hints });
    return { allowed: true, callId, args, changed: false, ...(hints ? { hints } : {}) };
  }

  #heard(verdict: Verdict): void {
    this.#isAway = false;
    if (verdict.killed) this.#killed ??= refusedOf(verdict);
    else if (verdict.allowed) this.#frozen = undefined;
    else if (/_(?:frozen|contained)_/.test(verdict.code ?? "")) this.#frozen = refusedOf(verdict);
  }

  #away(error: Away): void {
    if (!this.#isAway) this.#warn(`nobody answers: ${error.message}`);
    this.#isAway = true;
  }

  #start(): Promise<void> {
    this.#started ??= (async () => {
      if (this.#above !== undefined) await this.#above.#start();
      const { parentSessionId, rootSessionId, ancestors, missionId, goal, mode } = this.#options;
      const session: SessionInfo = {
        sessionId: this.sessionId,
        ...(this.agentId === undefined ? {} : { agentId: this.agentId }),
        ...(parentSessionId === undefined ? {} : { parentSessionId }),
        ...(rootSessionId === undefined ? {} : { rootSessionId }),
        ancestors: ancestors ?? [],
        ...(missionId === undefined ? {} : { missionId }),
        ...(goal === undefined ? {} : { goal: this.#describer.text(goal, MAX_GOAL_CHARS) }),
        ...(mode === undefined ? {} : { mode }),
      };
      try {
        await this.#transport.open(session);
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

  /** Its result was not reported: so it is no error, and no success either. */
  async #lose(callId: string): Promise<void> {
    const open = this.#open.get(callId);
    this.#open.delete(callId);
    this.keep(open?.hints ?? "");
    try {
      await this.#transport.result(callId, { outcome: "unknown", error: "ResultUnknown: its result was not reported" });
    } catch (error) {
      this.#warn(`the end of call ${callId} was not reported: ${String(error)}`);
    }
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
      // whoever is told cannot stop the agent
    }
  }
}

/** A text that the model reads, with the hints after it. */
export function withHints(text: string, hints: string): string {
  return [text, hints].filter(Boolean).join("\n\n");
}

/** Arguments by name: those of an object, or of its JSON; what is neither is the argument `arguments`. */
export function argumentsOf(args: unknown): Record<string, unknown> {
  if (args === undefined || args === null) return {};
  if (typeof args !== "string") return isObject(args) ? { ...args } : { arguments: args };
  let read: unknown;
  try {
    read = JSON.parse(args || "{}");
  } catch {
    return { arguments: args };
  }
  return isObject(read) ? read : { arguments: read };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refusedOf(verdict: Verdict): Refused {
  const { requestId, expires } = verdict;
  const approval = requestId === undefined ? undefined : { requestId, ...(expires === undefined ? {} : { expires }) };
  return new Refused(verdict.code ?? "refused", verdict.message ?? "This was refused.", approval);
}

function withOwnHints(refused: Refused, hints: string): Refused {
  refused.hints = hints;
  return refused;
}

function denied(refused: Refused, hints: string): Denied {
  refused.hints = hints;
  return { allowed: false, text: withHints(refused.message, hints), code: refused.code, refused };
}

function own(effects: Readonly<Record<string, Effect>> | undefined, name: string): Effect | undefined {
  return effects !== undefined && Object.hasOwn(effects, name) ? effects[name] : undefined;
}

function key(callId: string): string {
  return wellFormed(head(String(callId), MAX_ID_CHARS));
}

function id(text: string, field: string): string {
  if (typeof text === "string" && text && !isLonger(text, MAX_ID_CHARS)) return wellFormed(text);
  throw new RangeError(`${field}: expected a text of 1 to ${MAX_ID_CHARS} characters, got ${JSON.stringify(text)?.slice(0, 80)}`);
}

function checked(value: string | undefined, known: readonly string[], field: string): void {
  if (value === undefined || known.includes(value)) return;
  throw new RangeError(`${field}: expected one of ${known.join(", ")}, got ${JSON.stringify(value)?.slice(0, 80)}`);
}
