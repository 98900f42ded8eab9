// The same cases as the Python client, recorded from it: python -m tests.clients.kafka_vectors

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import type { Cause } from "../src/kafka/causes.js";
import { Enforcer } from "../src/kafka/enforcer.js";
import type { Later } from "../src/kafka/later.js";
import { partitionOf } from "../src/kafka/partitioner.js";
import { parametersOf } from "../src/kafka/publisher.js";
import { controlOf, type Decision, decisionOf, strictControlOf } from "../src/kafka/records.js";
import { rulesOf } from "../src/kafka/rule_settings.js";
import { type Objection, RuleBook, type Ticket } from "../src/kafka/rules.js";
import { sealedOf } from "../src/kafka/seals.js";
import { DiskSpool } from "../src/kafka/spool.js";
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
      case "against_turn":
        return shown(enforcer.againstTurn());
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
    const none = { cutTargets: () => [], matchTargets: () => [], rawArgs: () => ({}) };
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

test("the rules of an agent's author say the same, step by step", () => {
  const said = (one: Objection | undefined): unknown => one && [one.code, one.message];
  for (const { rules, steps } of vectors.rules) {
    const book = new RuleBook(rulesOf(rules));
    const running: Ticket[] = [];
    for (const [at, [kind, ...given]] of steps.entries()) {
      const where = `${JSON.stringify(rules)}, step ${at}: ${JSON.stringify(given)}`;
      if (kind === "begin") {
        const [action, args, nowMs, cost, refused, hints] = given;
        const ticket = book.begin(action, args, nowMs, cost ?? undefined);
        assert.deepEqual([said(ticket.refused) ?? null, ticket.hints.map(said)], [refused, hints], where);
        if (ticket.refused === undefined) running.push(ticket);
      } else if (kind === "end") {
        assert.equal(book.end(running.splice(given[0], 1)[0]!, given[1], given[2]), given[3], where);
      } else if (kind === "changed") {
        const { refused, hint } = book.againstChanged(given[0], given[1]);
        assert.deepEqual([said(refused ?? hint) ?? null, refused !== undefined], [given[2], given[3]], where);
      } else if (kind === "release") book.release(running.splice(given[0], 1)[0]!);
      else if (kind === "spend") book.spend(given[0]);
      else book.beginRun();
    }
  }
});

test("rules that cannot be are refused by their place", () => {
  for (const rules of vectors.wrong_rules) assert.throws(() => rulesOf(rules), /^TypeError: rules.*: expected .*, got/);
});

function spoolIn(context: { after: (end: () => void) => void }, maxBytes = 1000): [string, () => DiskSpool, string[]] {
  const folder = mkdtempSync(join(tmpdir(), "haltline-"));
  const said: string[] = [];
  context.after(() => rmSync(folder, { recursive: true }));
  return [folder, () => new DiskSpool(folder, maxBytes, (message) => said.push(message)), said];
}

test("records wait on disk as Python's do, for this user alone, and come out in order", (context) => {
  const { records, file } = vectors.spooled;
  const [folder, open] = spoolIn(context);
  const [spool, out, reports] = [open(), [] as unknown[], [] as ((isOk: boolean) => void)[]];
  for (const [topic, key, value] of records) assert.ok(spool.append({ topic, key: Buffer.from(key), value: Buffer.from(value) }));
  const [name = ""] = readdirSync(folder);
  assert.equal(readFileSync(join(folder, name)).toString("hex"), file);
  assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600);
  assert.equal(open().isEmpty, true, "another of this process still writes it");
  spool.close();
  const next = open();
  const send = (count: number): void => {
    next.drain(({ topic, key, value }, report) => {
      if (reports.length >= count) return false;
      out.push([topic, key.toString(), value.toString()]);
      return reports.push(report) > 0;
    });
  };
  send(1);
  assert.deepEqual(out, records.slice(0, 1));
  assert.ok(next.append({ topic: "t", key: Buffer.from(""), value: Buffer.from("later") }));
  send(3);
  assert.deepEqual(out, [...records, ["t", "", "later"]]);
  for (const [number, report] of reports.entries()) report(number !== 1); // the second did not arrive
  send(4);
  assert.deepEqual(out.at(-1), records[1]);
  reports.at(-1)?.(true);
  assert.deepEqual([next.isEmpty, readdirSync(folder)], [true, []]);
});

test("the spool is bounded, and what is damaged is left out and counted", (context) => {
  const [folder, open, said] = spoolIn(context, 100);
  const spool = open();
  const record = { topic: "t", key: Buffer.from("k"), value: Buffer.from("v".repeat(26)) };
  assert.deepEqual([spool.append(record), spool.append(record), spool.append(record)], [true, true, false]);
  spool.close();
  const [name = ""] = readdirSync(folder);
  const data = readFileSync(join(folder, name));
  data[data.length / 2 - 1] = 0; // of the first record's value
  writeFileSync(join(folder, name), Buffer.concat([data, data.subarray(0, 20)]));
  const next = open();
  let sent = 0;
  next.drain((_, report) => (setImmediate(() => report(true)), ++sent > 0));
  assert.deepEqual([sent, next.lost, said.length], [1, 2, 2]);
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
