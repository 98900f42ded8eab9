/**
 * For Mastra (`@mastra/core`): one session's calls, turns and hints.
 *
 *     const agent = new Agent(guarded({ id: "cleaner", name: "cleaner", instructions, model, tools }, session));
 *
 * A run may bring `hooks` of its own, and these replace the agent's; or `inputProcessors`, and these replace the agent's.
 * So each call is checked once, in one of two places: by the tools of the step, as the last of the agent's processors sees
 * them (with those that a run or a processor has added), and otherwise by the hook. A run that replaces both is not
 * guarded; nor are tools that a run's `prepareStep` adds, which comes after all processors, tools that run at the
 * model's provider or at a client, and the calls of a subagent: guard each agent.
 */

import { errorOf, HintsByCall, type Shown, shownWith, usageOf } from "./model_text.js";
import type { Allowed } from "./options.js";
import type { Session } from "./session.js";

// Mastra's own types depend on the tools of each agent; what is used of them here does not.
type Fn = (...args: any[]) => any;
type Tool = { execute?: Fn };
type Context = { toolCallId?: string; abortSignal?: AbortSignal };
type HookContext = { toolName: string; input: unknown; context: Context; output?: unknown; error?: unknown };
type Chunk = { type: string; payload: any };

/** The used part of an `Agent`'s config. */
type Config = { hooks?: { beforeToolCall?: Fn; afterToolCall?: Fn }; inputProcessors?: readonly unknown[] | Fn };

/**
 * Returns the config with a guard. A refused call is an error that the model reads. In a stopped session no further
 * turn is made, and the run ends with a `tripwire`: `generate` does not reject, see `result.tripwire`.
 */
export function guarded<C extends object>(config: C, session: Session): C {
  const { hooks, inputProcessors } = config as Config;
  const guard = new HaltlineProcessor(session);
  return {
    ...config,
    hooks: {
      ...hooks,
      async beforeToolCall(call: HookContext) {
        const answer = await hooks?.beforeToolCall?.(call); // first, as it may change the call in place
        if (answer?.proceed !== false) await guard.beforeHooked(call);
        return answer;
      },
      async afterToolCall(call: HookContext) {
        await guard.afterHooked(call);
        await hooks?.afterToolCall?.(call); // its exceptions become the call's error
      },
    },
    inputProcessors:
      typeof inputProcessors === "function"
        ? async (...args: unknown[]) => [...((await inputProcessors(...args)) ?? []), guard]
        : [...(inputProcessors ?? []), guard], // last, so that it sees the tools that the others add
  };
}

/** Put it last in an agent's `inputProcessors`, or in those of a run. */
export class HaltlineProcessor {
  readonly id = "haltline";
  readonly #session: Session;
  readonly #hints = new HintsByCall();
  /** Calls that were checked, by the context that Mastra passes with each. */
  readonly #asked = new WeakMap<Context, Allowed | undefined>();

  constructor(session: Session) {
    this.#session = session;
  }

  /** Runs before each turn. Any error but a tripwire would make Mastra retry with the agent's other models. */
  async processInputStep({ tools, abort }: { tools?: Record<string, unknown>; abort: Fn }) {
    try {
      await this.#session.beforeTurn();
    } catch (error) {
      abort(error instanceof Error ? error.message : String(error));
    }
    const named = Object.entries(tools ?? {}).map(([name, tool]) => [name, this.#guarded(name, tool as Tool)]);
    return tools && { tools: Object.fromEntries(named) };
  }

  /** Adds the hints to the prompt, and leaves the results unchanged. */
  processLLMRequest({ prompt }: { prompt: readonly { role: string; content: unknown }[] }): any {
    const seen = new Set<string>(); // of calls with one id, the last one's hints apply
    const shown = prompt.toReversed().map((message) => {
      if (message.role !== "tool" || !Array.isArray(message.content)) return message;
      const parts = message.content.toReversed().map((part: { toolCallId: string; output?: Shown }) => {
        if (!part.output || seen.has(part.toolCallId)) return part;
        seen.add(part.toolCallId);
        return { ...part, output: shownWith(part.output, this.#hints.of(part.toolCallId)) };
      });
      return { ...message, content: parts.toReversed() };
    });
    return { prompt: shown.toReversed() };
  }

  /** Runs after each turn, before its calls: with this method, Mastra starts none of them early. */
  async processLLMResponse({ chunks, fromCache }: { chunks: readonly Chunk[]; fromCache: boolean }): Promise<void> {
    const output = chunks.map(({ type, payload }) => (type === "text-delta" ? payload.text : "")).join("");
    const used = chunks.findLast(({ type }) => type === "finish")?.payload?.output?.usage;
    await this.#session.turn({ output, ...(used && !fromCache && { usage: usageOf(used.inputTokens, used.outputTokens, used.cachedInputTokens) }) });
  }

  /** For `hooks.beforeToolCall`: checks calls that the step's tools have not checked. Throws for a refused call. */
  async beforeHooked({ toolName, input, context }: HookContext): Promise<void> {
    if (this.#asked.has(context)) return;
    const verdict = await this.#ask(toolName, input, context);
    this.#asked.set(context, verdict);
    if (!verdict.changed || typeof input !== "object" || input === null) return;
    for (const name of Object.keys(input)) delete (input as Record<string, unknown>)[name];
    Object.assign(input, verdict.args); // a hook has no other way
  }

  /** For `hooks.afterToolCall`. */
  async afterHooked({ context, output, error }: HookContext): Promise<void> {
    const verdict = this.#asked.get(context); // none: the step's tools check and report
    if (verdict) await this.#end(verdict, context, output, error);
  }

  /** Returns the tool with a check before it is executed; one without `execute` runs elsewhere. */
  #guarded(name: string, tool: Tool): Tool {
    const { execute } = tool;
    if (typeof execute !== "function") return tool;
    const called = async (input: unknown, context: Context = {}) => {
      if (this.#asked.has(context)) return await execute.call(tool, input, context); // guarded by an earlier step
      const verdict = await this.#ask(name, input, context);
      this.#asked.set(context, undefined);
      let output: unknown, error: unknown;
      try {
        context.abortSignal?.throwIfAborted(); // the run was cancelled while the call waited
        return (output = await execute.call(tool, verdict.changed ? verdict.args : input, context));
      } catch (thrown) {
        error = thrown ?? "failed";
        throw thrown;
      } finally {
        await this.#end(verdict, context, output, error);
      }
    };
    return Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, { execute: called }); // for Mastra's tools
  }

  async #ask(name: string, input: unknown, context: Context): Promise<Allowed> {
    const verdict = await this.#session.before(context.toolCallId, name, input);
    if (!verdict.allowed) throw errorOf(verdict);
    return verdict;
  }

  async #end({ callId }: Allowed, context: Context, output: unknown, error: unknown): Promise<void> {
    const given = output as { validationErrors?: unknown; message?: unknown } | null | undefined; // an error of Mastra
    const failure = error ?? (given?.validationErrors === undefined ? undefined : given.message);
    this.#hints.set(context.toolCallId ?? callId, await this.#session.after(callId, output, { error: failure }));
  }
}
