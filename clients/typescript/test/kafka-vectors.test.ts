// The same cases as the Python client, recorded from it: python -m tests.clients.kafka_vectors

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import type { Cause } from "../src/kafka/causes.js";
import { Enforcer } from "../src/kafka/enforcer.js";
import type { Later } from "../src/kafka/later.js";
import { partitionOf } from "../src/kafka/partitioner.js";
import { parametersOf } from "../src/kafka/publisher.js";
import { controlOf, type Decision, decisionOf, strictControlOf } from "../src/kafka/records.js";
import { sealedOf } from "../src/kafka/seals.js";
import { Throttled } from "../src/kafka/throttled.js";
import { holdsWord } from "../src/kafka/words.js";
import type { Effect } from "../src/transport.js";

interface Step {
  do: [string, ...any[]];
  answer?: any;
  said?: any[][];
  killed?: string;
  silent?: boolean;
  degraded?: string;
  keeps?: boolean;
}

const NOW_MS = 1_800_000_000_000;
const file = new URL("../../test/vectors/kafka.json", import.meta.url); // the tests run from build/test
const vectors = JSON.parse(readFileSync(file, "utf8"));

function bytes(value: unknown): Buffer {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
}

function shown(cause: Cause | undefined): unknown {
  return cause === undefined ? null : [cause.decisionId, cause.code, cause.message, cause.decidedAtMs ?? null];
}

/** Carries out steps, and gives what is known after each. */
class Player {
  clockS = 1000;
  said: unknown[][] = [];
  last: Decision | undefined;
  readonly verdicts = new Map<string, Later<Decision | undefined>>();
  readonly persons = new Map<string, Later<Decision | undefined>>();
  readonly enforcer = new Enforcer(
    {
      sessionId: "s1", agentId: "a1", missionId: "m1", lineage: ["s1", "s0"],
      budgetS: 1, firstBudgetS: 5, maxDecisionAgeS: 30,
    },
    (stage, decisionId, decidedAtMs, { callId, action, detail }) =>
      this.said.push([stage, decisionId, decidedAtMs ?? null, callId ?? null, action ?? "", detail ?? ""]),
    { nowMs: () => NOW_MS + Math.round((this.clockS - 1000) * 1000), monotonicS: () => this.clockS },
  );

  play({ do: [name, ...given], keeps }: Step): unknown {
    const enforcer = this.enforcer;
    switch (name) {
      case "pass":
        this.clockS += given[0];
        return undefined;
      case "control":
        return enforcer.control(given[0], given[1] ? strictControlOf(bytes({ v: 1, ...given[1] })) : undefined);
      case "loaded":
        return enforcer.loaded();
      case "unloaded":
        return enforcer.unloaded();
      case "decision":
        return enforcer.decision(decisionOf(bytes(given[0])));
      case "await_verdict":
        this.verdicts.set(given[0], enforcer.awaitVerdict(given[0]));
        return Math.round(enforcer.verdictWaitS() * 1e6) / 1e6;
      case "give_up":
        this.last = enforcer.giveUp(given[0], this.verdicts.get(given[0])!, given[1]);
        return this.last?.decision_id;
      case "await_approval":
        this.persons.set(given[0], enforcer.awaitApproval(given[0]));
        return this.persons.get(given[0])!.done;
      case "take_verdict": {
        const verdict = enforcer.takeVerdict(given[0], this.persons.get(given[0])!);
        if (!keeps) this.last = verdict;
        return verdict?.decision_id;
      }
      case "admit_with":
      case "admit_without": {
        const [callId, action, matchTargets, effect, parameters] = given;
        const verdict = name === "admit_with" ? this.last : undefined;
        const admitted = enforcer.admit({ callId, action, matchTargets, effect }, verdict, () => parameters);
        this.last = undefined;
        return {
          cause: shown(admitted.cause),
          advice: admitted.advice.map(({ decision }) => decision.decision_id),
          rollbacks: admitted.rollbacks.map((one) => one.decision_id),
        };
      }
      case "against":
        return shown(enforcer.against(given[0], given[1], given[2]));
      case "done":
        return enforcer.done(given[0]);
      default:
        throw new Error(`expected a step that is known, got ${name}`);
    }
  }
}

