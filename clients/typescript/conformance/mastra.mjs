// Mastra: `generate` and `stream` of an agent.

import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";

import { guarded } from "haltline/mastra";

import { callTool, serve, TOOLS } from "./host.mjs";

console.log = console.info = console.warn = console.error; // stdout is for the suite

const tools = Object.fromEntries(
  Object.entries(TOOLS).map(([name, fields]) => [
    name,
    createTool({ id: name, description: name, inputSchema: z.object(fields), execute: (args) => callTool(name, args) }),
  ]),
);

serve(async ({ session, model, stream }) => {
  const agent = new Agent(guarded({ id: "a", name: "a", instructions: "work", model, tools, maxRetries: 0 }, session));
  const options = { maxSteps: 20 };
  if (!stream) {
    const result = await agent.generate("work", options);
    return result.tripwire ? result.tripwire.reason : result.text;
  }
  const output = await agent.stream("work", options);
  let text = "";
  for await (const { type, payload } of output.fullStream) {
    if (type === "tripwire") return payload.reason;
    if (type === "error") throw payload.error;
    if (type === "text-delta") text += payload.text;
  }
  return text;
});
