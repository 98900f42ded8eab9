/** Calls that are made once: by a key, or by the names of their arguments. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { CallOptions, Session } from "../src/index.js";
import { Results } from "../src/once.js";
import { ALLOWED, BLOCKED, KILLED, Scripted } from "./scripted.js";

/** The outcome of a call for each of these arguments, whose results are counted. */
async function outcomes(session: Session, options: CallOptions, ...several: Record<string, unknown>[]): Promise<unknown[]> {
  let made = 0;
  const all = [];
  for (const args of several) all.push((await session.run("send", args, () => ({ made: ++made }), options)).made);
  return all;
}

test("calls with an equal key, or equal in the named arguments, are made once", async () => {
  const service = new Scripted();
  const session = service.session();
  assert.deepEqual(await outcomes(session, { key: "k1" }, { to: "a" }, { to: "b" }), [1, 1]);
  assert.deepEqual(service.said, ["call send", "result send ok"], "nobody is asked about a call that is not made");
  assert.deepEqual(await outcomes(session, { key: "k2" }, {}), [1]);
  const orders = [{ order: { id: 1, of: "a" } }, { order: { of: "a", id: 1 }, note: "again" }, { order: { id: 2, of: "a" } }];
  assert.deepEqual(await outcomes(session, { once: ["order"] }, ...orders), [1, 1, 2]);
  const circle: Record<string, unknown> = {};
  circle["order"] = circle;
  assert.deepEqual(await outcomes(session, { once: ["order"] }, circle, circle), [1, 2], "these cannot be compared");
});

test("a result is a copy, and one that was changed later is returned as it was", async () => {
  const session = new Scripted().session();
  const first = await session.run("list", {}, () => ["a"], { key: "k" });
  first.push("b");
  (await session.run("list", {}, () => [""], { key: "k" })).push("c");
  assert.deepEqual(await session.run("list", {}, () => [""], { key: "k" }), ["a"]);
});

test("a call that failed, was refused or was changed is made again", async () => {
  const other = { ...ALLOWED, change_arguments: { put: { to: "b" }, remove: [] } };
  const session = Scripted.of(ALLOWED, BLOCKED, other).session({ changesArguments: false });
  const send = () => session.run("send", {}, () => "sent", { key: "k" });
  await assert.rejects(session.run("send", {}, () => Promise.reject(new Error("away")), { key: "k" }), /away/);
  await assert.rejects(send(), /Not this/);
  await assert.rejects(send(), /only allowed with other arguments/);
  assert.equal(await send(), "sent");
});

test("while a call runs, an equal one is refused, and one whose end was not reported is made again", async () => {
  const session = new Scripted().session();
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

test("a stopped session gets no earlier result", async () => {
  const session = Scripted.of(ALLOWED, KILLED).session();
  assert.deepEqual(await outcomes(session, { key: "k" }, {}, {}), [1, 1]);
  await assert.rejects(session.before("c", "work"), /Stopped/);
  await assert.rejects(outcomes(session, { key: "k" }, {}), /Stopped/);
});

test("a result is kept for its time, and a key is a text", async () => {
  const results = new Results(2);
  assert.equal(results.begin("k", 0), undefined);
  results.end("k", { value: 1, atMs: 1000 });
  assert.deepEqual(results.begin("k", 3000), { value: 1, atMs: 1000 });
  assert.equal(results.begin("k", 3001), undefined);
  const verdict = await new Scripted().session().before("c1", "send", {}, { key: 1 as unknown as string });
  assert.ok(!verdict.allowed && verdict.code === "not_checked");
});
