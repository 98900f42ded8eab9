/** What the conformance suite has not: other middleware, interrupts, graphs in graphs, and tools that are called directly. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Command, interrupt, MemorySaver, MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { createReactAgent, ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { createAgent, createMiddleware, fakeModel, modelRetryMiddleware } from "langchain";
import { z } from "zod";

import { guarded, guardedGraph, guardedTools } from "../src/langgraph.js";
import { Refused } from "../src/refused.js";
import { ALLOWED, BLOCKED, type Call, KILLED, Scripted } from "./scripted.js";

console.error = () => {}; // LangChain logs what a callback throws

const work = { name: "work", args: { path: "a" } };
const messages = [{ role: "user" as const, content: "go" }];
const HINTED = { ...ALLOWED, hints: "Think again." };

/** A model whose turns are these calls and then "the end", and what it read of its calls. */
function model(...script: Call[][]) {
  const read: string[] = [];
  const made = fakeModel();
  for (const [turn, calls] of [...script, []].entries()) {
    made.respond((prompt: BaseMessage[]) => {
      read.splice(0, read.length, ...prompt.filter((one) => one.getType() === "tool").map((one) => one.text));
      const tool_calls = calls.map(({ name, args = {}, id }, at) => ({ name, args, id: id ?? `c${turn}${at}` }));
      return new AIMessage({ content: calls.length ? "" : "the end", tool_calls, usage_metadata: { input_tokens: 9, output_tokens: 2, total_tokens: 11 } });
    });
  }
  return Object.assign(made, { read });
}

/** A tool that remembers what it was called with. */
function worker(ran: string[] = [], execute: (path: string) => unknown = (path) => `done ${path}`) {
  return tool(({ path }) => (ran.push(path), execute(path) as string), { name: "work", description: "works", schema: z.object({ path: z.string() }) });
}

function graphOf(llm: ReturnType<typeof model>, tools: any[]) {
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", async (state) => ({ messages: [await llm.invoke(state.messages)] }))
    .addNode("tools", new ToolNode(tools))
    .addEdge("__start__", "agent")
    .addConditionalEdges("agent", toolsCondition)
    .addEdge("tools", "agent");
}

const calls = (transport: Scripted) => transport.said.filter((one) => !one.startsWith("turn"));
const turns = (transport: Scripted) => transport.asked.filter(([, { kind }]) => kind === "model.turn").map(([, { session_id }]) => session_id);

test("a call of a tool that another middleware makes is checked, with the arguments that it gives", async () => {
  const ran: string[] = [];
  const hidden = worker(ran);
  const adds = createMiddleware({
    name: "adds",
    wrapModelCall: (request, handler) => handler({ ...request, tools: [...request.tools, hidden] }),
    wrapToolCall: (request, handler) => handler({ ...request, tool: hidden, toolCall: { ...request.toolCall, args: { path: "b" } } }),
  });
  for (const verdict of [BLOCKED, ALLOWED]) {
    const transport = new Scripted(() => verdict);
    const llm = model([work]);
    await createAgent(guarded({ model: llm, tools: [], middleware: [adds] }, transport.session())).invoke({ messages });
    assert.deepEqual(transport.calls.map(({ args }) => args), [{ path: "b" }]);
    assert.deepEqual([llm.read, ran], verdict === BLOCKED ? [["Not this."], []] : [["done b"], ["b"]]);
  }
});

test("a tool's error is read by the model as without a guard, and handled by the program's middleware where it has one", async () => {
  const broken = worker([], () => {
    throw new Error("no such path");
  });
  const llm = model([work], [{ name: "work", args: { path: 7 } }]);
  const transport = new Scripted(() => HINTED);
  await createAgent(guarded({ model: llm, tools: [broken] }, transport.session())).invoke({ messages });
  assert.equal(llm.read[0], "Error: no such path\n Please fix your mistakes.\n\nThink again.");
  assert.match(llm.read[1] ?? "", /^Error invoking tool 'work' with kwargs/);
  const handles = createMiddleware({ name: "handles", wrapToolCall: (request, handler) => handler(request) });
  const run = createAgent(guarded({ model: model([work]), tools: [broken], middleware: [handles] }, transport.session())).invoke({ messages });
  await assert.rejects(run, /no such path/);
  assert.deepEqual(calls(transport), ["call work", "result work error", "call work", "result work error", "call work", "result work error"]);
});

test("the run of a stopped session rejects at the call, and nothing makes another turn", async () => {
  for (const middleware of [[], [modelRetryMiddleware({ maxRetries: 1, initialDelayMs: 1 })]]) {
    const llm = model([work], [work]);
    const session = new Scripted(() => KILLED).session();
    const isRefused = (error: any) => error.name === "Refused" && error.cause instanceof Refused && error.cause.code === KILLED["code"];
    await assert.rejects(createAgent(guarded({ model: llm, tools: [worker()], middleware }, session)).invoke({ messages }), isRefused);
    await assert.rejects(guardedGraph(graphOf(llm, []).compile(), session).invoke({ messages }), Refused);
    assert.equal(llm.callCount, 1);
  }
});

