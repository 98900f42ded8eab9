// The OpenAI Agents SDK: `run` of a Runner, and with `stream` its stream; the model has a name.

import { Agent, Runner, tool, Usage } from "@openai/agents";
import { z } from "zod";

import { guarded } from "haltline/openai-agents";

import { callTool, serve, TOOLS, written } from "./host.mjs";

const tools = Object.entries(TOOLS).map(([name, fields]) =>
  tool({ name, description: name, parameters: z.object(fields), execute: (args) => callTool(name, args) }),
);

function scripted(next, { input, cached, output, end }) {
  const turn = (prompt) => {
    const results = typeof prompt === "string" ? [] : prompt.filter(({ type }) => type === "function_call_result");
    const calls = next(results.map(({ output }) => (typeof output === "string" ? output : output.text)));
    const items = calls.map(({ name, args, id }) => ({ type: "function_call", callId: id, name, arguments: written(args) }));
    const said = { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: end }] };
    const usage = { inputTokens: input, outputTokens: output, totalTokens: input + output, inputTokensDetails: { cached_tokens: cached } };
    return { output: items.length ? items : [said], usage };
  };
  return {
    async getResponse(request) {
      const { output, usage } = turn(request.input);
      return { output, usage: new Usage({ ...usage, requests: 1 }) };
    },
    async *getStreamedResponse(request) {
      yield { type: "response_done", response: { id: "r", ...turn(request.input) } };
    },
  };
}

serve(async ({ session, model, stream }) => {
  const agent = new Agent(guarded({ name: "a", instructions: "work", model: "scripted", tools }, session));
  const runner = new Runner(guarded({ modelProvider: { getModel: () => model }, tracingDisabled: true }, session));
  const result = await runner.run(agent, "work", { stream, maxTurns: 20 });
  if (stream) for await (const _ of result); // throws the error of the run
  return result.finalOutput;
}, scripted);
