// LangGraph.js: `createAgent` of langchain, and with `stream` a graph of its own with a ToolNode.

import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { createAgent, fakeModel } from "langchain";
import { z } from "zod";

import { guarded, guardedGraph, guardedTools } from "haltline/langgraph";

import { callTool, serve, TOOLS } from "./host.mjs";

console.error = console.log = () => {}; // LangChain logs the error of a callback

const tools = Object.entries(TOOLS).map(([name, fields]) => tool((args) => callTool(name, args), { name, description: name, schema: z.object(fields) }));
const messages = [{ role: "user", content: "work" }];

function scripted(next, { input, cached, output, end }) {
  const usage_metadata = { input_tokens: input, output_tokens: output, total_tokens: input + output, input_token_details: { cache_read: cached } };
  const turn = (prompt) => {
    const calls = next(prompt.filter((one) => one.getType() === "tool").map((one) => one.text));
    const isCall = ({ args }) => typeof args !== "string";
    const [tool_calls, invalid_tool_calls] = [calls.filter(isCall), calls.filter((call) => !isCall(call))];
    return new AIMessage({ content: calls.length ? "" : end, tool_calls, invalid_tool_calls, usage_metadata });
  };
  const model = fakeModel();
  for (let turns = 0; turns < 20; turns++) model.respond(turn);
  return model;
}

function graphOf(model, session) {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("agent", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addNode("tools", new ToolNode(guardedTools(tools, session)))
    .addEdge("__start__", "agent")
    .addConditionalEdges("agent", toolsCondition)
    .addEdge("tools", "agent");
  return guardedGraph(graph.compile(), session);
}

serve(async ({ session, model, stream }) => {
  if (!stream) return (await createAgent(guarded({ model, tools }, session)).invoke({ messages })).messages.at(-1).text;
  let state;
  for await (state of await graphOf(model, session).stream({ messages }, { streamMode: "values" }));
  return state.messages.at(-1).text;
}, scripted);
