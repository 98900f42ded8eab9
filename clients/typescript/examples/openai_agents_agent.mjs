// An agent of the OpenAI Agents SDK behind haltline, with a scripted model. It deletes the same thing again and again;
// haltline stops it:
//
//     haltline intake --mode local     # in another terminal
//     node examples/openai_agents_agent.mjs http://127.0.0.1:8765

import { Agent, Runner, tool } from "@openai/agents";
import { functionCall, ScriptedModel } from "@openai/agents/testing";
import { z } from "zod";

import { httpSession } from "haltline";
import { guarded } from "haltline/openai-agents";

const deleteAsset = tool({
  name: "delete_asset",
  description: "Deletes an asset.",
  parameters: z.object({ asset_id: z.string() }),
  execute: async ({ asset_id }) => {
    console.log(`deleted ${asset_id}`);
    return `${asset_id} still exists`;
  },
});

// Requests the same call at every turn.
const turn = (_, n) => [functionCall("delete_asset", { asset_id: "fact_sales" }, { callId: `c${n}` })];
const model = new ScriptedModel(Array.from({ length: 10 }, turn));
// A real model, with its key in OPENAI_API_KEY:
// const model = "gpt-5";

const session = httpSession({ url: process.argv[2], agentId: "cleaner" });
try {
  const agent = new Agent(guarded({ name: "cleaner", instructions: "Tidy up.", model, tools: [deleteAsset] }, session));
  const runner = new Runner(guarded({ tracingDisabled: true }, session)); // for the turns of a model that has a name
  await runner.run(agent, "Tidy up the warehouse.");
} catch (error) {
  if (!session.stopped) throw error;
  console.log(`stopped: ${session.stopped.code}`);
} finally {
  await session.end();
}
