/** What the conformance suite has not: the ways around `execute` and `prepareStep` that the Vercel AI SDK has. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { generateText, isStepCount, streamText, tool, ToolLoopAgent, type ModelMessage } from "ai";
import { z } from "zod";

import { Refused } from "../src/refused.js";
import { guarded, guardedTools } from "../src/vercel.js";
import { ALLOWED, BLOCKED, KILLED, model, Scripted } from "./scripted.js";

const inputSchema = z.object({ path: z.string() });
const work = { name: "work", args: { path: "a" } };
const stopWhen = isStepCount(9);

/** A tool that remembers what it was called with. */
function worker(ran: string[] = []) {
  return tool({ inputSchema, execute: async ({ path }) => (ran.push(path), `done ${path}`) });
}

test("a refused call of a tool that streams its results makes none of them", async () => {
  const ran: string[] = [];
  const streaming = tool({
    inputSchema,
    async *execute({ path }) {
      ran.push(path);
      yield "half";
      yield "whole";
    },
  });
  const mock = model([work], [work]);
  const transport: Scripted = new Scripted(() => (transport.calls.length === 1 ? BLOCKED : ALLOWED));
  const parts: unknown[] = [];
  for await (const part of streamText(guarded({ model: mock, tools: { work: streaming }, prompt: "go", stopWhen }, transport.session())).fullStream) {
    if (part.type === "tool-result") parts.push([part.output, part.preliminary ?? false]);
  }
  assert.deepEqual(ran, ["a"]);
  assert.deepEqual(parts, [["half", true], ["whole", true], ["whole", false]]);
  assert.deepEqual(mock.read, ["Refused: Not this.", "whole"]);
  assert.deepEqual(transport.said.filter((one) => one.startsWith("result")), ["result work ok"]);
});

test("a function that returns a stream has its last part as its result", async () => {
  async function* parts() {
    yield "half";
    yield "whole";
  }
  const mock = model([work]);
  await generateText(guarded({ model: mock, tools: { work: tool({ inputSchema, execute: () => parts() }) }, prompt: "go", stopWhen }, new Scripted().session()));
  assert.deepEqual(mock.read, ["whole"]);
});

test("prepareStep cannot give a stopped session a turn of another model", async () => {
  const transport = new Scripted(() => KILLED);
  const [mock, other] = [model([work]), model()];
  const prepareStep = ({ stepNumber }: { stepNumber: number }) => (stepNumber ? { model: other } : undefined);
  const run = generateText(guarded({ model: mock, tools: { work: worker() }, prompt: "go", stopWhen, prepareStep }, transport.session()));
  await assert.rejects(run, (error) => error instanceof Refused && error.code === "session_killed_loop_guard");
  assert.deepEqual([mock.turns, other.turns], [1, 0]);
});

test("a stream of a stopped session ends with Refused as its error", async () => {
  const mock = model([work], [work]);
  const errors: unknown[] = [];
  const options = { model: mock, tools: { work: worker() }, prompt: "go", stopWhen, onError: () => {} };
  for await (const part of streamText(guarded(options, new Scripted(() => KILLED).session())).fullStream) {
    if (part.type === "error") errors.push(part.error);
  }
  assert.equal(errors.length, 1);
  assert.ok(errors[0] instanceof Refused);
  assert.equal(mock.turns, 1);
});

test("a call that a person has approved is asked about before the first turn, and refused in a stopped session", async () => {
  const ran: string[] = [];
  const needing = tool({ inputSchema, needsApproval: true, execute: async ({ path }) => (ran.push(path), "done") });
  const transport = new Scripted();
  const session = transport.session();
  const first = await generateText(guarded({ model: model([work]), tools: { work: needing }, prompt: "go", stopWhen }, session));
  assert.deepEqual(transport.calls, [], "not before the person has answered");
  const request = first.content.find((part) => part.type === "tool-approval-request");
  const messages: ModelMessage[] = [
    { role: "user", content: "go" },
    ...first.responseMessages,
    { role: "tool", content: [{ type: "tool-approval-response", approvalId: request?.approvalId ?? "", approved: true }] },
  ];
  await generateText(guarded({ model: model(), tools: { work: needing }, messages, stopWhen }, session));
  assert.deepEqual([ran, transport.calls.length], [["a"], 1]);
  transport.kill();
  await assert.rejects(generateText(guarded({ model: model(), tools: { work: needing }, messages, stopWhen }, session)), Refused);
  assert.deepEqual(ran, ["a"]);
});

