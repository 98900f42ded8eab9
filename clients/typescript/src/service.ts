/** The local service, over HTTP. Needs only Node. */

import * as http from "node:http";
import { isIP } from "node:net";

import { withWhatToRun } from "./release.js";
import { isObject, jsonOf } from "./texts.js";

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** The end of a session waits until its last events have arrived. */
const END_MS = 10_000;
/** Timeout for harmless requests after one without a response. */
const SILENT_MS = 500;
const BETWEEN_TRIES_MS = [50, 100, 200, 400, 800, 1000];
/** Responses of a service without capacity: there is no decision. */
const NOT_NOW = new Set([429, 502, 503, 504]);

export interface ServiceOptions {
  /** The address of the service on this machine, such as `http://127.0.0.1:8765`. Default: `HALTLINE_INTAKE_URL`. */
  readonly url?: string | URL | undefined;
  /** Its bearer token. Default: `HALTLINE_INTAKE_TOKEN`. */
  readonly token?: string | undefined;
  /** Time limit of a request's response, and of retries without one, in milliseconds (5000). */
  readonly budgetMs?: number | undefined;
  /** How long a call waits for a person's approval, in milliseconds (930,000); the service's own limit may be shorter. */
  readonly approvalWaitMs?: number | undefined;
}

/** Answers requests about sessions. */
export interface Service {
  /**
   * Sends a verb (`begin`, `propose`, `end`, `turn`, `close`) until there is an answer, and returns it. `mayHarm`: an
   * answer is waited for in full, also after a request without one. `once`: what may have arrived is not sent again.
   * Rejects with Away or Waiting without an answer, and with ServiceProblem if the request was rejected.
   */
  ask(verb: string, body: object, about?: { mayHarm?: boolean; once?: boolean }): Promise<Record<string, unknown>>;
  /** The service for a session below. */
  below(): Service;
  close(): Promise<void>;
}

/** There was no response in time: the session's `whenDown` decides. Every other error refuses the call. */
export class Away extends Error {
  override readonly name: string = "Away";
}

/**
 * A request is undecided, perhaps as its approval is pending: its time limit has passed, or responses have stopped.
 * Such a call must not be made, whatever `whenDown` is.
 */
export class Waiting extends Away {
  override readonly name: string = "Waiting";
}

/** The service rejected the request itself: an address, a token or a field is wrong. */
export class ServiceProblem extends Error {
  override readonly name: string = "ServiceProblem";

  constructor(
    readonly status: number,
    problem: string,
  ) {
    super(`the service answered ${status}: ${withWhatToRun(status, problem)}`);
    this.isOfToken = status === 401 && problem.startsWith("token:");
  }

  /** The service does not know the session any more. */
  readonly isOfToken: boolean;
}

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

/** One session's connection to the service. */
export class HttpService implements Service {
  readonly #options: ServiceOptions;
  readonly #url: URL;
  readonly #agent: http.Agent;
  readonly #token: string | undefined;
  readonly #budgetMs: number;
  readonly #approvalWaitMs: number;
  #isSilent = false;

  /** Throws TypeError or RangeError for invalid options, also for the address of another machine. */
  constructor(options: ServiceOptions, agent?: http.Agent) {
    this.#options = options;
    this.#url = addressOf(options.url ?? process.env["HALTLINE_INTAKE_URL"]);
    this.#token = tokenOf(options.token ?? process.env["HALTLINE_INTAKE_TOKEN"]);
    this.#budgetMs = milliseconds(options.budgetMs, 5000, "budgetMs");
    this.#approvalWaitMs = milliseconds(options.approvalWaitMs, 930_000, "approvalWaitMs");
    this.#agent = agent ?? new http.Agent({ keepAlive: true, maxFreeSockets: 8, timeout: 60_000 });
  }

