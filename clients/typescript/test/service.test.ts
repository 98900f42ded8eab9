/** The service over HTTP: what it sends, when it asks again, and what it makes of answers that are none. */

import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import { HttpService, httpSession, Refused, type ServiceOptions, type Session, type SessionOptions } from "../src/index.js";

interface Asked {
  path: string;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
}

/** What is answered to one request: a status and JSON, or whatever it does with the response. */
type Reply = [status: number, body: unknown] | ((response: ServerResponse) => void);

const ALLOWED: Reply = [200, { allowed: true, killed: false }];
const BUSY: Reply = [503, { errors: ["expected at most 256 requests at a time, got one more"] }];

interface Served {
  url: string;
  asked: Asked[];
  of(path: string): Asked[];
  session(options?: ServiceOptions & SessionOptions): Session;
  warned: string[];
}

/** A server that answers from a list; then it allows everything. */
async function served(t: TestContext, replies: Reply[]): Promise<Served> {
  const asked: Asked[] = [];
  const warned: string[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>;
      asked.push({ path: request.url ?? "", headers: request.headers, body });
      const reply = request.url?.endsWith("/v1/verdict") ? (replies.shift() ?? ALLOWED) : ([200, {}] as const);
      if (typeof reply === "function") return reply(response);
      response.writeHead(reply[0], { "Content-Type": "application/json" }).end(JSON.stringify(reply[1]));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    asked,
    of: (path) => asked.filter((one) => one.path === path),
    session: (options = {}) =>
      httpSession({ url, sessionId: "s1", agentId: "a", onWarning: (message) => warned.push(message), ...options }),
    warned,
  };
}

async function codeOf(session: Session, name = "work", args: unknown = {}): Promise<string> {
  const verdict = await session.before(undefined, name, args);
  return verdict.allowed ? "" : verdict.code;
}

test("each request has the token and a key of its own", async (t) => {
  const { session: make, asked } = await served(t, []);
  const session = make({ token: "abc" });
  await session.before("c1", "send");
  await session.after("c1", "a\ud83d");
  await session.end();
  assert.deepEqual(asked.map(({ path }) => path), ["/v1/start", "/v1/verdict", "/v1/result", "/v1/end"]);
  assert.ok(asked.every(({ headers }) => headers.authorization === "Bearer abc"));
  assert.equal(new Set(asked.map(({ headers }) => headers["idempotency-key"])).size, asked.length);
  assert.equal(asked[1]?.headers["prefer"], "wait=5");
  assert.equal(asked[2]?.body["output"], "a\ufffd", "lone surrogates are not sent");
});

test("what was not answered is asked again with the same key", async (t) => {
  const { session: make, of } = await served(t, [BUSY, (response) => response.destroy(), [502, "a gateway"], ALLOWED]);
  assert.equal(await codeOf(make(), "delete_asset"), "");
  const keys = of("/v1/verdict").map(({ headers, body }) => [headers["idempotency-key"], body["call_id"]].join());
  assert.deepEqual([keys.length, new Set(keys).size], [4, 1]);
});

test("a verdict that a person is asked for is waited for", async (t) => {
  const waiting: Reply = [202, { waiting: true }];
  const killed = { allowed: false, killed: false, code: "rejected", message: "No.", request_id: "r1", expires: 9, hints: "h" };
  const { session: make, of } = await served(t, [waiting, waiting, [200, killed]]);
  const verdict = await make({ budgetMs: 100 }).before("c1", "work");
  assert.ok(!verdict.allowed);
  assert.deepEqual([verdict.text, verdict.refused.approval], ["No.\n\nh", { requestId: "r1", expires: 9 }]);
  assert.equal(of("/v1/verdict").length, 3);
});

test("a call that is still undecided is not made, whatever it does", async (t) => {
  const waiting: Reply = [202, { waiting: true }];
  for (const [name, effect] of [["delete_asset"], ["work", "write"], ["bash", "exec"], ["get_asset", "read"]] as const) {
    const late = await served(t, Array.from({ length: 50 }, () => waiting));
    const options = { approvalWaitMs: 60, whenDown: "all" as const, ...(effect === undefined ? {} : { effects: { [name]: effect } }) };
    const verdict = await late.session(options).before("c1", name, {});
    assert.ok(!verdict.allowed);
    assert.match(verdict.text, /^haltline did not make this call: it is not decided yet/);
    assert.match(late.warned.join(), /no verdict: .* has not decided within 60 ms/);

    for (const goes of [BUSY, (response: ServerResponse) => void response.destroy()] as Reply[]) {
      const gone = await served(t, [waiting, ...Array.from({ length: 50 }, () => goes)]);
      assert.equal(await codeOf(gone.session({ ...options, approvalWaitMs: 60_000, budgetMs: 100 }), name), "approval_pending");
      assert.ok(gone.of("/v1/verdict").length >= 2);
    }
  }
});