test("a call that interrupts the graph has no known end, and is asked about again when the graph is resumed", async () => {
  const asks = worker([], () => interrupt("May I?"));
  for (const make of [
    (session: any) => createAgent(guarded({ model: model([work]), tools: [asks], checkpointer: new MemorySaver() }, session)),
    (session: any) => guardedGraph(graphOf(model([work]), guardedTools([asks], session)).compile({ checkpointer: new MemorySaver() }), session),
  ]) {
    const transport = new Scripted();
    const agent: any = make(transport.session());
    const config = { configurable: { thread_id: "t" } };
    await agent.invoke({ messages }, config);
    const { messages: all } = await agent.invoke(new Command({ resume: "yes" }), config);
    assert.deepEqual(calls(transport), ["call work", "result work unknown", "call work", "result work ok"]);
    assert.deepEqual([all.at(-2).text, all.at(-1).text], ["yes", "the end"]);
  }
});

test("an agent that is a tool counts its turns and calls in its own session, also in a graph that is guarded", async () => {
  const transport = new Scripted();
  const session = transport.session({ sessionId: "above" });
  const below = session.subagent({ sessionId: "below" });
  for (const inner of [
    createAgent(guarded({ model: model([work]), tools: [worker()] }, below)),
    guardedGraph(graphOf(model([work]), guardedTools([worker()], below)).compile(), below),
  ]) {
    const asks = tool(async () => (await (inner as any).invoke({ messages })).messages.at(-1).text, { name: "ask", description: "asks", schema: z.object({}) });
    const llm = model([{ name: "ask" }]);
    await guardedGraph(graphOf(llm, guardedTools([asks], session)).compile(), session).invoke({ messages });
    assert.deepEqual([llm.read, turns(transport)], [["the end"], ["above", "below", "below", "above"]]);
    assert.deepEqual(transport.calls.map(({ action, session_id }) => [action, session_id]), [["ask", "above"], ["work", "below"]]);
    assert.equal(transport.said.filter((one) => one.startsWith("turn")).length, 4);
    for (const list of [transport.asked, transport.calls, transport.said]) list.length = 0;
  }
});

test("the agent that LangGraph itself makes has its callbacks and its guard", async () => {
  const transport = new Scripted(() => HINTED);
  const session = transport.session();
  const seen: string[] = [];
  const llm = model([work]);
  const agent = guardedGraph(createReactAgent({ llm, tools: guardedTools(guardedTools([worker()], session), session) }), session);
  await agent.invoke({ messages }, { callbacks: [{ handleLLMEnd: () => void seen.push("end") }] });
  assert.deepEqual([llm.read, seen], [["done a\n\nThink again."], ["end", "end"]]);
  assert.deepEqual(transport.said, ["turn 9+0", "call work", "result work ok", "turn 9+0 the end"]);
});

test("hints stand behind the blocks of a result, which keeps its artifact, and wait where a tool returns a Command", async () => {
  const shows = tool(() => [[{ type: "text", text: "a chart" }], { rows: 42 }], { name: "show", description: "shows", schema: z.object({}), responseFormat: "content_and_artifact" });
  const goes = tool((_, config) => new Command({ update: { messages: [{ role: "tool", content: "went", tool_call_id: config.toolCall.id }] } }), { name: "go", description: "goes", schema: z.object({}) });
  const llm = model([{ name: "show" }], [{ name: "go" }], [work]);
  const transport: Scripted = new Scripted(() => ({ ...ALLOWED, hints: `Hint ${transport.calls.length}.` }));
  const { messages: all } = await createAgent(guarded({ model: llm, tools: [shows, goes, worker()] }, transport.session())).invoke({ messages });
  const [shown, , done] = all.filter((one) => one.getType() === "tool") as any[];
  assert.deepEqual([shown.content, shown.artifact], [[{ type: "text", text: "a chart" }, { type: "text", text: "Hint 1." }], { rows: 42 }]);
  assert.equal(done.text, "done a\n\nHint 2.\nHint 3.");
});

test("a guarded tool that the program calls itself rejects with the reason", async () => {
  const ran: string[] = [];
  const [own] = guardedTools([worker(ran)] as const, Scripted.of(BLOCKED, HINTED, { ...ALLOWED, change_arguments: { put: { path: "b" }, remove: [] } }).session());
  await assert.rejects(own.invoke({ path: "a" }), (error) => error instanceof Refused && error.code === "block");
  assert.deepEqual([await own.invoke({ path: "a" }), await own.invoke({ path: "a" }), ran], ["done a\n\nThink again.", "done b", ["a", "b"]]);
});

test("a session that breaks, or a run that was given up, lets no call pass", async () => {
  const ran: string[] = [];
  const given = new AbortController();
  const [plain] = guardedTools([{ name: "work", invoke: async () => ran.push("a") }] as any[], new Scripted(() => (given.abort(), ALLOWED)).session());
  await assert.rejects(plain.invoke({ ...work, type: "tool_call" }, { signal: given.signal }), { name: "AbortError" });
  const session = new Scripted().session();
  session.before = async () => {
    throw new Error("broken");
  };
  await assert.rejects(createAgent(guarded({ model: model([work]), tools: [worker(ran)] }, session)).invoke({ messages }), /broken/);
  await guardedGraph(graphOf(model([work]), guardedTools([worker(ran)], session)).compile(), session).invoke({ messages });
  assert.deepEqual(ran, []);
});
