/** The transport to `haltline intake` over HTTP. Needs only Node. */

import { randomUUID } from "node:crypto";
import * as http from "node:http";
import * as https from "node:https";

import type { SessionOptions } from "./options.js";
import { Session } from "./session.js";
import {
  Away,
  noveltyFields,
  type Outcome,
  type Prompt,
  type ProposedCall,
  type SessionInfo,
  type Transport,
  type TurnEvent,
  type Usage,
  type Verdict,
  Waiting,
} from "./transport.js";

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** The end of a session waits until its last events have arrived. */
const END_MS = 10_000;
/** Timeout for harmless requests after one without a response. */
const SILENT_MS = 500;
const BETWEEN_TRIES_MS = [50, 100, 200, 400, 800, 1000];
/** Responses of a gateway, or of an intake without capacity: there is no decision. */
const NOT_NOW = new Set([429, 502, 503, 504]);

export interface HttpOptions {
  /** The address of `haltline intake`, such as `http://127.0.0.1:8765`. Default: `HALTLINE_INTAKE_URL`. */
  readonly url?: string | URL | undefined;
  /** The intake's bearer token. Default: `HALTLINE_INTAKE_TOKEN`. */
  readonly token?: string | undefined;
  /** Time limit of a request's response, and of retries without one, in milliseconds (5000). */
  readonly budgetMs?: number | undefined;
  /** How long a call waits for a person's approval, in milliseconds (930,000); the intake's own limit may be shorter. */
  readonly approvalWaitMs?: number | undefined;
}

/** The intake rejected the request itself: an address, a token or a field is wrong. */
export class HttpProblem extends Error {
  override readonly name: string = "HttpProblem";

  constructor(
    readonly status: number,
    problem: string,
  ) {
    super(`the intake answered ${status}: ${problem}`);
  }
}

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

/** One session's connection to an intake. */
export class HttpTransport implements Transport {
  readonly #options: HttpOptions;
  readonly #url: URL;
  readonly #agent: http.Agent;
  readonly #token: string | undefined;
  readonly #budgetMs: number;
  readonly #approvalWaitMs: number;
  #session: SessionInfo = { sessionId: "", ancestors: [] };
  #prompt: string | undefined;
  #isSilent = false;

  /** Throws TypeError or RangeError for invalid options. */
  constructor(options: HttpOptions, agent?: http.Agent) {
    this.#options = options;
    this.#url = addressOf(options.url ?? process.env["HALTLINE_INTAKE_URL"]);
    this.#token = tokenOf(options.token ?? process.env["HALTLINE_INTAKE_TOKEN"]);
    this.#budgetMs = milliseconds(options.budgetMs, 5000, "budgetMs");
    this.#approvalWaitMs = milliseconds(options.approvalWaitMs, 930_000, "approvalWaitMs");
    const kind = this.#url.protocol === "https:" ? https : http;
    this.#agent = agent ?? new kind.Agent({ keepAlive: true, maxFreeSockets: 8, timeout: 60_000 });
  }

  async open(session: SessionInfo): Promise<void> {
    this.#session = session;
    const task = session.goal === undefined ? {} : { task: { goal: session.goal } };
    await this.#post("/v1/start", { ...this.#who(), ...task }, this.#budgetMs);
  }