test("nobody there: what reads is made, the rest is refused, and little time is lost", async () => {
  const warned: string[] = [];
  const session = httpSession({ url: "http://127.0.0.1:9", budgetMs: 300, onWarning: (message) => warned.push(message) });
  assert.equal(await codeOf(session, "get_asset"), "");
  assert.equal(await codeOf(session, "delete_asset"), "no_verdict");
  await session.beforeTurn();
  await session.end();
  assert.ok(warned.some((one) => one.includes("no response: http://127.0.0.1:9 within 300 ms: ")), warned.join("\n"));
});

test("who takes the request and never answers is nobody", async (t) => {
  const { session: make, of } = await served(t, [() => undefined, () => undefined]);
  assert.equal(await codeOf(make({ budgetMs: 100 }), "delete_asset"), "no_verdict");
  assert.equal(of("/v1/verdict").length, 1);
});

for (const [what, reply, said] of [
  ["a wrong token", [401, { errors: ["Authorization: expected the bearer token"] }], "401: Authorization: expected"],
  ["a field that is wrong", [400, { errors: ["mode: expected async or blocking"] }], "400: mode: expected async"],
  ["a failure of the intake", [500, "no"], "answered 500"],
  ["an answer that is no verdict", [200, { ok: true }], "expected a verdict, got none"],
  ["an answer that is no JSON", (response) => void response.end("<html>"), "expected an object in JSON"],
  ["a redirect", (response) => void response.writeHead(307, { Location: "http://127.0.0.1:9/" }).end(), "answered 307"],
] as [string, Reply, string][]) {
  test(`${what} lets no call pass`, async (t) => {
    const { session: make, warned } = await served(t, [reply, reply]);
    const session = make();
    assert.equal(await codeOf(session, "get_asset"), "not_checked");
    await assert.rejects(session.beforeTurn(), (error) => error instanceof Refused && error.code === "not_checked");
    assert.ok(warned.some((one) => one.includes(said)), warned.join("\n"));
  });
}

test("an answer without end is not read to its end", async (t) => {
  const flood = (response: ServerResponse) => {
    response.on("error", () => undefined);
    const write = () => {
      while (!response.destroyed && response.write("x".repeat(65_536)));
      response.once("drain", write);
    };
    write();
  };
  const { session: make, warned } = await served(t, [flood, flood, flood, flood]);
  assert.equal(await codeOf(make({ budgetMs: 10 }), "delete_asset"), "no_verdict");
  assert.ok(warned.some((one) => one.includes("expected an answer of at most 4194304 bytes, got more")), warned.join("\n"));
});

test("a subagent's session says whose it is", async (t) => {
  const { url, asked } = await served(t, []);
  const session = httpSession({ url, sessionId: "s1", agentId: "a" });
  const below = session.subagent({ sessionId: "s2", agentId: "a/b" }).subagent({ sessionId: "s3" });
  await below.before("c1", "work");
  assert.deepEqual(asked.map(({ path, body }) => [path, body["session_id"]]), [
    ["/v1/start", "s1"],
    ["/v1/start", "s2"],
    ["/v1/start", "s3"],
    ["/v1/verdict", "s3"],
  ]);
  const { agent_id, parent_session_id, root_session_id, ancestors } = asked[3]?.body ?? {};
  assert.deepEqual([agent_id, parent_session_id, root_session_id, ancestors], ["a/b", "s2", "s1", ["s2", "s1"]]);
});

test("options that cannot work are said at once", () => {
  for (const url of ["ftp://127.0.0.1", "https://intake.example.com", "http://10.0.0.7:8765", "http://127.0.0.1.example.com", undefined]) {
    assert.throws(() => httpSession({ url }), /url: expected the address of haltline agent --listen on this machine/);
  }
  for (const url of ["http://localhost:1", "http://[::1]:1", "http://127.0.0.2:1"]) httpSession({ url });
  assert.throws(() => new HttpService({ url: "http://127.0.0.1", token: "a\nb" }), /token: expected the text of a bearer token/);
  assert.throws(() => new HttpService({ url: "http://127.0.0.1", budgetMs: -1 }), /budgetMs: expected milliseconds from 0/);
});
