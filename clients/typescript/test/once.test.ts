/** Calls that are made once: by a key, or by the names of their arguments. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { type CallOptions, Session, type SessionOptions, type Transport, type Verdict } from "../src/index.js";
import { Results } from "../src/once.js";

const ALLOW: Verdict = { allowed: true, killed: false };
const BLOCK: Verdict = { allowed: false, killed: false, code: "scope_creep", message: "Not this." };

function opened(options: SessionOptions = {}, more: Partial<Transport> = {}) {
  const said: string[] = [];
  const transport: Transport = {
    open: async () => {},
    verdict: async () => (said.push("asked"), ALLOW),
    turnVerdict: async () => ALLOW,
    result: async () => {},
    event: async () => {},
    below: () => transport,
    close: async () => {},
    ...more,
  };
  return { said, session: new Session(transport, options) };
}

/** The outcome of a call for each of these arguments, whose results are counted. */
async function outcomes(session: Session, options: CallOptions, ...several: Record<string, unknown>[]): Promise<unknown[]> {
  let made = 0;
  const all = [];
  for (const args of several) all.push((await session.run("send", args, () => ({ made: ++made }), options)).made);
  return all;
}

test("calls with an equal key, or equal in the named arguments, are made once", async () => {
  const { session, said } = opened();
  assert.deepEqual(await outcomes(session, { key: "k1" }, { to: "a" }, { to: "b" }), [1, 1]);
  assert.deepEqual(said, ["asked"], "nobody is asked about a call that is not made");
  assert.deepEqual(await outcomes(session, { key: "k2" }, {}), [1]);
  const orders = [{ order: { id: 1, of: "a" } }, { order: { of: "a", id: 1 }, note: "again" }, { order: { id: 2, of: "a" } }];
  assert.deepEqual(await outcomes(session, { once: ["order"] }, ...orders), [1, 1, 2]);
  const circle: Record<string, unknown> = {};
  circle["order"] = circle;
  assert.deepEqual(await outcomes(session, { once: ["order"] }, circle, circle), [1, 2], "these cannot be compared");
});

test("a result is a copy, and one that was changed later is returned as it was", async () => {
  const { session } = opened();
  const first = await session.run("list", {}, () => ["a"], { key: "k" });
  first.push("b");
  (await session.run("list", {}, () => [""], { key: "k" })).push("c");
  assert.deepEqual(await session.run("list", {}, () => [""], { key: "k" }), ["a"]);
});

test("a call that failed, was refused or was changed is made again", async () => {
  const answers: Verdict[] = [ALLOW, BLOCK, { ...ALLOW, changeArguments: { put: { to: "b" }, remove: [] } }];
  const { session } = opened({ changesArguments: false }, { verdict: async () => answers.shift() ?? ALLOW });
  const send = () => session.run("send", {}, () => "sent", { key: "k" });
  await assert.rejects(session.run("send", {}, () => Promise.reject(new Error("away")), { key: "k" }), /away/);
  await assert.rejects(send(), /scope_creep/);
  await assert.rejects(send(), /arguments_not_changed/);
  assert.equal(await send(), "sent");
});

test("while a call runs, an equal one is refused, and one whose end was not reported is made again", async () => {
  const { session } = opened();
  const [first, second] = await Promise.all([1, 2].map(() => session.before("c1", "send", {}, { key: "k" })));
  assert.equal(first?.allowed, true);
  assert.ok(second?.allowed === false && second.code === "idempotency_in_flight");
  await session.before("c1", "other"); // the server has numbered again: the first one counts as lost
  const again = await session.before("c2", "send", {}, { key: "k" });
  assert.ok(again.allowed && again.replayed === undefined);
  await session.after("c2", "sent");
  const third = await session.before("c3", "send", {}, { key: "k" });
  assert.deepEqual(third.allowed && third.replayed, { value: "sent" });
});

test("a restriction in force comes first, and after a rollback the call is made again", async () => {
  let standing: Verdict | undefined;
  let rollbacks = 0;
  const told: string[] = [];
  const { session } = opened({}, {
    rollbacks: async () => rollbacks,
    notMade: async (_, code) => (told.push(code), standing),
  });
  assert.deepEqual(await outcomes(session, { key: "k" }, {}, {}), [1, 1]);
  standing = BLOCK;
  await assert.rejects(outcomes(session, { key: "k" }, {}), /scope_creep/);
  standing = undefined;
  rollbacks = 1;
  assert.deepEqual(await outcomes(session, { key: "k" }, {}, {}), [1, 1]);
  assert.deepEqual(told, ["idempotent_replay", "idempotent_replay", "idempotent_replay"]);
});

test("a result is kept for its time, and invalid options are refused", async () => {
  const results = new Results(2);
  assert.equal(results.begin("k", 0, 0), undefined);
  results.end("k", { value: 1, atMs: 1000 });
  assert.deepEqual(results.begin("k", 3000, 0), { value: 1, atMs: 1000 });
  assert.equal(results.begin("k", 3001, 0), undefined);
  assert.throws(() => opened({ keyTtlS: 0 }), RangeError);
  const verdict = await opened().session.before("c1", "send", {}, { key: 1 as unknown as string });
  assert.ok(!verdict.allowed && verdict.code === "not_checked");
});
