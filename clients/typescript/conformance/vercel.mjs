// The Vercel AI SDK: `generateText` and `streamText`.

import { generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

import { guarded } from "haltline/vercel";

import { callTool, serve, TOOLS } from "./host.mjs";

const tools = Object.fromEntries(
  Object.entries(TOOLS).map(([name, fields]) => [
    name,
    tool({ description: name, inputSchema: z.object(fields), execute: (args) => callTool(name, args) }),
  ]),
);

serve(async ({ session, model, stream }) => {
  const options = guarded({ model, tools, prompt: "work", stopWhen: isStepCount(20), maxRetries: 0 }, session);
  if (!stream) return (await generateText(options)).text;
  let text = "";
  for await (const part of streamText({ ...options, onError: () => {} }).fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") text += part.text;
  }
  return text;
});