  below(): HttpService {
    return new HttpService(this.#options, this.#agent);
  }

  async close(): Promise<void> {}

  /** Why there will be no response any more; undefined: there may be one. */
  protected get gone(): string | undefined {
    return undefined;
  }

  /** A call has the same `call_id` in all tries, so the service handles it once. */
  async ask(verb: string, body: object, { mayHarm = false, once = false } = {}): Promise<Record<string, unknown>> {
    const budgetMs = this.#isSilent && !mayHarm ? Math.min(this.#budgetMs, SILENT_MS) : this.#budgetMs;
    // How long the service may hold a request before it answers that the verdict is pending.
    const waitS = verb === "propose" ? Math.min(20, Math.max(1, Math.ceil(budgetMs / 1000))) : 0;
    const text = jsonOf(waitS ? { ...body, wait_s: waitS } : body);
    const limitMs = Math.max(budgetMs, SILENT_MS) + 1000 * waitS + (verb === "close" ? END_MS : 0);
    const until = performance.now() + this.#approvalWaitMs;
    let silentSince = performance.now();
    let waits = false;
    for (let tries = 0; ; tries++) {
      let why: string;
      let isSent = false;
      const pauseMs = BETWEEN_TRIES_MS[Math.min(tries, BETWEEN_TRIES_MS.length - 1)] ?? 1000;
      try {
        const { status, body: answer } = await this.#once(`/v2/${verb}`, text, limitMs);
        if (status === 200) {
          this.#isSilent = false;
          silentSince = performance.now();
          if (answer["answer"] === "wait") {
            await paused(Number(answer["wait_ms"]) || pauseMs); // a poll that is slowed
            continue;
          }
          if (answer["answer"] !== "pending") return answer;
          waits = true;
          if (silentSince >= until) throw new Waiting(`${this.#url.origin} has not decided within ${this.#approvalWaitMs} ms`);
          await paused(pauseMs); // it still waits for a verdict or a person
          continue;
        }
        why = `it answered ${status}: ${problemOf(answer)}`;
        if (!NOT_NOW.has(status)) throw new ServiceProblem(status, problemOf(answer));
      } catch (error) {
        if (error instanceof ServiceProblem || error instanceof Away) throw error;
        isSent = (error as NodeJS.ErrnoException).code !== "ECONNREFUSED";
        why = error instanceof Error ? error.message || String((error as NodeJS.ErrnoException).code) : String(error);
      }
      const { gone } = this;
      if (gone !== undefined || (once && isSent) || performance.now() + pauseMs - silentSince > budgetMs) {
        this.#isSilent = true;
        throw new (waits ? Waiting : Away)(gone ?? `${this.#url.origin} within ${budgetMs} ms: ${why}`);
      }
      await paused(pauseMs);
    }
  }

  #once(path: string, text: string, limitMs: number): Promise<Answer> {
    const headers: Record<string, string | number> = {
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(text),
      ...(this.#token === undefined ? {} : { Authorization: `Bearer ${this.#token}` }),
    };
    return new Promise((resolve, reject) => {
      const request = http.request(new URL(path, this.#url), { method: "POST", agent: this.#agent, headers });
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
  if (isObject(read)) return read;
  if (status !== 200) return {}; // a page of a gateway
  throw new ServiceProblem(status, "expected an object in JSON, got something else");
}

function problemOf(body: Record<string, unknown>): string {
  const errors = body["errors"];
  return (Array.isArray(errors) ? errors.join("; ") : JSON.stringify(body)).slice(0, 500);
}

/** Texts are sent as they are, and the service redacts them, so it is on this machine. */
function addressOf(url: string | URL | undefined): URL {
  let address: URL | undefined;
  try {
    address = new URL(url ?? "");
  } catch {
    address = undefined;
  }
  const host = address?.hostname ?? "";
  const isHere = host === "localhost" || host === "[::1]" || (isIP(host) === 4 && host.startsWith("127."));
  if (address?.protocol === "http:" && isHere) return address;
  throw new TypeError(`url: expected the address of haltline agent --listen on this machine (http://127.0.0.1:8765), got ${String(url).slice(0, 200)}`);
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
