/**
 * For the Vercel AI SDK (`ai`): one session's calls, turns and hints.
 *
 *     const result = await generateText(guarded({ model, tools, prompt, stopWhen: isStepCount(20) }, session));
 *
 * The same for `streamText` and `new ToolLoopAgent(...)`. Each call is checked where the SDK executes it: after a person's
 * approval, with the final arguments. `toolApproval` could not change these, and is called both before and after the
 * person's approval. Callbacks (`onToolExecutionStart`, `onStepEnd` ...) cannot refuse: the SDK
 * drops what they throw. Tools that run at the model's provider are not executed here, so they are not guarded.
 */

import type { ToolSet } from "ai";

import { errorOf, HintsByCall, type Shown, shownOf, shownWith, usageOf } from "./model_text.js";
import type { Session } from "./session.js";

// The SDK's own types depend on the tools of each call; what is used of them here does not.
type Fn = (...args: any[]) => any;
type AnyTool = ToolSet[string];

/** The used options of `generateText` and `streamText`, or settings of a `ToolLoopAgent`. */
export interface Options {
  tools?: ToolSet | undefined;
  prepareStep?: Fn | undefined;
  prepareCall?: Fn | undefined;
  onLanguageModelCallEnd?: Fn | undefined;
  experimental_onLanguageModelCallEnd?: Fn | undefined;
}

/** Tools and callbacks that are guarded already, as `prepareCall` may return them again. */
const ours = new WeakSet<object>();

/**
 * The same options with guarded tools. A refused call is an error that the model reads; if the session was stopped,
 * the next turn is not made: `generateText` rejects with Refused, and the stream of `streamText` has it as its error.
 *
 * Throws TypeError for a tool without `execute`: its result comes from elsewhere, so it cannot be guarded here.
 */
export function guarded<O extends object>(options: O, session: Session): O {
  const { tools, prepareStep, prepareCall, ...given } = options as Options;
  const onCallEnd = given.onLanguageModelCallEnd ?? given.experimental_onLanguageModelCallEnd;
  const mine = {
    ...(tools && { tools: guardedTools(tools, session) }),
    prepareStep: once(prepareStep, async (step) => {
      await session.beforeTurn(); // throws Refused, also if `prepareStep` chooses another model
      return await prepareStep?.(step);
    }),
    onLanguageModelCallEnd: once(onCallEnd, async (end) => {
      await session.turn(turnOf(end)); // before the calls of this turn are checked
      await onCallEnd?.(end);
    }),
    // For an agent: its return value replaces the settings, including tools. The SDK reads it nowhere else.
    prepareCall: once(prepareCall, async (call) => guarded((await prepareCall?.(call)) ?? call, session)),
  };
  return { ...options, ...mine };
}

/** Returns each tool with a check before it is executed. */
export function guardedTools<T extends ToolSet>(tools: T, session: Session): T {
  const hints = new HintsByCall();
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, guardedTool(name, tool, session, hints)])) as T;
}

function guardedTool(name: string, tool: AnyTool, session: Session, hints: HintsByCall): AnyTool {
  if (ours.has(tool) || tool.isProviderExecuted) return tool;
  const { execute, toModelOutput } = tool as { execute?: Fn; toModelOutput?: Fn };
  if (typeof execute !== "function") {
    throw new TypeError(`tools.${name}: expected a tool with execute, got one whose result comes from elsewhere`);
  }

  async function* called(input: unknown, options: { toolCallId: string; abortSignal?: AbortSignal }): AsyncGenerator<unknown> {
    hints.set(options.toolCallId, "");
    const verdict = await session.before(options.toolCallId, name, input);
    if (!verdict.allowed) throw errorOf(verdict);
    let output: unknown;
    let error: unknown = "its result was not read to the end";
    try {
      options.abortSignal?.throwIfAborted(); // the run was cancelled while the call waited
      const result: unknown = execute?.(verdict.changed ? verdict.args : input, options);
      if (isStream(result)) for await (output of result) yield output;
      else yield (output = await result);
      error = undefined;
    } catch (thrown) {
      error = thrown;
      throw thrown;
    } finally {
      if (error === undefined) hints.set(options.toolCallId, await session.after(verdict.callId, output));
      else await session.failed(verdict.callId, error);
    }
  }

  const own = {
    ...tool,
    // The SDK streams the parts of a generator at once, so only a tool that is one may return one.
    execute: execute.constructor.name === "AsyncGeneratorFunction" ? called : (input: any, options: any) => last(called(input, options)),
    toModelOutput: async (made: { toolCallId: string; input: unknown; output: unknown }) => {
      const shown: Shown = toModelOutput === undefined ? shownOf(made.output) : await toModelOutput(made);
      return shownWith(shown, hints.of(made.toolCallId));
    },
  };
  ours.add(own);
  return own as AnyTool;
}

/** Returns `mine`, unless `given` is of this module already. */
function once<F extends Fn>(given: Fn | undefined, mine: F): Fn {
  if (given !== undefined && ours.has(given)) return given;
  ours.add(mine);
  return mine;
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

async function last(parts: AsyncIterable<unknown>): Promise<unknown> {
  let part: unknown;
  for await (part of parts);
  return part;
}

function turnOf({ usage, content }: { usage?: Record<string, any>; content?: readonly { type: string; text?: string }[] }) {
  const output = (content ?? []).map((part) => (part.type === "text" ? (part.text ?? "") : "")).join("");
  const cached = usage?.["inputTokenDetails"]?.cacheReadTokens;
  return { usage: usageOf(usage?.["inputTokens"], usage?.["outputTokens"], cached), output };
}
