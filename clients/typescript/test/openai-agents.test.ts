/** What the conformance suite has not: approvals, timeouts, guardrails, MCP servers and agents as tools of the SDK. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Agent, type MCPServer, Runner, tool, ToolCallError, webSearchTool } from "@openai/agents";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents/testing";
import { z } from "zod";

import { guarded, guardedTools } from "../src/openai-agents.js";
import { Refused } from "../src/refused.js";
import { ALLOWED, BLOCKED, type Call, KILLED, Scripted } from "./scripted.js";

const work = { name: "work", args: { path: "a" } };
const CHANGED = { ...ALLOWED, change_arguments: { put: { path: "safe" }, remove: [] } };
const tracingDisabled = true;

/** A model whose turns are these calls and then "the end". */
function model(...script: Call[][]): ScriptedModel {
  const turn = (calls: Call[], at: number) => calls.map(({ name, args = {} }, n) => functionCall(name, args as Record<string, unknown>, { callId: `c${at}${n}` }));
  return new ScriptedModel([...script.map(turn), [assistantMessage("the end")]]);
}

/** What the model read of its calls. */
function read(model: ScriptedModel): string[] {
  const input = model.lastCall?.request.input ?? [];
  return (typeof input === "string" ? [] : input).flatMap((item: any) => (item.type === "function_call_result" ? [item.output.text ?? item.output] : []));
}

/** A tool that remembers what it was called with. */
function worker(ran: string[] = [], more: object = {}) {
  return tool({ name: "work", description: "works", parameters: z.object({ path: z.string() }), execute: async ({ path }) => (ran.push(path), `done ${path}`), ...more });
}

function run(agent: Agent<any, any>, session = new Scripted().session()) {
  return new Runner(guarded({ tracingDisabled }, session)).run(agent, "go");
}

const calls = (transport: Scripted) => transport.said.filter((one) => !one.startsWith("turn"));

test("a call that a person has approved is asked about then, and refused in a stopped session", async () => {
  for (const [decision, ran] of [[ALLOWED, ["a"]], [CHANGED, ["safe"]], [BLOCKED, []], [KILLED, []]] as const) {
    const seen: string[] = [];
    const transport = new Scripted(() => decision);
    const session = transport.session();
    const agent = new Agent(guarded({ name: "a", model: model([work]), tools: [worker(seen, { needsApproval: true })] }, session));
    const { state, interruptions } = await run(agent, session);
    assert.deepEqual(transport.calls, [], "not before the person has answered");
    for (const one of interruptions) state.approve(one);
    const resumed = new Runner({ tracingDisabled }).run(agent, state);
    if (decision === KILLED) await assert.rejects(resumed, (error) => error instanceof ToolCallError && error.error instanceof Refused);
    else await resumed;
    assert.deepEqual([seen, transport.calls.length], [ran, 1]);
  }
});

test("a stopped session gets no turn, of a model by its name or by itself, once or streamed", async () => {
  for (const stream of [false, true]) {
    const scripted = model();
    const session = new Scripted().session();
    session.beforeTurn = async () => {
      throw new Refused("session_killed_loop_guard", "Stopped.");
    };
    const runner = new Runner(guarded({ tracingDisabled, modelProvider: { getModel: () => scripted } }, session));
    for (const named of ["named", scripted]) {
      const agent = new Agent(guarded({ name: "a", model: named }, session));
      const result = stream ? runner.run(agent, "go", { stream }).then((one) => one.completed) : runner.run(agent, "go");
      await assert.rejects(result, Refused);
    }
    assert.equal(scripted.calls.length, 0);
  }
});

test("a model is asked about once, whoever is guarded twice", async () => {
  const transport = new Scripted();
  const session = transport.session();
  const scripted = model([work]);
  const agent = new Agent(guarded(guarded({ name: "a", model: "named", tools: guardedTools([worker()], session) }, session), session));
  await new Runner(guarded(guarded({ tracingDisabled, modelProvider: { getModel: () => scripted } }, session), session)).run(agent, "go");
  assert.deepEqual(transport.said, ["turn 0+0", "call work", "result work ok", "turn 0+0 the end"]);
});

test("the wait for a verdict is no part of a tool's time", async () => {
  const ran: string[] = [];
  const transport = new Scripted(() => new Promise((resolve) => setTimeout(resolve, 50, ALLOWED)));
  await run(new Agent(guarded({ name: "a", model: model([work]), tools: [worker(ran, { timeoutMs: 20 })] }, transport.session())));
  assert.deepEqual(ran, ["a"]);
});

test("a tool's error is reported, as the SDK says it to the model or as it ends the run", async () => {
  const execute = () => {
    throw new Error("no such path");
  };
  const transport = new Scripted();
  const [tells, throws] = [worker([], { execute }), worker([], { execute, errorFunction: null })];
  const scripted = model([work]);
  await run(new Agent(guarded({ name: "a", model: scripted, tools: [tells] }, transport.session())));
  await assert.rejects(run(new Agent(guarded({ name: "a", model: model([work]), tools: [throws] }, transport.session()))), /no such path/);
  const ends = transport.asked.filter(([path]) => path === "/v1/result").map(([, { error }]) => error);
  assert.deepEqual(ends, [`ToolFailed: ${read(scripted)[0]}`, "Error: no such path"]);
});

