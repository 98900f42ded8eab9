// An agent of Mastra behind haltline, with a scripted model. It deletes the same thing again and again; haltline stops it:
//
//     haltline intake --mode local     # in another terminal
//     node examples/mastra_agent.mjs http://127.0.0.1:8765

import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { MockLanguageModelV4 } from "ai/test";
import { z } from "zod";

import { httpSession } from "haltline";
import { guarded } from "haltline/mastra";

const delete_asset = createTool({
  id: "delete_asset",
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
// A real model, with its key in ANTHROPIC_API_KEY:
// const model = "anthropic/claude-sonnet-4-5";

const session = httpSession({ url: process.argv[2], agentId: "cleaner" });
const config = { id: "cleaner", name: "cleaner", instructions: "Tidy up.", model, tools: { delete_asset } };
const agent = new Agent(guarded(config, session));
const result = await agent.generate("Tidy up the warehouse.", { maxSteps: 10 });
if (result.tripwire) console.log(`stopped: ${session.stopped?.code}`); // a stopped run does not reject
await session.end();
