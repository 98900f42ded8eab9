/**
 * The interface of a session's transport. Transports carry no secrets: their input is redacted, except for the return
 * values of a call's `matchTargets` and `rawArgs`.
 */

/** The effect of a call, from harmless to harmful. */
export type Effect = "read" | "poll" | "write" | "network" | "exec" | "mutate" | "destructive";

/** All effects, from harmless to harmful. */
export const EFFECTS: readonly Effect[] = ["read", "poll", "write", "network", "exec", "mutate", "destructive"];

/**
 * How calls wait. `async`: only calls that may destroy something wait for a verdict. `blocking`: each call waits.
 * `local`: the intake decides in its own process (`haltline intake --mode local`).
 */
export type Mode = "async" | "blocking" | "local";

export const MODES: readonly Mode[] = ["async", "blocking", "local"];

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The identity of the agent and its session. */
export interface SessionInfo {
  readonly sessionId: string;
  readonly agentId?: string;
  readonly parentSessionId?: string;
  readonly rootSessionId?: string;
  /** More sessions above this one, besides parent and root. */
  readonly ancestors: readonly string[];
  readonly missionId?: string;
  /** The goal of the session, without secrets. */
  readonly goal?: string;
  readonly mode?: Mode;
}

/** A prompt of the session's user. */
export interface Prompt {
  /** 32 hex digits of its text without secrets: equal for the same prompt. */
  readonly digest: string;
  /** The number of prompts so far. */
  readonly count: number;
}

/** A proposed call, without secrets and bounded. */
export interface ProposedCall {
  readonly callId: string;
  readonly action: string;
  readonly args: { [name: string]: Json };
  /** 32 hex digits of the whole arguments without secrets. */
  readonly argsDigest: string;
  /** Texts and lists in `args` are truncated after this number of characters or items; left out: they are complete. */
  readonly unreadFrom?: number;
  readonly targets: readonly string[];
  /**
   * With `unreadFrom`: `name=value` of simple arguments that are redacted or truncated in `args`, without secrets; else
   * none. Throws RangeError for too many.
   */
  readonly cutTargets: () => readonly string[];
  /**
   * The targets that a control entry can name: the declared ones, and `name=value` of simple arguments, complete and
   * with their secrets. Only for comparisons in this process; a function, so that serializing the call omits them.
   */
  readonly matchTargets: () => readonly string[];
  /** The effect that the tool declares. */
  readonly effect?: Effect;
  /** The effect by the name and the declaration, for the fail policy. */
  readonly knownEffect: Effect;
  /** The mode of this call only; left out: that of the session. */
  readonly mode?: Mode;
  readonly loopKey?: string;
  /** The arguments as the tool receives them, with their secrets. Only for use in this process. */
  readonly rawArgs: () => Readonly<Record<string, unknown>>;
  readonly costUsd?: number;
  /** Secrets of the session that it sends to where they do not belong; left out: none. */
  readonly secretsSent?: readonly SentSecret[];
}

/** A secret that the session has read before, in the arguments of a call that sends them. */
export interface SentSecret {
  readonly kind: string;
  /** The digest of the secret, under the key of digests, or a key of this process. */
  readonly digest: string;
  /** Its provider's hosts are known, and the call goes to none of them. */
  readonly elsewhere?: boolean;
}

/** The verdict on a call, or on the model's next turn. */
export interface Verdict {
  readonly allowed: boolean;
  /** The session was stopped permanently: its run has to end. */
  readonly killed: boolean;
  readonly callId?: string;
  /** The machine-readable code of a refusal. */
  readonly code?: string;
  /** The text of a refusal for the model. */
  readonly message?: string;
  /** Further text for the model. */
  readonly hints?: string;
  readonly changeArguments?: { readonly put: { [name: string]: unknown }; readonly remove: readonly string[] };
  /** The request for a person's approval, and its expiry (epoch milliseconds). */
  readonly requestId?: string;
  readonly expires?: number;
  /** The state to restore, if the refusal is a ROLLBACK. */
  readonly checkpoint?: string;
}

