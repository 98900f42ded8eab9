// The settings of a session over Kafka.

import { type Effect, EFFECTS } from "../transport.js";
import type { Checkpoints } from "./rollback.js";
import { type ReadRules, type Rules, rulesOf } from "./rule_settings.js";

/** The options of `kafkaSession`, besides those of every session. Times are seconds. */
export interface KafkaOptions {
  /** Kafka's address, "host:port", several separated by commas. Default: `HALTLINE_BOOTSTRAP`. */
  readonly bootstrap?: string | undefined;
  /** Default: `HALTLINE_PREFIX`, or `haltline.`. */
  readonly topicPrefix?: string | undefined;
  /** How long a call waits for its verdict: 1. */
  readonly budgetS?: number | undefined;
  /** How long to wait, at most, for the first verdict of a connection: 5. */
  readonly firstBudgetS?: number | undefined;
  /** How long the first calls wait, from the session's start, until kills are known: 5. */
  readonly startBudgetS?: number | undefined;
  /** How long `close` waits until the last records have arrived: 5. */
  readonly closeBudgetS?: number | undefined;
  /** How long a call waits for a person's approval, at most until its request expires: 900. */
  readonly approvalWaitS?: number | undefined;
  /** A decision about an event older than this is ignored, unless it is a kill: 30. */
  readonly maxDecisionAgeS?: number | undefined;
  /** Without a verdict, calls of this effect or a worse one are refused, others are made; null: all are made. */
  readonly failClosedFrom?: Effect | null | undefined;
  /** In mode `async`, calls of this effect or a worse one, or with a word of destruction, wait; null: none waits. */
  readonly askFrom?: Effect | null | undefined;
  /** Files of the workers' public keys, separated as in PATH: records without a seal of such a key are ignored. */
  readonly verifyKey?: string | undefined;
  /** The author's rules, applied in this process in addition to the workers' decisions. */
  readonly rules?: Rules | undefined;
  /** Saves states of the work, for a ROLLBACK to restore. Left out: the agent's own code rolls back. */
  readonly checkpoints?: Checkpoints | undefined;
  /** How long a call waits for a rollback: 60. */
  readonly rollbackBudgetS?: number | undefined;
  /** A folder in which records wait while the broker is down, also for the next process; or `HALTLINE_SPOOL_DIR`. */
  readonly spoolDir?: string | undefined;
  /** The maximum that waits there, for each process, in MiB: 64. */
  readonly spoolMaxMb?: number | undefined;
  /** How long the broker may hold a fetch without new records, in milliseconds: 100; 10 for an embedded broker. */
  readonly fetchWaitMs?: number | undefined;
  /** More settings of librdkafka for producer and consumer, such as `security.protocol`. */
  readonly kafka?: Readonly<Record<string, string | number | boolean>> | undefined;
}

type Unset = "verifyKey" | "rules" | "checkpoints" | "spoolDir";

/** The settings, complete and validated. */
export interface KafkaSettings extends Complete<Omit<KafkaOptions, Unset>> {
  readonly isBlocking: boolean;
  readonly verifyKey: string | undefined;
  readonly rules: ReadRules | undefined;
  readonly checkpoints: Checkpoints | undefined;
  readonly spoolDir: string | undefined;
}

/** The same fields without `undefined`. */
type Complete<T> = { readonly [Name in keyof T]-?: Exclude<T[Name], undefined> };

const NAMES = new Set([
  "bootstrap", "topicPrefix", "budgetS", "firstBudgetS", "startBudgetS", "closeBudgetS", "approvalWaitS",
  "maxDecisionAgeS", "failClosedFrom", "askFrom", "verifyKey", "rules", "checkpoints", "rollbackBudgetS", "spoolDir",
  "spoolMaxMb", "fetchWaitMs", "kafka",
]);

/** Throws TypeError or RangeError for invalid options. */
export function settingsOf(options: KafkaOptions & { readonly mode?: string | undefined }): KafkaSettings {
  if ("policy" in options) throw new TypeError("policy: expected none over Kafka, got one: the workers decide by theirs");
  const bootstrap = options.bootstrap ?? process.env["HALTLINE_BOOTSTRAP"];
  if (typeof bootstrap !== "string" || bootstrap === "") {
    throw new TypeError("bootstrap: expected Kafka's address (host:port), got none; HALTLINE_BOOTSTRAP is read too");
  }
  const topicPrefix = options.topicPrefix ?? process.env["HALTLINE_PREFIX"] ?? "haltline.";
  if (!/^[A-Za-z0-9._-]{0,200}$/.test(topicPrefix)) {
    throw new RangeError(`topicPrefix: expected letters, digits, ".", "_" and "-", got ${JSON.stringify(topicPrefix)}`);
  }
  return {
    bootstrap,
    topicPrefix,
    isBlocking: options.mode === "blocking",
    budgetS: seconds("budgetS", options.budgetS, 1, true, 86_400),
    firstBudgetS: seconds("firstBudgetS", options.firstBudgetS, 5),
    startBudgetS: seconds("startBudgetS", options.startBudgetS, 5),
    closeBudgetS: seconds("closeBudgetS", options.closeBudgetS, 5),
    approvalWaitS: seconds("approvalWaitS", options.approvalWaitS, 900),
    maxDecisionAgeS: seconds("maxDecisionAgeS", options.maxDecisionAgeS, 30, true, 86_400),
    failClosedFrom: effect("failClosedFrom", options.failClosedFrom),
    askFrom: effect("askFrom", options.askFrom),
    verifyKey: options.verifyKey ?? process.env["HALTLINE_VERIFY_KEY"],
    rules: options.rules === undefined ? undefined : rulesOf(options.rules),
    checkpoints: checkpointsOf(options.checkpoints),
    rollbackBudgetS: seconds("rollbackBudgetS", options.rollbackBudgetS, 60),
    spoolDir: options.spoolDir ?? process.env["HALTLINE_SPOOL_DIR"],
    spoolMaxMb: seconds("spoolMaxMb", options.spoolMaxMb, 64, true, 100_000),
    fetchWaitMs: Math.round(seconds("fetchWaitMs", options.fetchWaitMs, 100, true, 60_000)),
    kafka: options.kafka ?? {},
  };
}

/** Returns the options of every session, without those of Kafka. */
export function othersOf<T extends object>(options: T): Omit<T, keyof KafkaOptions> {
  const others = Object.entries(options).filter(([name]) => !NAMES.has(name));
  return Object.fromEntries(others) as Omit<T, keyof KafkaOptions>;
}

function seconds(name: string, value: number | undefined, instead: number, positive = false, most = 3600): number {
  const given = value ?? instead;
  if (typeof given === "number" && given <= most && (positive ? given > 0 : given >= 0)) return given;
  throw new RangeError(`${name}: expected ${positive ? "more than 0" : "0"} to ${most}, got ${String(given)}`);
}

function checkpointsOf(given: Checkpoints | undefined): Checkpoints | undefined {
  if (given === undefined || (typeof given.keep === "function" && typeof given.restore === "function")) return given;
  throw new TypeError("checkpoints: expected an object with keep(id) and restore(id), got another");
}

function effect(name: string, value: Effect | null | undefined): Effect | null {
  const given = value === undefined ? "destructive" : value;
  if (given === null || EFFECTS.includes(given)) return given;
  throw new RangeError(`${name}: expected one of ${EFFECTS.join(", ")}, or null, got ${String(given)}`);
}
