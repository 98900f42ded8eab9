/** A session over a service that plays a list of verdicts: what every adapter relies on. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { argumentsOf, type Denied, Refused, type Session } from "../src/index.js";
import { Away } from "../src/service.js";
import { type Answer, ALLOWED, BLOCKED, KILLED, Scripted } from "./scripted.js";

const FROZEN: Answer = { ...BLOCKED, code: "session_frozen_by_operator" };
const CONTAINED: Answer = { ...BLOCKED, code: "session_contained_by_operator" };

const REFUSED = (code: string) => (error: unknown) => error instanceof Refused && error.code === code;

async function denied(asked: ReturnType<Session["before"]>): Promise<Denied> {
  const verdict = await asked;
  if (verdict.allowed) assert.fail("expected a refusal");
  return verdict;
}

async function codeOf(session: Session, name: string): Promise<string> {
  const verdict = await session.before(undefined, name);
  return verdict.allowed ? "" : verdict.code;
}

test("a session is told from its start to its end", async () => {
  const service = new Scripted();
  const session = service.session({ sessionId: "s", agentId: "a", missionId: "m", mode: "blocking", goal: "tidy" });
  await Promise.all([session.before("c1", "send", '{"to": "x"}', { loopKey: "k", effect: "write", targets: ["t"] }), session.beforeTurn()]);
  await session.after("c1", { rows: 42n, circle: undefined });
  await session.turn({ usage: { inputTokens: 5, cacheWriteTokens: 2, outputTokens: 1 }, output: "Done." });
  await session.prompt("and now?");
  await session.before("c2", "send");
  await session.failed("c2", new RangeError("no"));
  await session.end();
  await session.end();
  assert.equal((await denied(session.before("c3", "work"))).code, "not_checked");
  const who = { session_id: "s", agent_id: "a", mission_id: "m", session_mode: "blocking" };
  const call = { ...who, action: "send", targets: [] };
  assert.deepEqual(JSON.parse(JSON.stringify(service.asked)), [
    ["/v1/start", { ...who, task: { goal: "tidy" } }],
    ["/v1/verdict", { ...call, call_id: "c1", args: { to: "x" }, targets: ["t"], effect: "write", loop_key: "k" }],
    ["/v1/verdict", { ...who, kind: "model.turn" }],
    ["/v1/result", { session_id: "s", call_id: "c1", output: { rows: "42" } }],
    ["/v1/turn", { ...who, usage: { input_tokens: 7, output_tokens: 1, cache_read_tokens: 0 }, output: "Done." }],
    ["/v1/start", { ...who, prompt: "and now?" }],
    ["/v1/verdict", { ...call, call_id: "c2", args: {} }],
    ["/v1/result", { session_id: "s", call_id: "c2", outcome: "error", error: "RangeError: no" }],
    ["/v1/end", { session_id: "s" }],
  ]);
  await assert.rejects(session.prompt(["a"] as never), /prompt: expected a text, got object/);
});

test("a result that is long is cut, and one that JSON cannot say is named", async () => {
  const service = new Scripted();
  const session = service.session();
  const circle: unknown[] = [];
  circle.push(circle);
  for (const output of ["x".repeat(2_000_000), { text: "y".repeat(2_000_000) }, circle, "a\ud83d"]) {
    await session.before("c", "work");
    await session.after("c", output);
  }
  const sent = service.asked.filter(([path]) => path === "/v1/result").map(([, { output }]) => output as string);
  assert.deepEqual(sent.map((one) => [one.length, one.slice(0, 9)]), [
    [1_000_000, "xxxxxxxxx"],
    [1_000_000, '{"text":"'],
    [16, "<[object "],
    [2, "a\ud83d"],
  ]);
});

test("a refused call is denied with the text for the model, and the run goes on", async () => {
  const session = Scripted.of({ ...BLOCKED, hints: "Think again.", request_id: "r1", expires: 7 }).session();
  const verdict = await denied(session.before("c1", "work"));
  assert.deepEqual([verdict.text, verdict.code], ["Not this.\n\nThink again.", "block"]);
  assert.deepEqual([verdict.refused.message, verdict.refused.approval], ["Not this.", { requestId: "r1", expires: 7 }]);
  assert.equal(session.stopped, undefined);
  assert.ok((await session.before("c2", "work")).allowed);
});

test("a stopped session throws, also without asking again, and so does one below it", async () => {
  const service = Scripted.of(ALLOWED, KILLED);
  const session = service.session();
  const below = session.subagent({ agentId: "a/b" });
  assert.ok((await below.before("c1", "work")).allowed);
  await assert.rejects(session.before("c2", "work"), REFUSED("session_killed_loop_guard"));
  for (const one of [session, below]) {
    await assert.rejects(one.before("c3", "work"), REFUSED("session_killed_loop_guard"));
    await assert.rejects(one.beforeTurn(), REFUSED("session_killed_loop_guard"));
    assert.equal(one.stopped?.code, "session_killed_loop_guard");
  }
  assert.equal(service.calls.length, 2);
});

test("a frozen session makes no further turn, and goes on when it is released", async () => {
  const service = new Scripted();
  const session = service.session();
  service.turn = FROZEN;
  await assert.rejects(session.beforeTurn(), REFUSED("session_frozen_by_operator"));
  assert.equal(session.stopped?.code, "session_frozen_by_operator");
  service.turn = ALLOWED;
  await session.beforeTurn();
  assert.equal(session.stopped, undefined);
});

test("hints come with the result of their call, and those of a failed call with the next one", async () => {
  const session = Scripted.of({ ...ALLOWED, hints: "One." }, { ...ALLOWED, hints: "Two." }).session();
  await session.before("c1", "work");
  assert.equal(await session.after("c1", "done"), "One.");
  assert.equal(await session.after("c1", "done"), "", "once");
  await session.before("c2", "work");
  await session.failed("c2", new Error("no"));
  const verdict = await session.before("c3", "work");
  assert.equal(verdict.allowed && verdict.hints, "Two.");
  assert.equal(await session.after("c3", "done"), "Two.");
});

test("arguments are changed by a decision, or the call is denied where they cannot be", async () => {
  const other: Answer = { ...ALLOWED, change_arguments: { put: { path: "safe" }, remove: ["force"] } };
  const verdict = await Scripted.of(other).session().before("c1", "work", { path: "/", force: true });
  assert.deepEqual(verdict.allowed && { args: verdict.args, changed: verdict.changed }, { args: { path: "safe" }, changed: true });
  const fixed = Scripted.of(other);
  const refused = await denied(fixed.session({ changesArguments: false }).before("c1", "work", { path: "/", force: true }));
  assert.deepEqual([refused.text, refused.code], [
    'This call is only allowed with other arguments: {"path":"safe"}',
    "arguments_not_changed",
  ]);
  assert.deepEqual(fixed.said, ["call work", "result work error"]);
});

test("without an answer only what reads is made, and what stood holds", async () => {
  const away = new Away("gone");
  const service = Scripted.of(away, away, FROZEN, away, away);
  const session = service.session({ effects: { work: "read" } });
  assert.equal(await codeOf(session, "mcp__warehouse__getAsset"), "");
  const refused = await denied(session.before("c2", "save"));
  assert.match(refused.text, /^haltline did not make this call: no decision on it could be obtained/);
  for (const name of ["work", "save", "get_asset"]) assert.equal(await codeOf(session, name), "session_frozen_by_operator");
  service.turn = away;
  await assert.rejects(session.beforeTurn(), REFUSED("session_frozen_by_operator"));
  assert.equal(service.warned.filter((one) => one.includes("no response")).length, 2, "once for each time");
  assert.equal(await codeOf(Scripted.of(away).session({ whenDown: "all" }), "delete_asset"), "");
});

test("a contained session that has looked since changes nothing without a response", async () => {
  const away = new Away("gone");
  const session = Scripted.of(CONTAINED, ALLOWED, away, away, FROZEN, ALLOWED, away, ALLOWED, away).session({ whenDown: "all" });
  assert.equal(await codeOf(session, "save"), "session_contained_by_operator");
  assert.equal(session.stopped, undefined, "it may look, and so go on");
  assert.equal(await codeOf(session, "get_asset"), "");
  await session.beforeTurn();
  assert.equal(await codeOf(session, "save"), "session_contained_by_operator", "no response");
  assert.equal(await codeOf(session, "get_asset"), "", "no response");
  assert.equal(await codeOf(session, "save"), "session_frozen_by_operator");
  assert.equal(await codeOf(session, "get_asset"), "", "no longer frozen");
  assert.equal(await codeOf(session, "save"), "session_contained_by_operator", "no response");
  assert.equal(await codeOf(session, "save"), "", "released");
  assert.equal(await codeOf(session, "save"), "", "no response");
});

test("whatever fails in here refuses the call", async () => {
  const service = Scripted.of(new Error("broken"), { ok: true });
  const session = service.session();
  const hostile = {
    get path(): string {
      throw new Error("no");
    },
  };
  for (const args of [{}, "", hostile]) assert.equal((await denied(session.before(undefined, "work", args))).code, "not_checked");
  assert.equal((await denied(session.before("c", "work", {}, { effect: "bad" as "read" }))).code, "not_checked");
  service.turn = new Error("broken");
  await assert.rejects(session.beforeTurn(), REFUSED("not_checked"));
  assert.equal(service.warned.length, 5);
});

test("a function is guarded whole", async () => {
  const service = Scripted.of(ALLOWED, { ...ALLOWED, hints: "Think." }, ALLOWED, BLOCKED, KILLED);
  const session = service.session();
  const work = session.guarded("work", async ({ path }: { path: string }) => {
    if (path === "bad") throw new TypeError("no such path");
    return `done ${path}`;
  });
  assert.equal(await work({ path: "a" }), "done a");
  assert.equal(await work({ path: "b" }), "done b\n\nThink.");
  await assert.rejects(work({ path: "bad" }), /no such path/);
  await assert.rejects(work({ path: "c" }), REFUSED("block"));
  assert.equal(session.stopped, undefined);
  await assert.rejects(work({ path: "d" }), REFUSED("session_killed_loop_guard"));
  assert.notEqual(session.stopped, undefined);
  assert.deepEqual(service.said.filter((one) => one.startsWith("result")), ["result work ok", "result work ok", "result work error"]);
});

test("the same id twice is two calls: the hints of the first are not lost", async () => {
  const session = Scripted.of({ ...ALLOWED, hints: "One." }).session();
  await session.before("c1", "work");
  await session.before("c1", "work");
  const verdict = await session.before("c2", "work");
  assert.equal(verdict.allowed && verdict.hints, "One.");
});

test("errors say what was expected", () => {
  const service = new Scripted();
  assert.throws(() => service.session({ sessionId: "" }), /sessionId: expected a text of 1 to 256 characters, got ""/);
  assert.throws(() => service.session({ mode: "fast" as "async" }), /mode: expected one of async, blocking, local/);
  assert.throws(() => service.session({ effects: { a: "bad" as "read" } }), /effects\.a: expected one of read/);
  assert.throws(() => service.session({ whenDown: "some" as "all" }), /whenDown: expected one of reads, all/);
  assert.throws(() => service.session({ keyTtlS: 0 }), /keyTtlS: expected seconds/);
});

test("arguments are an object, or its JSON as the model wrote it", () => {
  assert.deepEqual(argumentsOf('{"a": 1}'), { a: 1 });
  assert.deepEqual(argumentsOf(""), {});
  assert.deepEqual(argumentsOf(undefined), {});
  assert.deepEqual(argumentsOf("[1]"), { arguments: [1] });
  assert.deepEqual(argumentsOf('{"a"'), { arguments: '{"a"' });
  assert.deepEqual(argumentsOf(7), { arguments: 7 });
});