  async verdict(call: ProposedCall): Promise<Verdict> {
    const mayHarm = call.knownEffect === "destructive";
    const body = {
      ...this.#who(),
      call_id: call.callId,
      action: call.action,
      args: call.args,
      targets: [...call.targets, ...call.cutTargets()],
      // For complete arguments the intake computes the digest itself.
      ...(call.unreadFrom === undefined ? {} : { unread_from: call.unreadFrom, args_digest: call.argsDigest }),
      ...(call.effect === undefined ? {} : { effect: call.effect }),
      ...(call.mode === undefined ? {} : { mode: call.mode }),
      ...(call.loopKey === undefined ? {} : { loop_key: call.loopKey }),
      ...(call.secretsSent === undefined ? {} : { secrets_sent: call.secretsSent }),
    };
    return verdictOf((await this.#post("/v1/verdict", body, mayHarm ? this.#budgetMs : this.#shortMs)).body);
  }

  async turnVerdict(): Promise<Verdict> {
    return verdictOf((await this.#post("/v1/verdict", { ...this.#who(), kind: "model.turn" }, this.#shortMs)).body);
  }

  async result(callId: string, { outcome, error, output, novelty }: Outcome): Promise<void> {
    const body = {
      session_id: this.#session.sessionId,
      call_id: callId,
      outcome,
      ...(error === undefined ? {} : { error }),
      ...(output === undefined ? {} : { described: output }),
      ...(novelty === undefined ? {} : { novelty: noveltyFields(novelty) }),
    };
    await this.#post("/v1/result", body, this.#shortMs);
  }

  async event({ usage, output }: TurnEvent): Promise<void> {
    const body = {
      ...this.#who(),
      ...(usage === undefined ? {} : { usage: usageOf(usage) }),
      ...(output === undefined ? {} : { described: output }),
    };
    await this.#post("/v1/turn", body, this.#shortMs);
  }

  /** Sent with the next request, and with each later one. */
  async prompt({ digest }: Prompt): Promise<void> {
    this.#prompt = digest;
  }

  below(): HttpTransport {
    return new HttpTransport(this.#options, this.#agent);
  }

  async close(): Promise<void> {
    if (this.#session.sessionId) await this.#post("/v1/end", { session_id: this.#session.sessionId }, this.#budgetMs);
  }

  // Internal.

  get #shortMs(): number {
    return this.#isSilent ? Math.min(this.#budgetMs, SILENT_MS) : this.#budgetMs;
  }

  /** The session, sent with each request for an intake that was restarted, or had dropped it. */
  #who(): Record<string, unknown> {
    const { sessionId, agentId, parentSessionId, rootSessionId, ancestors, missionId, mode } = this.#session;
    return {
      session_id: sessionId,
      ...(agentId === undefined ? {} : { agent_id: agentId }),
      ...(parentSessionId === undefined ? {} : { parent_session_id: parentSessionId }),
      ...(rootSessionId === undefined ? {} : { root_session_id: rootSessionId }),
      ...(ancestors.length ? { ancestors } : {}),
      ...(missionId === undefined ? {} : { mission_id: missionId }),
      ...(mode === undefined ? {} : { session_mode: mode }),
      ...(this.#prompt === undefined ? {} : { prompt: this.#prompt }),
    };
  }

  /**
   * Sends a request until there is a response. All tries have the same key, so that the intake handles it once. Rejects
   * with Away without a response within the budget, with Waiting if the last response was that it is undecided, and
   * with HttpProblem if the request was rejected.
   */
  async #post(path: string, body: object, budgetMs: number): Promise<Answer> {
    const text = JSON.stringify(body);
    const key = randomUUID();
    const until = performance.now() + this.#approvalWaitMs;
    let silentSince = performance.now();
    let waits = false;
    for (let tries = 0; ; tries++) {
      let why: string;
      const pauseMs = BETWEEN_TRIES_MS[Math.min(tries, BETWEEN_TRIES_MS.length - 1)] ?? 1000;
      try {
        const answer = await this.#ask(path, text, key, budgetMs);
        this.#isSilent = false;
        if (answer.status === 200) return answer;
        if (answer.status === 202) {
          waits = true;
          silentSince = performance.now();
          if (silentSince >= until) throw new Waiting(`${this.#url.origin} has not decided within ${this.#approvalWaitMs} ms`);
          await paused(pauseMs); // it still waits for a verdict or a person
          continue;
        }
        why = `it answered ${answer.status}: ${problemOf(answer.body)}`;
        if (!NOT_NOW.has(answer.status)) throw new HttpProblem(answer.status, problemOf(answer.body));
      } catch (error) {
        if (error instanceof HttpProblem || error instanceof Away) throw error;
        why = error instanceof Error ? error.message || String((error as NodeJS.ErrnoException).code) : String(error);
      }
      if (performance.now() + pauseMs - silentSince > budgetMs) {
        this.#isSilent = true;
        throw new (waits ? Waiting : Away)(`${this.#url.origin} within ${budgetMs} ms: ${why}`);
      }
      await paused(pauseMs);
    }
  }

  #ask(path: string, text: string, key: string, budgetMs: number): Promise<Answer> {
    // How long the intake may hold a request before it responds that the verdict is pending.
    const waitS = path === "/v1/verdict" ? Math.min(20, Math.max(1, Math.ceil(budgetMs / 1000))) : 0;
    const limitMs = Math.max(budgetMs, SILENT_MS) + 1000 * waitS + (path === "/v1/end" ? END_MS : 0);
    const headers: Record<string, string | number> = {
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(text),
      "Idempotency-Key": key,
      ...(waitS ? { Prefer: `wait=${waitS}` } : {}),
      ...(this.#token === undefined ? {} : { Authorization: `Bearer ${this.#token}` }),
    };
    return new Promise((resolve, reject) => {
      const kind = this.#url.protocol === "https:" ? https : http;
      const target = new URL(this.#url.pathname.replace(/(?<!\/)\/+$/, "") + path, this.#url);
      const request = kind.request(target, { method: "POST", agent: this.#agent, headers });
      const timer = setTimeout(() => request.destroy(new Error(`no answer within ${limitMs} ms`)), limitMs);
      const fail = (error: Error) => {
        clearTimeout(timer);
        reject(error);
      };
      request.on("error", fail);
      request.on("response", (response) => {
        const parts: Buffer[] = [];
        let size = 0;
        response.on("error", fail);
        response.on("aborted", () => fail(new Error("the answer ended early")));
        response.on("data", (part: Buffer) => {
          size += part.length;
          if (size > MAX_ANSWER_BYTES) request.destroy(new Error(`expected an answer of at most ${MAX_ANSWER_BYTES} bytes, got more`));
          else parts.push(part);
        });
        response.on("end", () => {
          clearTimeout(timer);
          const status = response.statusCode ?? 0;
          try {
            resolve({ status, body: objectOf(Buffer.concat(parts).toString("utf8"), status) });
          } catch (error) {
            reject(error as Error);
          }
        });
      });
      request.end(text);
    });
  }
}

function paused(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function objectOf(text: string, status: number): Record<string, unknown> {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    read = undefined;
  }
  if (typeof read === "object" && read !== null && !Array.isArray(read)) return read as Record<string, unknown>;
  if (status !== 200 && status !== 202) return {}; // a page of a gateway
  throw new HttpProblem(status, "expected an object in JSON, got something else");
}

function verdictOf(body: Record<string, unknown>): Verdict {
  const { allowed, killed, call_id, code, message, hints, change_arguments, request_id, expires } = body;
  if (typeof allowed !== "boolean") throw new HttpProblem(200, "expected a verdict, got none");
  const changes = change_arguments as Partial<NonNullable<Verdict["changeArguments"]>> | null | undefined;
  return {
    allowed,
    killed: killed === true,
    ...(typeof call_id === "string" ? { callId: call_id } : {}),
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof message === "string" ? { message } : {}),
    ...(typeof hints === "string" ? { hints } : {}),
    ...(changes ? { changeArguments: { put: changes.put ?? {}, remove: changes.remove ?? [] } } : {}),
    ...(typeof request_id === "string" ? { requestId: request_id } : {}),
    ...(typeof expires === "number" ? { expires } : {}),
  };
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

function problemOf(body: Record<string, unknown>): string {
  const errors = body["errors"];
  return (Array.isArray(errors) ? errors.join("; ") : JSON.stringify(body)).slice(0, 500);
}

function addressOf(url: string | URL | undefined): URL {
  let address: URL | undefined;
  try {
    address = new URL(url ?? "");
  } catch {
    address = undefined;
  }
  if (address === undefined || !["http:", "https:"].includes(address.protocol)) {
    throw new TypeError(`url: expected the address of haltline intake (http://127.0.0.1:8765), got ${String(url).slice(0, 200)}`);
  }
  return address;
}

function tokenOf(token: string | undefined): string | undefined {
  if (token === undefined || /^[\x21-\x7e]+$/.test(token)) return token;
  throw new TypeError("token: expected the text of a bearer token in ASCII without blanks, got another text");
}

function milliseconds(value: number | undefined, otherwise: number, field: string): number {
  if (value === undefined) return otherwise;
  if (Number.isFinite(value) && value >= 0 && value <= 86_400_000) return value;
  throw new RangeError(`${field}: expected milliseconds from 0 to 86400000, got ${value}`);
}

/** Creates a session over HTTP: `haltline intake` decides. */
export function httpSession(options: HttpOptions & SessionOptions): Session {
  return new Session(new HttpTransport(options), options);
}

/** Creates a session over HTTP (`url`), or over any `transport`. */
export function session(options: SessionOptions & (HttpOptions | { transport: Transport })): Session {
  return new Session("transport" in options ? options.transport : new HttpTransport(options), options);
}
