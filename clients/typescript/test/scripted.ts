/** For the tests of adapters: a session whose verdicts are the test's, and a model that plays a script. */

import { MockLanguageModelV4 } from "ai/test";

import { Session, type SessionOptions } from "../src/index.js";
import type { Outcome, ProposedCall, SessionInfo, Transport, TurnEvent, Verdict } from "../src/transport.js";

export const ALLOWED: Verdict = { allowed: true, killed: false };
export const BLOCKED: Verdict = { allowed: false, killed: false, code: "block", message: "Not this." };
export const KILLED: Verdict = { allowed: false, killed: true, code: "session_killed_loop_guard", message: "Stopped." };

/** What was said, in order: `call work`, `result work ok`, `turn 9`. */
export class Scripted implements Transport {
  readonly said: string[] = [];
  readonly calls: ProposedCall[] = [];
  #isKilled = false;

  /** What each call is answered with; KILLED also stops every turn after it. */
  constructor(readonly decide: (call: ProposedCall) => Verdict | Promise<Verdict> = () => ALLOWED) {}

  kill(): void {
    this.#isKilled = true;
  }

  async open(_: SessionInfo): Promise<void> {}

  async verdict(call: ProposedCall): Promise<Verdict> {
    this.said.push(`call ${call.action}`);
    this.calls.push(call);
    const verdict = this.#isKilled ? KILLED : await this.decide(call);
    if (verdict.killed) this.#isKilled = true;
    return verdict;
  }

  async turnVerdict(): Promise<Verdict> {
    return this.#isKilled ? KILLED : ALLOWED;
  }

  async result(callId: string, { outcome }: Outcome): Promise<void> {
    this.said.push(`result ${this.calls.findLast((call) => call.callId === callId)?.action} ${outcome}`);
  }

  async event({ usage, output }: TurnEvent): Promise<void> {
    this.said.push(`turn ${usage?.inputTokens}+${usage?.cacheReadTokens} ${output?.head ?? ""}`.trim());
  }

  below(): Transport {
    return this;
  }

  async close(): Promise<void> {}

  session(options: SessionOptions = {}): Session {
    return new Session(this, { onWarning: () => {}, ...options });
  }
}

export interface Call {
  name: string;
  args?: object;
  id?: string;
}

/**
 * A model whose turns are these calls and then "the end"; what it read of its calls is in `read`. Of no type: Mastra's
 * and the AI SDK's differ.
 */
export function model(...script: Call[][]): any {
  const usage: any = { inputTokens: { total: 9, noCache: 5, cacheRead: 4 }, outputTokens: { total: 2, text: 2 } };
  let ids = 0;
  const turn = (prompt: any[]) => {
    const calls = script[made.turns++] ?? [];
    made.read = prompt.flatMap((message) => (message.role === "tool" ? message.content.map(({ output }: any) => textOf(output)) : []));
    const parts: any[] = calls.map(({ name, args = {}, id }) => {
      return { type: "tool-call", toolCallId: id ?? `c${ids++}`, toolName: name, input: JSON.stringify(args) };
    });
    const end: any = { finishReason: { unified: calls.length ? "tool-calls" : "stop", raw: undefined }, usage };
    return { parts, end };
  };
  const made: any = new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const { parts, end } = turn(prompt);
      return { content: parts.length ? parts : [{ type: "text", text: "the end" }], ...end, warnings: [] };
    },
    doStream: async ({ prompt }) => {
      const { parts, end } = turn(prompt);
      const text: any[] = [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: "the end" }, { type: "text-end", id: "t" }];
      const chunks: any[] = [{ type: "stream-start", warnings: [] }, ...(parts.length ? parts : text), { type: "finish", ...end }];
      return { stream: new ReadableStream({ start: (to) => (chunks.forEach((chunk) => to.enqueue(chunk)), to.close()) }) };
    },
  });
  made.read = [];
  made.turns = 0;
  return made;
}

function textOf({ type, value, reason }: any): string {
  if (type === "content") return value.map((part: any) => part.text ?? `[${part.type}]`).join("\n\n");
  return typeof value === "string" ? value : JSON.stringify(value ?? reason);
}
