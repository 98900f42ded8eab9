/** For the tests: a session whose verdicts are the test's, and a model that plays a script. */

import { MockLanguageModelV4 } from "ai/test";

import { type Service, Session, type SessionOptions } from "../src/index.js";

type Body = Record<string, any>;
/** What the service answers, or the error with which it fails. */
export type Answer = Body | Error;

export const ALLOWED: Body = { answer: "allow" };
export const BLOCKED: Body = { answer: "refuse", code: "block", message: "Not this." };
export const KILLED: Body = { answer: "stop", code: "session_killed_loop_guard", message: "Stopped." };

export class Scripted implements Service {
  /** What was said, in order: `call work`, `result work ok`, `turn 9`. */
  readonly said: string[] = [];
  readonly calls: Body[] = [];
  readonly asked: [verb: string, body: Body][] = [];
  readonly warned: string[] = [];
  /** The answer about each turn. */
  turn: Answer = ALLOWED;
  #isKilled = false;

  /** What each call is answered with; KILLED also stops every turn after it. */
  constructor(readonly decide: (call: Body) => Answer | Promise<Answer> = () => ALLOWED) {}

  /** Answers with each in turn, and then allows. */
  static of(...answers: Answer[]): Scripted {
    return new Scripted(() => answers.shift() ?? ALLOWED);
  }

  kill(): void {
    this.#isKilled = true;
  }

  async ask(verb: string, body: Body): Promise<Body> {
    this.asked.push([verb, body]);
    const answer = await this.#answer(verb, body);
    if (answer instanceof Error) throw answer;
    if (answer["answer"] === "stop") this.#isKilled = true;
    return answer;
  }

  async #answer(verb: string, body: Body): Promise<Answer> {
    const { asks, action, call_id, outcome = "ok", usage, output = "" } = body;
    if (verb === "begin") return { token: `of ${body["session_id"]}`, protocol: 1, release: "1.0.0", answer: "allow" };
    if (verb === "turn" && asks === true) return this.#isKilled ? KILLED : this.turn;
    if (usage !== undefined) this.said.push(`turn ${usage?.input_tokens}+${usage?.cache_read_tokens} ${output}`.trim());
    if (verb === "end") {
      const ended = this.calls.findLast((call) => call["call_id"] === call_id);
      this.said.push(`result ${ended?.["action"]} ${outcome}`);
    }
    if (verb !== "propose") return ALLOWED;
    this.said.push(`call ${action}`);
    this.calls.push(body);
    return this.#isKilled ? KILLED : this.decide(body);
  }

  below(): Service {
    return this;
  }

  async close(): Promise<void> {}

  session(options: SessionOptions = {}): Session {
    return new Session(this, { onWarning: (message) => this.warned.push(message), ...options });
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