test("the guardrails of the program come first: what they reject is not asked about, and they see no result of a refused call", async () => {
  const seen: unknown[] = [];
  const rejects = { name: "own", run: async () => ({ behavior: { type: "rejectContent", message: "no" } }) };
  const looks = { name: "own", run: async ({ output }: { output: unknown }) => (seen.push(output), { behavior: { type: "allow" } }) };
  const transport = new Scripted(() => BLOCKED);
  for (const more of [{ inputGuardrails: [rejects] }, { outputGuardrails: [looks] }]) {
    await run(new Agent(guarded({ name: "a", model: model([work]), tools: [worker([], more)] }, transport.session())));
  }
  assert.deepEqual([calls(transport), seen], [["call work"], []]);
});

test("hints wait for the next call where a result is no text", async () => {
  const transport: Scripted = new Scripted(() => ({ ...ALLOWED, hints: `Hint ${transport.calls.length}.` }));
  const counts = tool({ name: "count", description: "counts", parameters: z.object({}), execute: () => ({ rows: 42 }) });
  const scripted = model([{ name: "count" }], [work]);
  await run(new Agent(guarded({ name: "a", model: scripted, tools: [counts, worker()] }, transport.session())));
  assert.deepEqual(read(scripted), ['{"rows":42}', "done a\n\nHint 1.\nHint 2."]);
});

test("calls of an MCP server are checked with its own names, and a refusal is their result", async () => {
  const ran: unknown[] = [];
  class Server {
    #calls = 0; // only the server itself can read it
    name = "files";
    cacheToolsList = false;
    async connect() {}
    async close() {}
    async invalidateToolsCache() {}
    async listTools() {
      return [{ name: "work", inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"], additionalProperties: false } }];
    }
    async callTool(name: string, args: unknown) {
      ran.push([name, args, ++this.#calls]);
      return [{ type: "text", text: "done" }];
    }
  }
  const transport = Scripted.of(BLOCKED, { ...CHANGED, hints: "Think again." });
  const session = transport.session();
  const scripted = model([work], [work], [work]);
  const agent = new Agent(guarded({ name: "a", model: scripted, mcpServers: [new Server() as unknown as MCPServer] }, session));
  await run(agent, session);
  assert.deepEqual(ran, [["work", { path: "safe" }, 1], ["work", { path: "a" }, 2]]);
  assert.match(JSON.stringify(read(scripted)[0]), /"Not this\."/);
  assert.deepEqual(calls(transport), ["call work", "call work", "result work ok", "call work", "result work ok"]);
});

test("an agent that is a tool counts its turns and calls in its own session", async () => {
  const transport = new Scripted();
  const session = transport.session({ sessionId: "above" });
  const below = session.subagent({ sessionId: "below" });
  const inner = new Agent(guarded({ name: "inner", model: "inner", tools: [worker()] }, below));
  const models: Record<string, ScriptedModel> = { inner: model([work]), outer: model([{ name: "ask", args: { input: "go" } }]) };
  const modelProvider = { getModel: (name?: string) => models[name ?? ""] as ScriptedModel };
  const ask = inner.asTool({ toolName: "ask", toolDescription: "asks", runConfig: guarded({ modelProvider }, below) });
  const outer = new Agent(guarded({ name: "outer", model: "outer", tools: [ask] }, session));
  await new Runner(guarded({ tracingDisabled, modelProvider }, session)).run(outer, "go");
  assert.deepEqual(transport.calls.map(({ action, session_id }) => [action, session_id]), [["ask", "above"], ["work", "below"]]);
  const turns = transport.asked.filter(([path]) => path === "/v1/turn").map(([, { session_id }]) => session_id);
  assert.deepEqual(turns, ["above", "below", "below", "above"]);
});

test("a session that breaks lets no call pass, nor does a runner that asks no guardrail", async () => {
  const ran: string[] = [];
  const given = new AbortController();
  const transport: Scripted = new Scripted(() => (transport.calls.length === 1 ? BLOCKED : (given.abort(), ALLOWED)));
  const session = transport.session();
  const [own] = guardedTools([worker(ran)], session) as any[];
  assert.equal(await own.invoke(undefined, '{"path":"a"}'), "Not this.");
  await assert.rejects(own.invoke(undefined, '{"path":"a"}', { signal: given.signal }), { name: "AbortError" });
  session.before = async () => {
    throw new Error("broken");
  };
  await assert.rejects(run(new Agent(guarded({ name: "a", model: model([work]), tools: [worker(ran)] }, session))), /broken/);
  assert.deepEqual(ran, []);
});

test("a tool that runs here and is no function cannot be guarded, and one of the provider is left as it is", () => {
  const session = new Scripted().session();
  const search = webSearchTool();
  assert.deepEqual(guardedTools([search, { type: "shell", name: "shell", environment: { type: "container_auto" } } as any], session)[0], search);
  const shell: any = { type: "shell", name: "shell", shell: { run: async () => ({}) } };
  assert.throws(() => guarded({ name: "a", tools: [shell] }, session), /tools: expected functions and tools that the provider runs, got one of type shell/);
});