/** The output of a call, without secrets. */
export interface Output {
  /** The digest of the whole; null: it cannot be compared. */
  readonly digest: string | null;
  /** The size of the whole in UTF-8. */
  readonly bytes: number;
  /** Its beginning; null: not published. */
  readonly head: string | null;
  /** Of a model turn: how often the whole repeats one passage in a row. */
  readonly repeats?: number;
}

/** New words of a whole result in its session: counts, no text. */
export interface Novelty {
  /** Those of `words` in no earlier result, and in no argument of an ended call. */
  readonly newWords: number;
  /** Distinct words (`[A-Za-z_]{3,}`, or digits) of its first 64 KiB. */
  readonly words: number;
  /** Results of the session that were counted before this one. */
  readonly results: number;
}

/** Returns the fields of an event. */
export function noveltyFields({ newWords, words, results }: Novelty): { [name: string]: number } {
  return { new_words: newWords, words, results };
}

/** The end of a call. */
export interface Outcome {
  readonly outcome: "ok" | "error" | "timeout" | "unknown";
  /** With `error` and `timeout`: the error's name and text, without secrets. */
  readonly error?: string;
  readonly output?: Output;
  /** The new words of the output and the error; left out without either. */
  readonly novelty?: Novelty;
  readonly durationMs?: number;
}

/** The usage of one model turn. Increments, never running totals. */
export interface Usage {
  /** Without cached tokens. */
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  readonly cacheReadTokens?: number | undefined;
  /** Counted as input. */
  readonly cacheWriteTokens?: number | undefined;
  readonly costUsd?: number | undefined;
}

/** An event of the session that is not a call. */
export interface TurnEvent {
  readonly kind: "model.turn";
  readonly usage?: Usage;
  readonly output?: Output;
}

/** There was no response in time: the session's fail policy decides. Every other error refuses the call. */
export class Away extends Error {
  override readonly name: string = "Away";
}

/**
 * A request is undecided, perhaps as its approval is pending: its time limit has passed, or responses have stopped.
 * Such a call must not be made, whatever the fail policy is.
 */
export class Waiting extends Away {
  override readonly name: string = "Waiting";
}

/** One session's connection to its decider. One object for each session. */
export interface Transport {
  /** Reports the session's start. Called once, before everything else; after a failure, `verdict` reports it again. */
  open(session: SessionInfo): Promise<void>;
  /**
   * Waits according to the call's mode, also for a person's approval. Rejects with Away without a response, and with
   * Waiting if it is undecided.
   */
  verdict(call: ProposedCall): Promise<Verdict>;
  /** Returns whether the model may take its next turn. Rejects with Away without a response. */
  turnVerdict(): Promise<Verdict>;
  /** Reports the end of an allowed call. */
  result(callId: string, outcome: Outcome): Promise<void>;
  event(event: TurnEvent): Promise<void>;
  /** Reports a prompt of the user; optional. */
  prompt?(prompt: Prompt): Promise<void>;
  /** Starts the next run of the same session; a transport without it has no budgets. */
  beginRun?(): void;
  /** Saves a state of the work, if the transport does so, and reports it. Rejects if it fails. */
  checkpoint?(id: string, isSafe: boolean): Promise<void>;
  /** Returns how often the work was restored so far, after a rollback that is being carried out; optional. */
  rollbacks?(): Promise<number>;
  /**
   * Reports a call that is not made, as an equal one was or is: `code`. Returns a refusal if one is in force; optional.
   */
  notMade?(call: ProposedCall, code: string): Promise<Verdict | undefined>;
  /** A transport for a session below this one, over the same connection. */
  below(): Transport;
  /** Reports the session's end, waits until that has arrived (within bounds), and releases its resources. */
  close(): Promise<void>;
}
