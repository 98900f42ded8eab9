/**
 * For LangGraph.js: one session's calls, turns and hints.
 *
 *     const agent = createAgent(guarded({ model, tools }, session)); // of `langchain`
 *
 * A graph of your own has guarded tools in its `ToolNode`, and is guarded itself, for the turns of its models:
 *
 *     const tools = new ToolNode(guardedTools([search, deleteAsset], session));
 *     const graph = guardedGraph(new StateGraph(MessagesAnnotation).addNode("tools", tools) ... .compile(), session);
 *
 * Subgraphs are of the same session. An agent that is a tool has one of its own: guard it with `session.subagent()`.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { ToolMessage } from "@langchain/core/messages";

import { usageOf } from "./model_text.js";
import type { Turn } from "./options.js";
import type { Session } from "./session.js";
import { isObject, withHints } from "./texts.js";

// LangGraph's own types depend on the state of each graph; what is used of them here does not.
type Fn = (...args: any[]) => any;
type Args = Record<string, unknown>;
type Call = { readonly id?: string; readonly name: string; readonly args: Args };
type Config = { readonly signal?: AbortSignal } | undefined;
type Tool = { readonly name: string; readonly invoke: Fn };

/** Tools that are guarded already. */
const ours = new WeakSet<object>();
/** The session of each turn that has begun, by its run: that of the innermost graph. */
const turns = new Map<string, Session>();
/** Whether an agent's guard has checked the turn, so that no graph above does. */
const checked = new AsyncLocalStorage<true>();

/**
 * Returns the options of `createAgent` with a guard. The model reads why a call was refused as its result. The run of a
 * stopped session rejects with an error that is named `Refused`, and has the Refused as its cause.
 */
export function guarded<O extends object>(options: O, session: Session): O {
  const { middleware = [] } = options as { middleware?: readonly { readonly wrapToolCall?: unknown }[] };
  const isAlone = !middleware.some(({ wrapToolCall }) => wrapToolCall !== undefined);
  // The last is the innermost: it sees the final arguments, and the tools that others add.
  return { ...options, middleware: [...middleware, haltlineMiddleware(session, isAlone)] };
}

/** Returns the tools for a `ToolNode`, each with a check before it is executed; the provider's as they are. */
export function guardedTools<T extends readonly unknown[]>(tools: T, session: Session): T {
  return tools.map((tool) => guardedTool(tool as Tool, session)) as unknown as T;
}

/** Returns the graph with its models' turns checked and reported: a run of a stopped session rejects with Refused. */
export function guardedGraph<G extends { withConfig: Fn }>(graph: G, session: Session): G {
  const start = async (_llm: unknown, _prompt: unknown, id: string) => {
    if (checked.getStore()) return;
    turns.set(id, session);
    await undefined; // the graphs above call theirs before, and those below after this
    if (turns.get(id) !== session) return;
    await session.beforeTurn().catch((error: unknown) => (turns.delete(id), Promise.reject(error)));
  };
  const handler = BaseCallbackHandler.fromMethods({
    handleChatModelStart: start,
    handleLLMStart: start,
    handleLLMError: (_, id) => void turns.delete(id),
    handleLLMEnd: async ({ generations }, id) => {
      if (turns.get(id) === session && turns.delete(id)) await session.turn(turnOf(generations[0]?.[0] ?? {}));
    },
  });
  return graph.withConfig({ callbacks: [Object.assign(handler, { raiseError: true, awaitHandlers: true })] });
}

function haltlineMiddleware(session: Session, isAlone: boolean) {
  return {
    name: "haltline",
    wrapToolCall(request: { toolCall: Call; runtime?: Config }, handler: Fn): Promise<unknown> {
      const { toolCall, runtime } = request;
      const make = (args: Args) => handler({ ...request, toolCall: { ...toolCall, args } });
      // Without a middleware for tools, langchain gives the model a tool's error; with one, it ends the run.
      const shown = (error: unknown) => errorOf(error, toolCall, runtime);
      return called(session, toolCall, runtime, isAlone ? (args) => make(args).catch(shown) : make);
    },
    async wrapModelCall(request: unknown, handler: Fn) {
      await session.beforeTurn();
      const made = await checked.run(true, handler, request);
      await session.turn(turnOf({ message: made.messages?.[0] ?? made }));
      return made;
    },
  };
}

function guardedTool(tool: Tool, session: Session): Tool {
  if (ours.has(tool) || typeof tool.invoke !== "function") return tool;
  const invoke = (input: any, config: Config) => {
    const make = (args: Args) => tool.invoke({ ...input, args }, config);
    if (input?.type === "tool_call") return called(session, input, config, make);
    if (!isObject(input)) return session.run(tool.name, { input }, (args) => tool.invoke(args.input, config));
    return session.run(tool.name, input, (args) => tool.invoke(args, config));
  };
  const own = Object.create(tool, { invoke: { value: invoke } }) as Tool;
  ours.add(own);
  return own;
}

/** Makes a call of a model if it may be made; returns its ToolMessage, or the Command that the tool returned. */
async function called(session: Session, { id, name, args }: Call, config: Config, make: (args: Args) => Promise<any>) {
  const verdict = await session.before(id, name, args);
  if (!verdict.allowed) return failure(verdict.text, id, name);
  let result: any;
  try {
    config?.signal?.throwIfAborted(); // the run was cancelled while the call waited
    result = await make(verdict.changed ? verdict.args : args);
  } catch (error) {
    await session.failed(verdict.callId, isInterrupt(error) ? new DOMException("interrupted", "AbortError") : error);
    throw error;
  }
  const message: ToolMessage | undefined = ToolMessage.isInstance(result) ? result : undefined; // else a Command
  const failed = message?.status === "error" ? { error: message.text } : {};
  const hints = await session.after(verdict.callId, message?.text, failed);
  if (message !== undefined && hints) return hinted(message, hints);
  session.keep(hints);
  return result;
}

function failure(content: string, id: string | undefined, name: string): ToolMessage {
  return new ToolMessage({ content, tool_call_id: id ?? "", name, status: "error" });
}

function hinted(message: ToolMessage, hints: string): ToolMessage {
  const { content: own } = message;
  const content = typeof own === "string" ? withHints(own, hints) : [...own, { type: "text", text: hints }];
  return Object.assign(Object.create(Object.getPrototypeOf(message)), message, { content });
}

/** Returns a tool's error as langchain shows it to a model. Throws it where langchain handles it itself. */
function errorOf(error: any, { id, name }: Call, config: Config): ToolMessage {
  if (error?.["~brand"] === "ToolInvocationError" || isInterrupt(error) || config?.signal?.aborted) throw error;
  return failure(`${error}\n Please fix your mistakes.`, id, name);
}

/** Whether LangGraph throws it to interrupt the graph: when it is resumed, the call is made again. */
function isInterrupt(error: any): boolean {
  return error?.is_bubble_up === true;
}

function turnOf({ message, text }: { message?: any; text?: string }): Turn {
  const used = message?.usage_metadata;
  const usage = used && usageOf(used.input_tokens, used.output_tokens, used.input_token_details?.cache_read);
  return { output: message?.text ?? text, ...(used && { usage }) };
}
