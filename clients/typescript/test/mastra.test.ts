/** What the conformance suite has not: the ways around the hooks and processors of an agent that Mastra has. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { InMemoryStore } from "@mastra/core/storage";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";

import { guarded } from "../src/mastra.js";
import { ALLOWED, BLOCKED, KILLED, model, Scripted } from "./scripted.js";

const inputSchema = z.object({ path: z.string() });
const work = { name: "work", args: { path: "a" } };
const base = { id: "a", name: "a", instructions: "work" };
const calls = (transport: Scripted) => transport.said.filter((one) => !one.startsWith("turn"));

/** A tool that remembers what it was called with. */
function worker(ran: string[] = [], more: object = {}) {
  return createTool({ id: "work", description: "works", inputSchema, execute: async ({ path }) => (ran.push(path), `done ${path}`), ...more });
}

for (const [what, options] of Object.entries({
  hooks: { hooks: { beforeToolCall: () => {} } },
  processors: { inputProcessors: [{ id: "other", processInput: ({ messages }: any) => messages }] },
  nothing: {},
})) {
  test(`a run that brings ${what} of its own is asked about its call, once`, async () => {
    const ran: string[] = [];
    for (const verdict of [BLOCKED, ALLOWED, { ...ALLOWED, change_arguments: { put: { path: "safe" }, remove: [] } }]) {
      const transport = new Scripted(() => verdict);
      const mock = model([work]);
      const agent = new Agent(guarded({ ...base, model: mock, tools: { work: worker(ran) } }, transport.session()));
      await agent.generate("go", options as object);
      assert.deepEqual(calls(transport), verdict.allowed ? ["call work", "result work ok"] : ["call work"]);
      if (!verdict.allowed) assert.deepEqual(mock.read, ["Not this."]);
    }
    assert.deepEqual(ran, ["a", "safe"]);
  });
}

test("tools that a processor or a toolset brings are guarded", async () => {
  const ran: string[] = [];
  const add = { id: "add", processInputStep: ({ tools }: any) => ({ tools: { ...tools, work: worker(ran) } }) };
  for (const [config, options] of [
    [{ inputProcessors: [add] }, {}],
    [{ inputProcessors: () => [add] }, {}],
    [{}, { toolsets: { more: { work: worker(ran) } } }],
  ] as [object, object][]) {
    const mock = model([work], [work]);
    const agent = new Agent(guarded({ ...base, model: mock, ...config } as any, new Scripted(() => BLOCKED).session()));
    await agent.generate("go", options);
    assert.deepEqual([ran, mock.read], [[], ["Not this.", "Not this."]]);
  }
});

test("a stopped session tries none of the agent's models again, and its run ends with a tripwire", async () => {
  const transport = new Scripted(() => KILLED);
  const [first, second] = [model([work]), model()];
  const models = [first, second].map((mock) => ({ model: mock, maxRetries: 3 }));
  const agent = new Agent(guarded({ ...base, model: models, tools: { work: worker() } }, transport.session()) as any);
  const result = await agent.generate("go");
  assert.match(result.tripwire?.reason ?? "", /^Stopped\./);
  assert.deepEqual([first.turns, second.turns, result.text], [1, 0, ""]);
});

test("a stream starts no call before its turn has ended and its tokens are known", async () => {
  const transport = new Scripted();
  const agent = new Agent(guarded({ ...base, model: model([work]), tools: { work: worker() } }, transport.session()));
  const output = await agent.stream("go", { eagerToolExecution: true } as object);
  await output.consumeStream();
  assert.deepEqual(transport.said, ["turn 5+4", "call work", "result work ok", "turn 5+4 the end"]);
});

