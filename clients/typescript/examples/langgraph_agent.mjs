// An agent of LangGraph.js behind haltline, with a scripted model. It deletes the same thing again and again; haltline stops it:
//
//     haltline intake --mode local     # in another terminal
//     node examples/langgraph_agent.mjs http://127.0.0.1:8765

import { createAgent, fakeModel, tool } from "langchain";
import { z } from "zod";

import { httpSession } from "haltline";
import { guarded } from "haltline/langgraph";

const deleteAsset = tool(
  async ({ asset_id }) => {
    console.log(`deleted ${asset_id}`);
    return `${asset_id} still exists`;
  },
  { name: "delete_asset", description: "Deletes an asset.", schema: z.object({ asset_id: z.string() }) },
);

// Requests the same call at every turn.
const model = fakeModel();
for (let turn = 0; turn < 10; turn++) {
  model.respondWithTools([{ name: "delete_asset", args: { asset_id: "fact_sales" }, id: `c${turn}` }]);
}
// A real model, with its key in ANTHROPIC_API_KEY (npm install @langchain/anthropic):
// const model = "anthropic:claude-sonnet-4-5";

const session = httpSession({ url: process.argv[2], agentId: "cleaner" });
try {
  const agent = createAgent(guarded({ model, tools: [deleteAsset] }, session));
  await agent.invoke({ messages: [{ role: "user", content: "Tidy up the warehouse." }] });
} catch (error) {
  if (error.name !== "Refused") throw error; // langchain wraps what a guard throws, and keeps its name
  console.log(`stopped: ${session.stopped?.code}`);
} finally {
  await session.end();
}
