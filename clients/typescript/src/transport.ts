/**
 * What a session needs below it. Transports carry no secrets: what they are given was redacted already, except for
 * what `matchTargets` of a call returns.
 */

/** What a call does to the world, from harmless to harmful. */
export type Effect = "read" | "poll" | "write" | "network" | "exec" | "mutate" | "destructive";

/** All effects, from harmless to harmful. */
export const EFFECTS: readonly Effect[] = ["read", "poll", "write", "network", "exec", "mutate", "destructive"];

/**
 * What a call waits for. `async`: only calls that may destroy something wait for a verdict. `blocking`: each call
 * waits. `local`: the intake decides in its own process (`haltline intake --mode local`).
 */
export type Mode = "async" | "blocking" | "local";

export const MODES: readonly Mode[] = ["async", "blocking", "local"];

/** A value as JSON has it. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Who the agent is. */
export interface SessionInfo {
  readonly sessionId: string;
  readonly agentId?: string;
  readonly parentSessionId?: string;
  readonly rootSessionId?: string;
  /** More sessions above this one, besides parent and root. */
  readonly ancestors: readonly string[];
  readonly missionId?: string;
  /** What the session is to do, without secrets. */
  readonly goal?: string;
  readonly mode?: Mode;
}

/** The prompt of its user that a session works on. */
export interface Prompt {
  /** 32 hex digits of its text without secrets: equal for the same prompt. */
  readonly digest: string;
  /** How many the user has given by now. */
  readonly count: number;
}

/** A call that is about to be made, without secrets and within bounds. */
export interface ProposedCall {
  readonly callId: string;
  readonly action: string;
  readonly args: { [name: string]: Json };
  /** 32 hex digits of the whole arguments without secrets. */
  readonly argsDigest: string;
  /** Texts and lists in `args` are cut behind so many characters or items; left out: they are whole. */
  readonly unreadFrom?: number;
  readonly targets: readonly string[];
  /**
   * With `unreadFrom`: `name=value` of simple arguments that `args` does not show as they were, without secrets; else
   * none. Throws RangeError when there are too many.
   */
  readonly cutTargets: () => readonly string[];
  /**
   * What an entry about a target may name: the declared targets, and `name=value` of simple arguments, all whole and
   * with their secrets. Only to be compared in this process; a function, so that who writes the call down has none.
   */
  readonly matchTargets: () => readonly string[];
  /** As the tool declares it. */
  readonly effect?: Effect;
  /** As far as it is known from the name and the declaration; what the fail policy goes by. */
  readonly knownEffect: Effect;
  /** Of this call alone; left out: that of the session. */
  readonly mode?: Mode;
  readonly loopKey?: string;
  /** The arguments as the tool receives them, with their secrets. Only to be looked at in this process. */
  readonly rawArgs: () => Readonly<Record<string, unknown>>;
  readonly costUsd?: number;
  /** Secrets of the session that it sends to where they do not belong; left out: there are none. */
  readonly secretsSent?: readonly SentSecret[];
}

/** A secret that the session has read before, in the arguments of a call that sends them somewhere. */
export interface SentSecret {
  readonly kind: string;
  /** Of the secret, under the key of digests, or a key of this process. */
  readonly digest: string;
  /** Its provider's hosts are known, and the call goes to none of them. */
  readonly elsewhere?: boolean;
}

/** Whether a call, or the model's next turn, may be made. */
export interface Verdict {
  readonly allowed: boolean;
  /** The session was stopped for good: its run has to end. */
  readonly killed: boolean;
  readonly callId?: string;
  /** Of a refusal, for programs. */
  readonly code?: string;
  /** Of a refusal, for the model. */
  readonly message?: string;
  /** For the model, besides. */
  readonly hints?: string;
  readonly changeArguments?: { readonly put: { [name: string]: unknown }; readonly remove: readonly string[] };
  /** Of an approval that a person is asked for, and until when (epoch milliseconds). */
  readonly requestId?: string;
  readonly expires?: number;
  /** Of a refusal that is a ROLLBACK: the state to go back to. */
  readonly checkpoint?: string;
}

/** What was returned, without secrets. */
export interface Output {
  /** Of the whole; null: of this value nobody can say that it equals another. */
  readonly digest: string | null;
  /** Of the whole, in UTF-8. */
  readonly bytes: number;
  /** Its beginning; null: nothing is shown. */
  readonly head: string | null;
}

/** How much of a whole result is new in its session: counts, no text. */
export interface Novelty {
  /** Those of `words` that stood in no earlier result, and in no argument of a call that has ended. */
  readonly newWords: number;
  /** Distinct words (`[A-Za-z_]{3,}`, or digits) of its first 64 KiB. */
  readonly words: number;
  /** Results of the session that were counted before this one. */
  readonly results: number;
}

/** As an event has it. */
export function noveltyFields({ newWords, words, results }: Novelty): { [name: string]: number } {
  return { new_words: newWords, words, results };
}

/** How a call ended. */
export interface Outcome {
  readonly outcome: "ok" | "error" | "timeout" | "unknown";
  /** With `error` and `timeout`: the error's name and text, without secrets. */
  readonly error?: string;
  readonly output?: Output;
  /** Of the output and the error; left out where there is neither. */
  readonly novelty?: Novelty;
  readonly durationMs?: number;
}

/** What one turn of the model used. Increments, never running totals. */
export interface Usage {
  /** Without those that were read from the cache. */
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  readonly cacheReadTokens?: number | undefined;
  /** Counted as input. */
  readonly cacheWriteTokens?: number | undefined;
  readonly costUsd?: number | undefined;
}

/** An event of the session that is no call. */
export interface TurnEvent {
  readonly kind: "model.turn";
  readonly usage?: Usage;
  readonly output?: Output;
}

/** Nobody answered in time: the session's fail policy decides. Every other error refuses the call. */
export class Away extends Error {
  override readonly name: string = "Away";
}

/**
 * A request is still undecided, perhaps as a person is asked for an approval: the limit of that wait has passed, or
 * nobody answers any longer. Such a call must not be made, whatever the fail policy says.
 */
export class Waiting extends Away {
  override readonly name: string = "Waiting";
}

/** One session's way to those who decide. One object for each session. */
export interface Transport {
  /** Tells that the session begins. Called once, before everything else; what fails here is asked again by `verdict`. */
  open(session: SessionInfo): Promise<void>;
  /** Waits as the call's mode says, also for a person's approval. Rejects with Away when nobody answers, and with Waiting when it is still undecided. */
  verdict(call: ProposedCall): Promise<Verdict>;
  /** Whether the model may take its next turn. Rejects with Away when nobody answers. */
  turnVerdict(): Promise<Verdict>;
  /** The end of a call that was allowed. */
  result(callId: string, outcome: Outcome): Promise<void>;
  event(event: TurnEvent): Promise<void>;
  /** The user has given a prompt; a transport without it does not tell prompts. */
  prompt?(prompt: Prompt): Promise<void>;
  /** The next run of the same session begins; a transport without it has no budgets. */
  beginRun?(): void;
  /** Keeps a state of the work, where this is the transport's to do, and tells that it is kept. Rejects when it is not. */
  checkpoint?(id: string, isSafe: boolean): Promise<void>;
  /** A transport for a session below this one, over the same connection. */
  below(): Transport;
  /** Tells that the session has ended, waits until that has arrived (within bounds), and releases what it holds. */
  close(): Promise<void>;
}