test("hints are read by the model, and the result that the program gets is the tool's", async () => {
  const result = { rows: 42 };
  const tools = {
    count: tool({ inputSchema: z.object({}), execute: () => result }),
    look: tool({
      inputSchema: z.object({}),
      execute: () => "x",
      toModelOutput: () => ({ type: "content", value: [{ type: "text", text: "a chart" }, { type: "file", data: { type: "data", data: "AA==" }, mediaType: "image/png" }] }),
    }),
  };
  const mock = model([{ name: "count" }, { name: "look" }]);
  const transport = new Scripted(() => ({ ...ALLOWED, hints: "Think again." }));
  const done = await generateText(guarded({ model: mock, tools, prompt: "go", stopWhen }, transport.session()));
  assert.deepEqual(mock.read, ['{"rows":42}\n\nThink again.', "a chart\n\n[file]\n\nThink again."]);
  assert.equal(done.steps[0]?.toolResults[0]?.output, result);
});

test("hints stand with their own call where ids begin again", async () => {
  const mock = model([{ ...work, id: "0" }], [{ ...work, id: "0" }]);
  const transport: Scripted = new Scripted(() => (transport.calls.length === 1 ? { ...ALLOWED, hints: "Think again." } : ALLOWED));
  await generateText(guarded({ model: mock, tools: { work: worker() }, prompt: "go", stopWhen }, transport.session()));
  assert.deepEqual(mock.read, ["done a\n\nThink again.", "done a"]);
});

test("a call that waited until its run was given up is not made", async () => {
  const ran: string[] = [];
  const given = new AbortController();
  const transport = new Scripted(() => (given.abort(), ALLOWED));
  const options = { model: model([work]), tools: { work: worker(ran) }, prompt: "go", stopWhen, abortSignal: given.signal };
  await assert.rejects(generateText(guarded(options, transport.session())));
  assert.deepEqual([ran, transport.said.at(-1)], [[], "result work unknown"]);
});

test("an agent's prepareCall cannot bring tools past the guard, nor can the options of a call", async () => {
  const ran: string[] = [];
  const tools = { work: worker(ran) };
  for (const prepareCall of [(call: any) => ({ ...call, tools }), undefined]) {
    const mock = model([work], [work]);
    const settings = { model: mock, tools: { work: worker(ran) }, stopWhen, ...(prepareCall && { prepareCall }) };
    const agent = new ToolLoopAgent(guarded(settings, new Scripted(() => BLOCKED).session()));
    await agent.generate({ prompt: "go", ...(prepareCall ? {} : { tools }) });
    assert.deepEqual([ran, mock.read], [[], ["Refused: Not this.", "Refused: Not this."]]);
  }
});

test("what is guarded twice is asked about once", async () => {
  const transport = new Scripted();
  const session = transport.session();
  await generateText(guarded(guarded({ model: model([work]), tools: guardedTools({ work: worker() }, session), prompt: "go", stopWhen }, session), session));
  assert.deepEqual(transport.said, ["turn 5+4", "call work", "result work ok", "turn 5+4 the end"]);
});

test("the callbacks of the program are called, what they throw changes nothing, and the tokens are known before the calls", async () => {
  const transport = new Scripted();
  const seen: string[] = [];
  const onLanguageModelCallEnd = () => {
    seen.push("end");
    throw new Error("broken");
  };
  await generateText(guarded({ model: model([work]), tools: { work: worker() }, prompt: "go", stopWhen, onLanguageModelCallEnd }, transport.session()));
  assert.deepEqual(seen, ["end", "end"]);
  assert.deepEqual(transport.said.slice(0, 2), ["turn 5+4", "call work"]);
});

test("a session that breaks lets no call pass", async () => {
  const ran: string[] = [];
  const session = new Scripted().session();
  session.before = async () => {
    throw new Error("broken");
  };
  await generateText(guarded({ model: model([work]), tools: { work: worker(ran) }, prompt: "go", stopWhen }, session));
  assert.deepEqual(ran, []);
});

test("a tool without execute cannot be guarded, and one that runs at the provider is left as it is", () => {
  const session = new Scripted().session();
  const search: any = { type: "provider", isProviderExecuted: true, id: "p.search", args: {}, inputSchema: z.object({}), outputSchema: z.object({}) };
  assert.equal(guardedTools({ search }, session)["search"], search);
  assert.throws(() => guardedTools({ ask: tool({ inputSchema }) }, session), /tools.ask: expected a tool with execute, got one/);
});
