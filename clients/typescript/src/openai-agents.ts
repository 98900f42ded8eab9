/**
 * For the OpenAI Agents SDK (`@openai/agents`): one session's calls, turns and hints.
 *
 *     const agent = new Agent(guarded({ name: "cleaner", instructions, tools }, session));
 *     const runner = new Runner(guarded({}, session)); // the turns of models that agents have by name
 *     await runner.run(agent, "Tidy up.");
 *
 * Each call is checked by the last guardrail of its tool, after a person's approval. Agents that a run is handed off to
 * need a guard of their own; so does an agent as a tool, with `session.subagent()`. Tools that run at the model's
 * provider are not guarded.
 */

import { type FunctionTool, type MCPServer, type Model, type ModelProvider, Runner, type Tool } from "@openai/agents";

import { usageOf } from "./model_text.js";
import type { Allowed, Turn } from "./options.js";
import { Refused } from "./refused.js";
import type { Session } from "./session.js";
import { withHints } from "./texts.js";

type Fn = (...args: any[]) => any;
type ToolCall = { callId: string; arguments: string };

/** The used part of an `Agent`'s or a `Runner`'s config. */
type Config = { name?: string; model?: string | Model; modelProvider?: ModelProvider } & {
  tools?: readonly Tool[];
  mcpServers?: readonly MCPServer[];
};

/** What the SDK gives the model for an error of a tool that has no `errorFunction` of its own. */
const FAILED = "An error occurred while running the tool. Please try again.";

/** Models and tools that are guarded already. */
const ours = new WeakSet<object>();

/**
 * Returns the config of an `Agent`, or of a `Runner`, with a guard. The model reads why a call was refused as its
 * result. The run of a stopped session rejects with Refused, or at a call with a ToolCallError whose `error` it is.
 *
 * Throws TypeError for a tool that runs in this process and is no function, such as a shell: it cannot be guarded.
 */
export function guarded<C extends object>(config: C, session: Session): C {
  const { name, model, tools, mcpServers, modelProvider } = config as Config;
  const provider = modelProvider ?? (name === undefined ? new Runner().config.modelProvider : undefined);
  const mine: Config = {
    ...(typeof model === "object" && { model: guardedModel(model, session) }),
    ...(tools && { tools: guardedTools(tools, session) }),
    ...(mcpServers && { mcpServers: mcpServers.map((server) => guardedServer(server, session)) }),
    ...(provider && { modelProvider: guardedProvider(provider, session) }),
  };
  return { ...config, ...mine };
}

/** Returns each function with a check before it is called; tools that the provider runs as they are. */
export function guardedTools(tools: readonly Tool[], session: Session): Tool[] {
  return tools.map((tool) => {
    if (tool.type === "function") return ours.has(tool) ? tool : guardedTool(tool, session);
    if (tool.type === "hosted_tool" || (tool.type === "shell" && tool.shell === undefined)) return tool;
    throw new TypeError(`tools: expected functions and tools that the provider runs, got one of type ${tool.type}`);
  });
}

function guardedTool(tool: FunctionTool<any, any, any>, session: Session): Tool {
  const asked = new WeakMap<ToolCall, Allowed>();
  // Before `invoke`, whose timeout would go on while a person is asked.
  const run = async ({ toolCall }: { toolCall: ToolCall }) => {
    const verdict = await session.before(toolCall.callId, tool.name, toolCall.arguments);
    if (!verdict.allowed) return { behavior: { type: "rejectContent", message: verdict.text } };
    asked.set(toolCall, verdict);
    return { behavior: { type: "allow" } };
  };

  async function invoke(context: any, input: string, details: any): Promise<unknown> {
    const { toolCall, signal }: { toolCall?: ToolCall; signal?: AbortSignal } = details ?? {};
    const verdict = (toolCall && asked.get(toolCall)) ?? (await session.before(toolCall?.callId, tool.name, input));
    if (toolCall) asked.delete(toolCall);
    if (!verdict.allowed) return verdict.text;
    let output: unknown;
    try {
      signal?.throwIfAborted(); // the run was cancelled while the call waited
      output = await tool.invoke(context, verdict.changed ? JSON.stringify(verdict.args) : input, details);
    } catch (error) {
      await session.failed(verdict.callId, error);
      throw error;
    }
    const hints = await session.after(verdict.callId, output, output === FAILED ? { error: output } : {});
    if (typeof output === "string" && !tool.outputSchema) return withHints(output, hints);
    session.keep(hints);
    return output;
  }

  const own = Object.create(Object.getPrototypeOf(tool), Object.getOwnPropertyDescriptors(tool)); // with its symbols
  const inputGuardrails = [...(tool.inputGuardrails ?? []), { type: "tool_input", name: "haltline", run }];
  ours.add(Object.assign(own, { inputGuardrails, invoke }));
  return own;
}

function guardedModel(model: Model, session: Session): Model {
  if (ours.has(model)) return model;
  const own = overridden(model, {
    async getResponse(request: any) {
      await session.beforeTurn();
      const response = await model.getResponse(request);
      await session.turn(turnOf(response));
      return response;
    },
    async *getStreamedResponse(request: any) {
      await session.beforeTurn();
      for await (const event of model.getStreamedResponse(request)) {
        if (event.type === "response_done") await session.turn(turnOf(event.response)); // before its calls
        yield event;
      }
    },
  });
  ours.add(own);
  return own;
}

function guardedProvider(provider: ModelProvider, session: Session): ModelProvider {
  return overridden(provider, { getModel: async (name) => guardedModel(await provider.getModel(name), session) });
}

function guardedServer(server: MCPServer, session: Session): MCPServer {
  const call = (make: Fn, answer: Fn) => (name: string, args: object | null, ...more: unknown[]) =>
    session.run(name, args ?? {}, (allowed) => make.call(server, name, allowed, ...more)).catch((error: unknown) => {
      if (error instanceof Refused) return answer([{ type: "text", text: withHints(error.message, error.hints) }]);
      throw error;
    });
  const { callTool, callToolResult } = server;
  const whole = callToolResult && { callToolResult: call(callToolResult, (content) => ({ content, isError: true })) };
  return overridden(server, { callTool: call(callTool, (content: unknown) => content), ...whole });
}

/** Returns the object with other methods; all others are called on itself, where its private fields are. */
function overridden<T extends object>(object: T, methods: Record<string, Fn>): T {
  const get = (_: T, key: string | symbol) => {
    if (typeof key === "string" && Object.hasOwn(methods, key)) return methods[key];
    const value: unknown = Reflect.get(object, key, object);
    return typeof value === "function" ? value.bind(object) : value;
  };
  return new Proxy(object, { get });
}

function turnOf({ usage, output }: { usage: any; output: readonly any[] }): Turn {
  const details: any[] = [usage?.inputTokensDetails ?? []].flat();
  const cached = details.reduce((sum, one) => sum + (one?.cached_tokens ?? 0), 0);
  const parts = output.flatMap((item) => (item.type === "message" ? item.content : []));
  const said = parts.map((part: any) => part.text ?? "").join("\n");
  return { usage: usageOf(usage?.inputTokens, usage?.outputTokens, cached), output: said };
}