test("a call that needs a person's approval is asked about behind it, also where the run has been resumed", async () => {
  const ran: string[] = [];
  const transport = new Scripted(() => BLOCKED);
  const mock = model([work]);
  const agent: Agent<any, any> = new Agent(guarded({ ...base, model: mock, tools: { work: worker(ran, { requireApproval: true }) } }, transport.session()) as any);
  new Mastra({ agents: { a: agent }, storage: new InMemoryStore(), logger: false });
  const output = await agent.stream("go");
  await output.consumeStream();
  assert.deepEqual(transport.calls, []);
  const resumed = await agent.approveToolCall({ runId: output.runId, toolCallId: "c0" });
  await resumed.consumeStream();
  assert.deepEqual([transport.calls.length, ran, mock.read], [1, [], ["Not this."]]);
});

test("hints are read by the model with results and errors, and results stay the tools'", async () => {
  const execute = async ({ path }: { path: string }) => {
    if (path === "bad") throw new Error("no such path");
    return { rows: 42 };
  };
  const mock = model([work, { name: "work", args: { path: "bad" } }]);
  const transport: Scripted = new Scripted(() => ({ ...ALLOWED, hints: `Hint ${transport.calls.length}.` }));
  const agent = new Agent(guarded({ ...base, model: mock, tools: { work: worker([], { execute }) } }, transport.session()));
  const result = await agent.generate("go", { toolCallConcurrency: 1 });
  assert.deepEqual(mock.read, ['{"rows":42}\n\nHint 1.', "no such path\n\nHint 2."]);
  assert.deepEqual(result.steps[0]?.toolResults[0]?.payload.result, { rows: 42 });
});

test("arguments that do not fit a tool's schema are an error, which Mastra returns as a result", async () => {
  const transport = new Scripted();
  const mock = model([{ name: "work", args: { path: 7 } }]);
  await new Agent(guarded({ ...base, model: mock, tools: { work: worker() } }, transport.session())).generate("go");
  assert.deepEqual(calls(transport), ["call work", "result work error"]);
  assert.match(mock.read[0], /expected string, received number/);
});

test("what a tool says of its result to the model stays, with the hints", async () => {
  const tools = { work: worker([], { toModelOutput: () => ({ type: "content", value: [{ type: "text", text: "a chart" }] }) }) };
  const mock = model([work]);
  const session = new Scripted(() => ({ ...ALLOWED, hints: "Think again." })).session();
  await new Agent(guarded({ ...base, model: mock, tools }, session)).generate("go");
  assert.deepEqual(mock.read, ["a chart\n\nThink again."]);
});

test("the hooks of the program are called, and a call that they answer is not made and has no result", async () => {
  const seen: string[] = [];
  const hooks = {
    beforeToolCall: ({ input }: any) => (seen.push(`before ${input.path}`), undefined),
    afterToolCall: ({ output }: any) => {
      seen.push(`after ${output}`);
      throw new Error("broken");
    },
  };
  const transport = new Scripted();
  await new Agent(guarded({ ...base, model: model([work]), tools: { work: worker() }, hooks }, transport.session())).generate("go");
  assert.deepEqual(seen, ["before a", "after done a"]);
  assert.deepEqual(calls(transport).length, 2);
});

test("a session that breaks lets no call pass", async () => {
  const ran: string[] = [];
  const session = new Scripted().session();
  session.before = async () => {
    throw new Error("broken");
  };
  await new Agent(guarded({ ...base, model: model([work]), tools: { work: worker(ran) } }, session)).generate("go");
  session.beforeTurn = async () => {
    throw new Error("broken");
  };
  const mock = model([work]);
  const result = await new Agent(guarded({ ...base, model: mock, tools: { work: worker(ran) } }, session)).generate("go");
  assert.deepEqual([ran, mock.turns, result.tripwire?.reason], [[], 0, "broken"]);
});

test("a call that waited until its run was given up is not made", async () => {
  const ran: string[] = [];
  const given = new AbortController();
  const transport = new Scripted(() => (given.abort(), ALLOWED));
  const agent = new Agent(guarded({ ...base, model: model([work]), tools: { work: worker(ran) } }, transport.session()));
  await agent.generate("go", { abortSignal: given.signal }).catch(() => {});
  assert.deepEqual(ran, []);
});
