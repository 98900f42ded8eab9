// The conformance suite's hosts in Node: each run is one line of JSON on stdin, and its end one on stdout. The tools
// run in the parent process: a call is a line on stdout, and its result one on stdin.

import { MockLanguageModelV4 } from "ai/test";
import { createInterface } from "node:readline";

import { httpSession } from "haltline";
import { z } from "zod";

/** The tools' arguments; the texts and results are those of tests/conformance/harness.py. */
export const TOOLS = {
  work: { path: z.string() },
  delete_asset: { asset_id: z.string() },
  get_asset: { asset_id: z.string() },
  list_assets: {},
  count_rows: {},
  touch: {},
};

const waiting = new Map();
let asked = 0;

/** Runs a tool of the suite. */
export function callTool(name, args) {
  return new Promise((resolve, reject) => {
    waiting.set(++asked, { resolve, reject });
    say({ call: asked, name, args });
  });
}

/** Plays the script: `next(read)` takes what the model reads of its calls, and returns the calls of its next turn. */
function player(script) {
  const seen = { read: [], turns: 0 };
  const next = (read) => {
    seen.read = read;
    return script[seen.turns++] ?? [];
  };
  return { seen, next };
}

/** Returns a model of the AI SDK. */
export function mock(next, { input, cached, output, end }) {
  const usage = {
    inputTokens: { total: input, noCache: input - cached, cacheRead: cached, cacheWrite: undefined },
    outputTokens: { total: output, text: output, reasoning: undefined },
  };
  const turn = (prompt) => {
    const calls = next(prompt.flatMap((message) => (message.role === "tool" ? message.content.map(({ output }) => textOf(output)) : [])));
    const parts = calls.map(({ name, args, id }) => ({ type: "tool-call", toolCallId: id, toolName: name, input: written(args) }));
    const finish = { finishReason: { unified: calls.length ? "tool-calls" : "stop", raw: undefined }, usage };
    return { parts, finish };
  };
  return new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const { parts, finish } = turn(prompt);
      return { content: parts.length ? parts : [{ type: "text", text: end }], ...finish, warnings: [] };
    },
    doStream: async ({ prompt }) => {
      const { parts, finish } = turn(prompt);
      const text = [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: end }, { type: "text-end", id: "t" }];
      const chunks = [{ type: "stream-start", warnings: [] }, ...(parts.length ? parts : text), { type: "finish", ...finish }];
      return { stream: ReadableStream.from(chunks) };
    },
  });
}

/** Returns arguments as the model writes them. */
export function written(args) {
  return typeof args === "string" ? args : JSON.stringify(args);
}

function textOf(output) {
  if (output.type === "content") return output.value.map((part) => part.text ?? "").join("\n\n");
  return typeof output.value === "string" ? output.value : JSON.stringify(output.value ?? output.reason);
}

/** Returns the error's text, with its causes. */
export function why(error) {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : JSON.stringify(error);
  return error?.cause === undefined ? text : `${text} <- ${why(error.cause)}`;
}

/**
 * Serves runs until stdin ends. `run` takes a session, a model and whether to stream, and returns the last text; `model`
 * makes the model of a player's `next`.
 */
export function serve(run, model = mock) {
  const lines = createInterface({ input: process.stdin });
  lines.on("close", () => process.exit()); // open connections would prevent the exit
  lines.on("line", async (line) => {
    const message = JSON.parse(line);
    if (message.answer !== undefined) {
      const { resolve, reject } = waiting.get(message.answer);
      waiting.delete(message.answer);
      if (message.error === undefined) resolve(message.result);
      else reject(new Error(message.error));
      return;
    }
    const { next, seen } = player(message.script);
    const { url, sessionId, effects } = message;
    const session = httpSession({ url, sessionId, effects, onWarning: (text) => console.error(text) });
    let stopped;
    try {
      const said = await run({ session, model: model(next, message), stream: message.stream });
      stopped = said === message.end ? "" : `expected the end, got ${said}`;
    } catch (error) {
      stopped = why(error);
    }
    say({ ...seen, stopped });
  });
}

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}
