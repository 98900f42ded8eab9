// What a guarded call costs beside the framework's own, with one call in each turn of a scripted model; a part of
// `python -m benchmarks.frameworks`:
//
//     node benchmarks/overhead.mjs http://127.0.0.1:8765 [RUNS]
//
// One line of JSON for each framework: microseconds of a turn with its call, by the processor time of this process and
// by the clock, the median of the runs. A guarded one asks the intake about the turn and the call, and reports both: four
// requests.

import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { generateText, isStepCount, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { z } from "zod";

import { httpSession } from "haltline";
import { guarded as guardedMastra } from "haltline/mastra";
import { guarded as guardedVercel } from "haltline/vercel";

const [url, runs = "9"] = process.argv.slice(2);
const CALLS = 20;
const inputSchema = z.object({ path: z.string() });
const description = "Reads a file.";
const execute = async ({ path }) => `content of ${path}`;

function model() {
  let turn = 0;
  return new MockLanguageModelV4({
    doGenerate: async () => {
      const path = `file-${turn++}`;
      const call = { type: "tool-call", toolCallId: `c${turn}`, toolName: "read_file", input: JSON.stringify({ path }) };
      return {
        content: turn <= CALLS ? [call] : [{ type: "text", text: "the end" }],
        finishReason: { unified: turn <= CALLS ? "tool-calls" : "stop", raw: undefined },
        usage: { inputTokens: { total: 900 }, outputTokens: { total: 40 } },
        warnings: [],
      };
    },
  });
}

const FRAMEWORKS = {
  vercel_ai: async (session) => {
    const tools = { read_file: tool({ description, inputSchema, execute }) };
    const options = { model: model(), tools, prompt: "Read.", stopWhen: isStepCount(CALLS + 1) };
    return (await generateText(session ? guardedVercel(options, session) : options)).text;
  },
  mastra: async (session) => {
    const tools = { read_file: createTool({ id: "read_file", description, inputSchema, execute }) };
    const config = { id: "reader", name: "reader", instructions: "Read.", model: model(), tools };
    const agent = new Agent(session ? guardedMastra(config, session) : config);
    return (await agent.generate("Read.", { maxSteps: CALLS + 1 })).text;
  },
};

async function timed(run, session) {
  const [began, used] = [performance.now(), process.cpuUsage()];
  const text = await run(session);
  const { user, system } = process.cpuUsage(used);
  const us = { cpu: (user + system) / CALLS, wall: ((performance.now() - began) * 1000) / CALLS };
  if (text !== "the end") throw new Error(`expected the end, got ${JSON.stringify(text)}`);
  await session?.end();
  return us;
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

for (const [driver, run] of Object.entries(FRAMEWORKS)) {
  const measured = { plain: [], guarded: [] };
  for (let number = -3; number < Number(runs); number++) {
    const [plain, guarded] = [await timed(run), await timed(run, httpSession({ url, agentId: "reader", mode: "async" }))];
    if (number < 0) continue; // warm-up for the compiler
    measured.plain.push(plain);
    measured.guarded.push(guarded);
  }
  const figures = Object.entries(measured).flatMap(([way, found]) =>
    ["cpu", "wall"].map((kind) => [`${way}_${kind}_us`, median(found.map((one) => one[kind]))]),
  );
  console.log(JSON.stringify({ driver, ...Object.fromEntries(figures) }));
}
