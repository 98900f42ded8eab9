// An agent of the Vercel AI SDK behind haltline, with a scripted model. It deletes the same thing again and again;
// haltline stops it:
//
//     haltline intake --mode local     # in another terminal
//     node examples/vercel_agent.mjs http://127.0.0.1:8765

import { generateText, isStepCount, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { z } from "zod";

import { httpSession, Refused } from "haltline";
import { guarded } from "haltline/vercel";

const delete_asset = tool({
  description: "Deletes an asset.",
  inputSchema: z.object({ asset_id: z.string() }),
  execute: async ({ asset_id }) => {
    console.log(`deleted ${asset_id}`);
    return `${asset_id} still exists`;
  },
});

// Requests the same call at every turn.
let turns = 0;
const model = new MockLanguageModelV4({
  doGenerate: async () => ({
    content: [{ type: "tool-call", toolCallId: `c${turns++}`, toolName: "delete_asset", input: '{"asset_id":"fact_sales"}' }],
    finishReason: { unified: "tool-calls", raw: undefined },
    usage: { inputTokens: { total: 900 }, outputTokens: { total: 40 } },
    warnings: [],
  }),
});
// A real model, with its key in ANTHROPIC_API_KEY (npm install @ai-sdk/anthropic; import { anthropic } from "@ai-sdk/anthropic"):
// const model = anthropic("claude-sonnet-4-5");

const session = httpSession({ url: process.argv[2], agentId: "cleaner" });
try {
  const options = { model, tools: { delete_asset }, prompt: "Tidy up the warehouse.", stopWhen: isStepCount(10) };
  await generateText(guarded(options, session));
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(`stopped: ${error.code}`);
} finally {
  await session.end();
}
