/** The transport over Kafka: sessions publish and read the topics with librdkafka, like the Python client. */

import type { SessionOptions } from "../options.js";
import { Session } from "../session.js";
import type { Outcome, Prompt, ProposedCall, SessionInfo, Transport, TurnEvent, Verdict } from "../transport.js";
import type { Connection } from "./connection.js";
import { Gate, LOCAL } from "./gate.js";
import { connectionOf } from "./pool.js";
import { type KafkaOptions, type KafkaSettings, othersOf, settingsOf } from "./settings.js";

export type { Checkpoints } from "./rollback.js";
export type { Rules } from "./rule_settings.js";
export type { KafkaOptions } from "./settings.js";

/**
 * Creates a session over Kafka. The mode is `async` by default. Throws TypeError, RangeError or Error for invalid
 * options, for the mode `local`, and if the client library is not installed.
 */
export function kafkaSession(options: KafkaOptions & SessionOptions): Session {
  if (options.mode === "local") throw new TypeError(LOCAL);
  const transport = new KafkaTransport(options);
  const keyTtlS = options.keyTtlS ?? options.rules?.idempotency_ttl_seconds;
  return new Session(transport, { mode: "async", ...othersOf(options), failClosedFrom: options.failClosedFrom, keyTtlS });
}

/** One session's part of its process's connection to Kafka; sessions with the same settings share one. */
export class KafkaTransport implements Transport {
  readonly #settings: KafkaSettings;
  readonly #warn: ((message: string) => void) | undefined;
  readonly #above: KafkaTransport | undefined;
  #connection: Connection;
  #gate: Gate | undefined;
  #key = Buffer.alloc(0);
  #handed = 0;
  #arrived = 0;
  #idle: (() => void) | undefined;
  #closed = false;
  /** Records that the broker did not acknowledge in time. */
  undelivered = 0;

  /** Throws TypeError, RangeError or Error like `kafkaSession`. */
  constructor(options: (KafkaOptions & SessionOptions) | KafkaTransport) {
    const below = options instanceof KafkaTransport;
    this.#above = below ? options : undefined;
    this.#settings = below ? options.#settings : settingsOf(options);
    this.#warn = below ? options.#warn : options.onWarning;
    this.#connection = connectionOf(this.#settings, this.#warn);
  }

  /** Why decisions are not reliable now, as text; undefined if they are. */
  get degraded(): string | undefined {
    return this.#gate === undefined ? "the session has not started" : this.#gate.degraded;
  }

  /** Whether the control topic has been read, so that the restrictions in force are known. */
  get ready(): boolean {
    return this.#gate?.enforcer.isLoaded ?? false;
  }

  /** Records that did not reach the broker because it was down for too long, or too slow. */
  get dropped(): number {
    return (this.#gate?.publisher.dropped ?? 0) + this.undelivered;
  }

  /** Starts receiving decisions, and reports the session's start. Resolves at once. */
  open(session: SessionInfo): Promise<void> {
    if (this.#gate !== undefined) return Promise.resolve();
    const { sessionId } = session;
    this.#key = Buffer.from(sessionId);
    const link = {
      up: () => this.#connection.up && !this.#closed,
      unwatched: () => this.#connection.watched.unwatchedReason(sessionId),
    };
    const send = (topic: string, value: Buffer, must: boolean): boolean => this.#send(topic, value, must);
    const above = this.#above === undefined ? undefined : this.#above.#gate;
    this.#gate = new Gate(session, this.#settings, send, link, above);
    const member = { sessionId, receiver: this.#gate.enforcer };
    while (!this.#connection.join(this, member)) {
      this.#connection = connectionOf(this.#settings, this.#warn); // closed meanwhile by the last of its other users
    }
    this.#gate.started();
    return Promise.resolve();
  }

  async verdict(call: ProposedCall): Promise<Verdict> {
    return this.#opened().verdict(call);
  }

  async turnVerdict(): Promise<Verdict> {
    return this.#opened().turnVerdict();
  }

  result(callId: string, outcome: Outcome): Promise<void> {
    this.#opened().result(callId, outcome);
    return Promise.resolve();
  }

  event(event: TurnEvent): Promise<void> {
    this.#opened().turn(event);
    return Promise.resolve();
  }

  prompt({ count }: Prompt): Promise<void> {
    if (count > 1) this.#opened().started(count); // the session was started for the first
    return Promise.resolve();
  }

  beginRun(): void {
    this.#opened().rules?.beginRun();
  }

  checkpoint(id: string, isSafe: boolean): Promise<void> {
    return this.#opened().checkpoint(id, isSafe);
  }

  rollbacks(): Promise<number> {
    return this.#opened().rollbacks();
  }

  notMade(call: ProposedCall, code: string): Promise<Verdict | undefined> {
    return Promise.resolve(this.#opened().notMade(call, code));
  }

  below(): KafkaTransport {
    return new KafkaTransport(this);
  }

  /** Reports the session's end, and waits until its records have arrived (`closeBudgetS`). */
  async close(): Promise<void> {
    if (this.#gate === undefined || this.#closed) return;
    this.#gate.end();
    if (!this.#connection.up) this.#connection.toDisk();
    await this.#delivered();
    if (this.#handed > this.#arrived + this.undelivered) this.#connection.toDisk();
    this.#closed = true;
    await this.#connection.leave(this);
    const left = this.#handed - this.#arrived;
    if (left > 0) throw new Error(`${left} records did not arrive before the end`);
  }

  #opened(): Gate {
    if (this.#gate === undefined) throw new Error("expected a session that was opened, got one that was not");
    return this.#gate;
  }

  #send(topic: string, value: Buffer, must: boolean): boolean {
    if (this.#closed) return false;
    const report = (delivered: boolean): void => {
      if (delivered) this.#arrived++;
      else this.undelivered++;
      if (this.#handed <= this.#arrived + this.undelivered) this.#idle?.();
    };
    this.#handed++;
    if (this.#connection.publish(topic, this.#key, value, report, must)) return true;
    this.#handed--;
    return false;
  }

  /** Resolves when all delivery reports have arrived, or at the time limit. */
  #delivered(): Promise<void> {
    if (this.#handed <= this.#arrived + this.undelivered) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#settings.closeBudgetS * 1000);
      this.#idle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
