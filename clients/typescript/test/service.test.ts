/** The service over HTTP: what it sends, when it asks again, and what it makes of answers that are none. */

import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import { unlikeRelease, withWhatToRun } from "../src/release.js";
import { HttpService, httpSession, Refused, type ServiceOptions, type Session, type SessionOptions } from "../src/index.js";

interface Asked {
  path: string;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
}

/** What is answered to one request: a status and JSON, or whatever it does with the response. */
type Reply = [status: number, body: unknown] | ((response: ServerResponse) => void);

const ALLOWED: Reply = [200, { answer: "allow" }];
const PENDING: Reply = [200, { answer: "pending" }];
const BEGUN = { token: "t", protocol: 1, release: "1.0.0", answer: "allow" };
const BUSY: Reply = [503, { errors: ["expected at most 256 requests at a time, got one more"] }];

interface Served {
  url: string;
  asked: Asked[];
  of(path: string): Asked[];
  session(options?: ServiceOptions & SessionOptions): Session;
  warned: string[];
}

/** A server that answers from a list; then it allows everything. */
async function served(t: TestContext, replies: Reply[], begun: object = BEGUN): Promise<Served> {
  const asks = (path: string | undefined, body: Record<string, unknown>) => path === "/v2/propose" || body["asks"] === true;
  const asked: Asked[] = [];
  const warned: string[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>;
      asked.push({ path: request.url ?? "", headers: request.headers, body });
      const reply = request.url === "/v2/begin" ? ([200, begun] as const) : asks(request.url, body) ? (replies.shift() ?? ALLOWED) : ALLOWED;
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

test("each request has the key, and each but the first the session's token", async (t) => {
  const { session: make, asked } = await served(t, []);
  const session = make({ token: "abc" });
  await session.before("c1", "send");
  await session.after("c1", "a\ud83d");
  await session.end();
  assert.deepEqual(asked.map(({ path }) => path), ["/v2/begin", "/v2/propose", "/v2/end", "/v2/close"]);
  assert.ok(asked.every(({ headers }) => headers.authorization === "Bearer abc"));
  assert.deepEqual(asked.map(({ body }) => body["token"]), [undefined, "t", "t", "t"]);
  assert.equal(asked[1]?.body["wait_s"], 5);
  assert.equal(asked[2]?.body["output"], "a\ufffd", "lone surrogates are not sent");
});

test("what was not answered is asked again as the same call, and a turn is reported once", async (t) => {
  const { session: make, of } = await served(t, [BUSY, (response) => response.destroy(), [502, "a gateway"], ALLOWED]);
  assert.equal(await codeOf(make(), "delete_asset"), "");
  const ids = of("/v2/propose").map(({ body }) => body["call_id"]);
  assert.deepEqual([ids.length, new Set(ids).size], [4, 1]);
  let turns = 0;
  const server = createServer((request, response) => (request.url === "/v2/turn" ? (turns++, response.destroy()) : response.end(JSON.stringify(BEGUN))));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const session = httpSession({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, onWarning: () => undefined });
  await session.turn({ output: "Done." });
  assert.equal(turns, 1, "it may have arrived");
});

test("a session that the service does not know any more begins again", async (t) => {
  const gone: Reply = [401, { errors: ["token: expected one that begin has returned and whose lease lasts, got another"] }];
  const { session: make, asked } = await served(t, [ALLOWED, gone, ALLOWED]);
  const session = make();
  for (const id of ["c1", "c1"]) assert.ok((await session.before(id, "send")).allowed);
  assert.deepEqual(asked.map(({ path }) => path.slice(4)), ["begin", "propose", "propose", "begin", "propose"]);
  const [first, second, again] = asked.filter(({ path }) => path === "/v2/propose").map(({ body }) => body["call_id"]);
  assert.deepEqual([first, second === again, String(second).startsWith("c1-")], ["c1", true, true], "another call with its id");
});

test("a poll that is slowed is proposed again after its pause", async (t) => {
  const { session: make, of } = await served(t, [[200, { answer: "wait", wait_ms: 20 }]]);
  assert.equal(await codeOf(make(), "get_state"), "");
  assert.equal(of("/v2/propose").length, 2);
});

test("what to run is said where the service is of another release", async (t) => {
  for (const [own, theirs, run] of [
    ["1.2.0", "1.2.9", undefined],
    ["1.2.0", "1.10.0.dev3", "npm install haltline@1.10"],
    ["2.0.1", "1.9.0", "pip install 'haltline[intake]==2.0.*'"],
    ["0.0.0", "1.0.0", undefined],
  ] as const) {
    assert.equal(unlikeRelease(own, theirs)?.split("run: ")[1], run);
  }
  const { session: make, warned } = await served(t, [[404, { errors: ["expected POST /v2/propose, got POST /v2/propose"] }]]);
  assert.equal(await codeOf(make()), "not_checked");
  assert.match(warned.join(), /older than this package; run: pip install --upgrade/);
  assert.match(withWhatToRun(400, "protocol: expected 0 of this release (0.9), got 1"), /run: pip install --upgrade/);
  assert.match(withWhatToRun(400, "protocol: expected 2 of this release (2.0), got 1"), /run: npm install haltline@latest/);
  assert.equal(withWhatToRun(404, "call_id: expected another"), "call_id: expected another");
});

test("a session that was stopped before is stopped at its beginning", async (t) => {
  const { session: make } = await served(t, [], { ...BEGUN, answer: "stop", code: "session_killed_by_operator", message: "Stopped." });
  const session = make();
  await session.prompt("go on");
  assert.equal(session.stopped?.code, "session_killed_by_operator");
});

test("a verdict that a person is asked for is waited for", async (t) => {
  const rejected = { answer: "refuse", code: "rejected", message: "No.", request_id: "r1", expires: 9, hints: "h" };
  const { session: make, of } = await served(t, [PENDING, PENDING, [200, rejected]]);
  const verdict = await make({ budgetMs: 100 }).before("c1", "work");
  assert.ok(!verdict.allowed);
  assert.deepEqual([verdict.text, verdict.refused.approval], ["No.\n\nh", { requestId: "r1", expires: 9 }]);
  assert.equal(of("/v2/propose").length, 3);
});

test("a call that is still undecided is not made, whatever it does", async (t) => {
  for (const [name, effect] of [["delete_asset"], ["work", "write"], ["bash", "exec"], ["get_asset", "read"]] as const) {
    const late = await served(t, Array.from({ length: 50 }, () => PENDING));
    const options = { approvalWaitMs: 60, whenDown: "all" as const, ...(effect === undefined ? {} : { effects: { [name]: effect } }) };
    const verdict = await late.session(options).before("c1", name, {});
    assert.ok(!verdict.allowed);
    assert.match(verdict.text, /^haltline did not make this call: it is not decided yet/);
    assert.match(late.warned.join(), /no verdict: .* has not decided within 60 ms/);

    for (const goes of [BUSY, (response: ServerResponse) => void response.destroy()] as Reply[]) {
      const gone = await served(t, [PENDING, ...Array.from({ length: 50 }, () => goes)]);
      assert.equal(await codeOf(gone.session({ ...options, approvalWaitMs: 60_000, budgetMs: 100 }), name), "approval_pending");
      assert.ok(gone.of("/v2/propose").length >= 2);
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
  assert.equal(of("/v2/propose").length, 1);
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
  const begun = asked.filter(({ path }) => path === "/v2/begin");
  assert.deepEqual(begun.map(({ body }) => body["session_id"]), ["s1", "s2", "s3"]);
  const { agent_id, parent_session_id, root_session_id, ancestors } = begun[2]?.body ?? {};
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