test("what is enforced is what Python's client enforces, step by step", () => {
  for (const [number, steps] of (vectors.enforcer as Step[][]).entries()) {
    const player = new Player();
    for (const [at, step] of steps.entries()) {
      player.said = [];
      const actual: Record<string, unknown> = {
        answer: player.play(step) || undefined,
        said: player.said.length > 0 ? player.said : undefined,
        killed: player.enforcer.killed?.decisionId,
        silent: player.enforcer.isSilent || undefined,
        degraded: player.enforcer.degraded(true),
      };
      const expected = {
        answer: step.answer, said: step.said, killed: step.killed, silent: step.silent, degraded: step.degraded,
      };
      assert.deepEqual(actual, expected, `sequence ${number}, step ${at}: ${JSON.stringify(step.do)}`);
    }
  }
});

test("decisions are read, and refused, as Python's client reads them", () => {
  for (const [text, expected] of vectors.decisions) {
    let actual: unknown = null;
    try {
      const read = decisionOf(Buffer.from(text));
      actual = [
        read.decision_id, read.session_id, read.event_id, read.time, read.level, read.scope, read.mode, read.code,
      ];
    } catch {
      actual = null;
    }
    assert.deepEqual(actual, expected, text);
  }
});

test("an entry that cannot be read holds as frozen", () => {
  for (const [key, text, expected] of vectors.controls) {
    const read = controlOf(key, Buffer.from(text));
    const actual = read ? [read.scope, read.id, read.state, read.code, read.decision_id, read.since] : null;
    assert.deepEqual(actual, expected, `${key}: ${text}`);
  }
});

test("a session is on the same partition as everything else of it", () => {
  for (const [key, expected] of vectors.partitions) {
    assert.deepEqual([1, 4, 12, 7].map((count) => partitionOf(key, count)), expected, key);
  }
});

test("a call's parameters are those of the worker", () => {
  for (const [action, targets, expected] of vectors.parameters) {
    const call = { callId: "c", action, args: {}, argsDigest: "d".repeat(32), targets, knownEffect: "exec" as Effect };
    const none = { cutTargets: () => [], matchTargets: () => [] };
    assert.equal(parametersOf({ ...call, ...none }), expected, action);
  }
});

test("the words that make a call worth a question are the same", () => {
  for (const [text, expected] of vectors.words) assert.equal(holdsWord(text), expected, text);
});

test("the limits of a throttled session hold as long, and count the same", () => {
  for (const steps of vectors.throttled) {
    const throttled = new Throttled();
    for (const [kind, ...given] of steps) {
      if (kind === "take") throttled.take(given[0], given[1], given[2] ?? undefined);
      else if (kind === "note") throttled.note(given[0]);
      else if (kind === "used") throttled.used(given[0]);
      else assert.equal(throttled.isBeyond(given[0], given[1]), given[2]);
    }
  }
});

test("entries without the worker's seal stop, and never release", (context) => {
  const { public: pem, key, topic, entries } = vectors.seals;
  const folder = mkdtempSync(join(tmpdir(), "haltline-"));
  context.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "worker.pub"), pem);
  const said: string[] = [];
  const sealed = sealedOf(join(folder, "worker.pub"), (message) => said.push(message));
  let standing: Buffer | undefined;
  for (const [text, headers, expected] of entries) {
    const value = text === null ? null : Buffer.from(text);
    const named = headers.map(([name, one]: [string, string]) => [name, Buffer.from(one)] as const);
    standing = sealed.entry(key, { topic, key: Buffer.from(key), value, headers: named }, standing);
    const read = standing === undefined ? undefined : controlOf(key, standing);
    assert.deepEqual(read ? [read.state, read.code] : null, expected, `${text} ${JSON.stringify(headers)}`);
  }
  assert.equal(said.length, 2); // the first and the tenth
  assert.throws(() => sealedOf(join(folder, "none"), () => {}), /expected files of public keys/);
});
