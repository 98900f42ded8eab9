/** A session over a transport that plays a list of verdicts: what every transport and adapter relies on. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  argumentsOf,
  Away,
  type Denied,
  type Outcome,
  type ProposedCall,
  Refused,
  Session,
  type SessionInfo,
  type SessionOptions,
  type Transport,
  type TurnEvent,
  type Verdict,
} from "../src/index.js";

const ALLOW: Verdict = { allowed: true, killed: false };
const BLOCK: Verdict = { allowed: false, killed: false, code: "scope_creep", message: "Not this." };
const KILL: Verdict = { allowed: false, killed: true, code: "session_killed_loop_guard", message: "Stopped." };
const FROZEN: Verdict = { allowed: false, killed: false, code: "session_frozen_by_operator", message: "Wait." };

type Answer = Verdict | Error;

class Scripted implements Transport {
  readonly said: unknown[][] = [];
  readonly calls: ProposedCall[] = [];
  readonly results: [string, Outcome][] = [];
  readonly turns: TurnEvent[] = [];
  readonly opened: SessionInfo[] = [];
  readonly belows: Scripted[] = [];
  turn: Answer = ALLOW;

  constructor(readonly answers: Answer[] = []) {}

  async open(session: SessionInfo): Promise<void> {
    this.opened.push(session);
    this.said.push(["open"]);
  }

  async verdict(call: ProposedCall): Promise<Verdict> {
    this.calls.push(call);
    this.said.push(["verdict", call.callId]);
    const answer = this.answers.shift() ?? ALLOW;
    if (answer instanceof Error) throw answer;
    return answer;
  }

  async turnVerdict(): Promise<Verdict> {
    this.said.push(["turn?"]);
    if (this.turn instanceof Error) throw this.turn;
    return this.turn;
  }

  async result(callId: string, outcome: Outcome): Promise<void> {
    this.results.push([callId, outcome]);
    this.said.push(["result", callId]);
  }

  async event(event: TurnEvent): Promise<void> {
    this.turns.push(event);
  }

  below(): Scripted {
    this.belows.push(new Scripted(this.answers));
    return this.belows.at(-1)!;
  }

  async close(): Promise<void> {
    this.said.push(["close"]);
  }
}

function scripted(answers: Answer[] = [], options: SessionOptions = {}): { session: Session; transport: Scripted; warned: string[] } {
  const transport = new Scripted(answers);
  const warned: string[] = [];
  const session = new Session(transport, { sessionId: "s1", onWarning: (message) => warned.push(message), ...options });
  return { session, transport, warned };
}

async function denied(promise: Promise<unknown>): Promise<Denied> {
  const verdict = (await promise) as Denied;
  assert.equal(verdict.allowed, false);
  return verdict;
}

const REFUSED = (code: string) => (error: unknown) => error instanceof Refused && error.code === code;

test("a call that is allowed is made, and its result reported without secrets", async () => {
  const { session, transport } = scripted([], { effects: { send: "write" }, agentId: "a", goal: "tidy, token=abcdef" });
  const verdict = await session.before("c1", "send", { to: "x", password: "hunter2" }, { targets: ["url=https://u:pw9@h"] });
  assert.ok(verdict.allowed);
  assert.deepEqual(verdict.args, { to: "x", password: "hunter2" });
  assert.equal(verdict.changed, false);
  assert.equal(await session.after("c1", "sent with token=abcdef"), "");
  const [call] = transport.calls;
  assert.deepEqual(call?.args, { to: "x", password: "[redacted:password]" });
  assert.deepEqual(call?.targets, ["url=https://[redacted:url_password]@h"]);
  assert.equal(call?.effect, "write");
  assert.equal(transport.opened[0]?.goal, "tidy, token=[redacted:token]");
  const [[callId, { outcome, output }] = ["", { outcome: "ok" as const, output: undefined }]] = transport.results;
  assert.deepEqual([callId, outcome, output?.head, output?.bytes], ["c1", "ok", "sent with token=[redacted:token]", 22]);
});

test("the session begins once, before its first call, and ends once", async () => {
  const { session, transport } = scripted();
  await Promise.all([session.before("c1", "work"), session.before("c2", "work")]);
  await session.after("c1", "done");
  await session.end();
  await session.end();
  assert.deepEqual(transport.said, [
    ["open"],
    ["verdict", "c1"],
    ["verdict", "c2"],
    ["result", "c1"],
    ["result", "c2"],
    ["close"],
  ]);
  assert.equal(transport.results[1]?.[1].outcome, "unknown", "its result was not reported");
  assert.equal((await denied(session.before("c3", "work"))).code, "not_checked");
});

test("a refused call is denied with the text for the model, and the run goes on", async () => {
  const { session } = scripted([{ ...BLOCK, hints: "Think again." }]);
  const verdict = await denied(session.before("c1", "work"));
  assert.deepEqual([verdict.text, verdict.code], ["scope_creep: Not this.\n\nThink again.", "scope_creep"]);
  assert.equal(verdict.refused.message, "scope_creep: Not this.");
  assert.equal(session.stopped, undefined);
  assert.ok((await session.before("c2", "work")).allowed);
});

test("a request for approval is told", async () => {
  const { session } = scripted([{ ...BLOCK, code: "approval_pending", requestId: "r1", expires: 7 }]);
  assert.deepEqual((await denied(session.before("c1", "work"))).refused.approval, { requestId: "r1", expires: 7 });
});

test("a stopped session throws, also without asking again", async () => {
  const { session, transport } = scripted([KILL]);
  await assert.rejects(session.before("c1", "work"), REFUSED("session_killed_loop_guard"));
  await assert.rejects(session.before("c2", "work"), REFUSED("session_killed_loop_guard"));
  await assert.rejects(session.beforeTurn(), REFUSED("session_killed_loop_guard"));
  assert.equal(session.stopped?.code, "session_killed_loop_guard");
  assert.equal(transport.calls.length, 1);
});

test("a frozen session makes no further turn, and goes on when it is released", async () => {
  const { session, transport } = scripted();
  transport.turn = FROZEN;
  await assert.rejects(session.beforeTurn(), REFUSED("session_frozen_by_operator"));
  assert.equal(session.stopped?.code, "session_frozen_by_operator");
  transport.turn = ALLOW;
  await session.beforeTurn();
  assert.equal(session.stopped, undefined);
});

test("hints come with the result of their call, and those of a failed call with the next one", async () => {
  const { session } = scripted([{ ...ALLOW, hints: "One." }, { ...ALLOW, hints: "Two." }, ALLOW]);
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
  const other: Verdict = { ...ALLOW, changeArguments: { put: { path: "safe" }, remove: ["force"] } };
  const { session } = scripted([other]);
  const verdict = await session.before("c1", "work", { path: "/", force: true, __proto__: null });
  assert.deepEqual(verdict.allowed && { args: verdict.args, changed: verdict.changed }, { args: { path: "safe" }, changed: true });
  const fixed = scripted([other], { changesArguments: false });
  const text = 'This call is only allowed with other arguments: {"path": "safe"}';
  const refused = await denied(fixed.session.before("c1", "work", { path: "/", force: true }));
  assert.deepEqual([refused.text, refused.code], [text, "arguments_not_changed"]);
  assert.equal(fixed.transport.results[0]?.[1].outcome, "error");
});

test("without an answer only what destroys is refused, and what stood holds", async () => {
  const away = new Away("gone");
  const { session, transport, warned } = scripted([away, away, FROZEN, away, away]);
  assert.ok((await session.before("c1", "get_asset")).allowed);
  const refused = await denied(session.before("c2", "delete_asset"));
  assert.equal(refused.text.split(": ")[0], "no_verdict");
  assert.equal(refused.text, "no_verdict: No verdict on this call is available, and it could do harm. Report it instead.");
  assert.equal((await denied(session.before("c3", "work"))).code, "session_frozen_by_operator");
  assert.equal((await denied(session.before("c4", "get_asset"))).code, "session_frozen_by_operator");
  transport.turn = away;
  await assert.rejects(session.beforeTurn(), REFUSED("session_frozen_by_operator"));
  assert.equal(warned.filter((one) => one.includes("no response")).length, 2, "once for each time");
});

test("a contained session that has looked since changes nothing without a response", async () => {
  const away = new Away("gone");
  const contained: Verdict = { ...FROZEN, code: "session_contained_by_operator" };
  const { session, transport } = scripted([contained, ALLOW, away, away, FROZEN, ALLOW, away, ALLOW, away], {
    effects: { save: "write" },
  });
  const code = async (name: string): Promise<string> => {
    const verdict = await session.before(undefined, name);
    return verdict.allowed ? "" : verdict.code;
  };
  assert.equal(await code("save"), "session_contained_by_operator");
  assert.equal(session.stopped, undefined, "it may look, and so go on");
  assert.equal(await code("get_asset"), "");
  await session.beforeTurn();
  assert.equal(await code("save"), "session_contained_by_operator", "no response");
  assert.equal(await code("get_asset"), "", "no response");
  assert.equal(await code("save"), "session_frozen_by_operator");
  assert.equal(await code("get_asset"), "", "no longer frozen");
  assert.equal(await code("save"), "session_contained_by_operator", "no response");
  assert.equal(await code("save"), "", "released");
  assert.equal(await code("save"), "", "no response");
  assert.equal(transport.calls.length, 9);
});

test("where the settings say so, what destroys is made without an answer, or a write refused", async () => {
  const open = scripted([new Away("gone")], { failClosedFrom: null });
  assert.ok((await open.session.before("c1", "delete_asset")).allowed);
  const closed = scripted([new Away("gone")], { failClosedFrom: "write", effects: { save: "write" } });
  assert.equal((await denied(closed.session.before("c1", "save"))).code, "no_verdict");
});

test("whatever fails in here refuses the call", async () => {
  const { session, warned } = scripted([new Error("broken"), new TypeError("broken")]);
  const hostile = {
    get path(): string {
      throw new Error("no");
    },
  };
  for (const args of [{}, '{"path": "a"', hostile]) {
    const verdict = await session.before(undefined, "work", args);
    if (!verdict.allowed) assert.equal(verdict.code, "not_checked");
    else assert.fail("expected a refusal");
  }
  assert.equal((await denied(session.before("c", "work", {}, { effect: "bad" as "read" }))).code, "not_checked");
  assert.equal(warned.length, 4);
  const turn = scripted();
  turn.transport.turn = new Error("broken");
  await assert.rejects(turn.session.beforeTurn(), REFUSED("not_checked"));
});

test("a function is guarded whole", async () => {
  const { session, transport } = scripted([ALLOW, { ...ALLOW, hints: "Think." }, ALLOW, BLOCK, KILL]);
  const work = session.guarded("work", async ({ path }: { path: string }) => {
    if (path === "bad") throw new TypeError("no such path");
    return `done ${path}`;
  });
  assert.equal(await work({ path: "a" }), "done a");
  assert.equal(await work({ path: "b" }), "done b\n\nThink.");
  await assert.rejects(work({ path: "bad" }), /no such path/);
  await assert.rejects(work({ path: "c" }), REFUSED("scope_creep"));
  assert.equal(session.stopped, undefined);
  await assert.rejects(work({ path: "d" }), REFUSED("session_killed_loop_guard"));
  assert.notEqual(session.stopped, undefined);
  const ends = transport.results.map(([, { outcome, error }]) => [outcome, error]);
  assert.deepEqual(ends, [["ok", undefined], ["ok", undefined], ["error", "TypeError: no such path"]]);
});

test("a subagent is a session below, and is stopped with the one above", async () => {
  const { session } = scripted([ALLOW, KILL], { agentId: "a", rootSessionId: "root", parentSessionId: "p" });
  const below = session.subagent({ agentId: "a/b" });
  const verdict = await below.before("c1", "work");
  assert.ok(verdict.allowed);
  await assert.rejects(session.before("c2", "work"), REFUSED("session_killed_loop_guard"));
  await assert.rejects(below.before("c3", "work"), REFUSED("session_killed_loop_guard"));
  await assert.rejects(below.beforeTurn(), REFUSED("session_killed_loop_guard"));
  assert.notEqual(below.sessionId, session.sessionId);
});

test("turns of the model are published with what they used", async () => {
  const { session, transport } = scripted();
  await session.turn({ usage: { inputTokens: 5, outputTokens: 2, cacheReadTokens: 4 }, output: "token=abcdef" });
  assert.deepEqual(transport.turns[0]?.usage, { inputTokens: 5, outputTokens: 2, cacheReadTokens: 4 });
  assert.equal(transport.turns[0]?.output?.head, "token=[redacted:token]");
  assert.deepEqual(transport.said, [["open"]]);
});

test("the same id twice is two calls, and lone surrogates are none", async () => {
  const { session, transport } = scripted();
  await session.before("c1", "work");
  await session.before("c1", "wo\ud83drk", { path: "a\ud83d" });
  assert.deepEqual(transport.results.map(([callId, { outcome }]) => [callId, outcome]), [["c1", "unknown"]]);
  assert.deepEqual([transport.calls[1]?.action, transport.calls[1]?.args], ["wo?rk", { path: "a?" }]);
});

test("errors say what was expected", () => {
  const transport = new Scripted();
  assert.throws(() => new Session(transport, { sessionId: "" }), /sessionId: expected a text of 1 to 256 characters, got ""/);
  assert.throws(() => new Session(transport, { mode: "fast" as "async" }), /mode: expected one of async, blocking, local/);
  assert.throws(() => new Session(transport, { effects: { a: "bad" as "read" } }), /effects\.a: expected one of read/);
  assert.throws(() => new Session(transport, { redactPii: true, digestKey: "" }), /redactPii: expected a digestKey/);
  assert.throws(() => new Session(transport, { maxOutputChars: -1 }), /maxOutputChars: expected a whole number from 0/);
});

test("arguments are an object, or its JSON as the model wrote it", () => {
  assert.deepEqual(argumentsOf('{"a": 1}'), { a: 1 });
  assert.deepEqual(argumentsOf(""), {});
  assert.deepEqual(argumentsOf(undefined), {});
  assert.deepEqual(argumentsOf("[1]"), { arguments: [1] });
  assert.deepEqual(argumentsOf('{"a"'), { arguments: '{"a"' });
  assert.deepEqual(argumentsOf(7), { arguments: 7 });
});

test("large inputs take time in proportion to their size", async () => {
  const { session } = scripted();
  const inputs = ["password=", "a:b@", "://", "-----BEGIN PRIVATE KEY-----", "curl -u ", "a.".repeat(9) + "@", "ab_", "4111 ", '\\"'];
  for (const input of inputs) {
    const text = input.repeat(Math.ceil(200_000 / input.length));
    const verdict = await session.before(undefined, "work", { text });
    assert.ok(verdict.allowed);
    await session.after(verdict.callId, text);
  }
});

test("a target that an entry names is seen in large arguments, and leaves the process without secrets", async () => {
  const { session, transport } = scripted();
  const path = `/srv/${"long/".repeat(20)}report`;
  const password = `hunter2${"x".repeat(30)}`;
  const others = { n: 7, big: 2n ** 70n, whole: true, part: 0.5, none: null, list: ["a"], long: "y".repeat(513) };
  const args = { ...others, path, password, content: Array.from({ length: 300 }, () => "z".repeat(100)) };
  await session.before("c1", "write_file", args, { targets: [`key=AKIAIOSFODNN7EXAMPLE ${"k".repeat(600)}`] });
  await session.before("c2", "write_file", { path, password });
  const [large, small] = transport.calls;
  assert.ok(large && small);
  const simple = ["n=7", "big=1180591620717411303424", "whole=True", `path=${path}`, `password=${password}`];
  assert.deepEqual(large.matchTargets(), [`key=AKIAIOSFODNN7EXAMPLE ${"k".repeat(600)}`, ...simple]);
  assert.notEqual(large.args["path"], path);
  assert.deepEqual(large.cutTargets(), [`path=${path}`]);
  assert.ok(!JSON.stringify([...large.cutTargets(), large]).includes("hunter2"));
  assert.deepEqual([small.unreadFrom, small.cutTargets()], [undefined, []]);
});

test("of more targets than can be told none is left out in silence", async () => {
  const { session, transport } = scripted([], { maxArgsBytes: 0 });
  const args = Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`name${at}`, at]));
  await session.before("c1", "write_file", { ...args, content: "x".repeat(300_000) });
  assert.throws(() => transport.calls[0]?.cutTargets(), /expected at most 1000 simple arguments that are cut, got 1001/);
});

const TOKEN = `gh${"p_"}aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzZ12`;

test("a secret that a result or an error brought in is told where a call sends it, also from a session below", async () => {
  const { session, transport } = scripted([], { digestKey: "k" });
  const subagent = session.subagent();
  const sent = async (args: Record<string, string>): Promise<unknown> => {
    await session.before(undefined, "http_post", args);
    return transport.calls.at(-1)?.secretsSent;
  };
  const base64 = { url: "https://example.org", body: Buffer.from(`use ${TOKEN}`).toString("base64") };
  assert.equal(await sent(base64), undefined);
  await session.before("c1", "run", { command: "deploy" });
  await session.failed("c1", new Error(`refused: ${TOKEN}`));
  const told = (await sent(base64)) as { digest: string }[];
  assert.deepEqual(told, [{ kind: "github_token", digest: told[0]?.digest, elsewhere: true }]);
  assert.match(told[0]?.digest ?? "", /^[0-9a-f]{8}$/);
  assert.equal(await sent({ url: "https://api.github.com/user", authorization: TOKEN }), undefined);
  await subagent.before(undefined, "http_post", base64);
  assert.deepEqual(transport.belows[0]?.calls[0]?.secretsSent, told);
  assert.ok(!JSON.stringify(transport.calls).includes(TOKEN));
});
