/** The service of this process: `haltline agent --listen`, started and ended by it; decides itself, or by workers over Kafka. */

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

import { checked, MODES, type SessionOptions } from "./options.js";
import { HttpService, type ServiceOptions } from "./service.js";
import { Session } from "./session.js";

const END_MS = 10_000;
/** Includes restarting an intake that has died. */
const BUDGET_MS = 20_000;
const TAIL_CHARS = 2000;
/** An intake that ends more often than that in so many milliseconds is not started again. */
const MAX_ENDS = 3;
const ENDS_WITHIN_MS = 60_000;

export interface LocalOptions {
  /** The command line of haltline, a program and its first arguments: `["haltline"]`. */
  readonly command?: readonly string[] | undefined;
  /** Kafka's address, for the modes `async` and `blocking`; or `HALTLINE_BOOTSTRAP`. */
  readonly bootstrap?: string | undefined;
  /** In mode `local`: the policy file; or `HALTLINE_AGENT_POLICY`. Left out: all defaults. */
  readonly policy?: string | undefined;
  /** The author's rules, in addition to those of `HALTLINE_AGENT_RULES`. */
  readonly rules?: Readonly<Record<string, unknown>> | undefined;
  /** How long the intake may take to start, in milliseconds: 60,000. */
  readonly startBudgetMs?: number | undefined;
}

/**
 * Creates a session of a service that this process starts. `mode`: `local` (default) decides on this machine; `async`
 * and `blocking` by workers, over Kafka. Sessions of one process with the same options share a service, which ends with
 * the last of them or with this process. Rejects with Error if it cannot be started, for example if haltline is not
 * installed.
 */
export async function localSession(options: LocalOptions & SessionOptions = {}): Promise<Session> {
  const { command, bootstrap, policy, rules, startBudgetMs, mode = "local", ...others } = options;
  checked(mode, MODES, "mode");
  const key = JSON.stringify([command, mode, bootstrap, policy, rules]);
  const started = { command, mode, bootstrap, policy, rules, startBudgetMs };
  const intake = intakes.get(key) ?? new LocalIntake(key, started, options.onWarning);
  return new Session(new LocalService(intake, await intake.joined()), others);
}

/** Creates a session of a service that runs on this machine: `haltline agent --listen`, or a sidecar. */
export function httpSession(options: ServiceOptions & SessionOptions = {}): Session {
  return new Session(new HttpService(options), options);
}

/** One session's connection to the service of its process. */
class LocalService extends HttpService {
  constructor(
    private readonly intake: LocalIntake,
    private readonly url: string,
  ) {
    super({ url, token: intake.token, budgetMs: BUDGET_MS });
  }

  override below(): LocalService {
    void this.intake.joined();
    return new LocalService(this.intake, this.url);
  }

  override close(): Promise<void> {
    return this.intake.left();
  }

  protected override get gone(): string | undefined {
    return this.intake.gone;
  }
}

const intakes = new Map<string, LocalIntake>();

/** The intake process. It ends when its standard input closes: at the latest with this process. */
class LocalIntake {
  readonly token = randomBytes(24).toString("hex");
  /** Why it is not started again; undefined: it runs, or is. */
  gone: string | undefined;
  readonly #key: string;
  readonly #options: LocalOptions & { readonly mode: string };
  readonly #warn: (message: string) => void;
  #users = 0;
  #started: Promise<string> | undefined;
  #child: ChildProcessWithoutNullStreams | undefined;
  #endedAt: number[] = [];
  #isEnding = false;

  constructor(key: string, options: LocalOptions & { readonly mode: string }, warn?: (message: string) => void) {
    this.#key = key;
    this.#options = options;
    this.#warn = warn ?? ((message) => process.emitWarning(message));
    intakes.set(key, this);
  }

  /** Returns its address once it responds. Each call is followed by one `left`, unless it rejects. */
  async joined(): Promise<string> {
    this.#users++;
    this.#started ??= this.#start("0");
    try {
      return await this.#started;
    } catch (error) {
      await this.left();
      throw error;
    }
  }

  async left(): Promise<void> {
    if (--this.#users > 0 || this.#isEnding) return;
    this.#isEnding = true;
    this.#unshare();
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
      child.once("exit", () => resolve(clearTimeout(timer)));
      child.stdin.end();
    });
  }

  async #start(port: string): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "haltline-")); // accessible to this user only
    try {
      const [program = "haltline", ...first] = this.#options.command ?? [];
      await writeFile(join(folder, "token"), this.token, { mode: 0o600 });
      const options = ["--listen", `127.0.0.1:${port}`, "--token-file", join(folder, "token"), "--until-stdin-ends"];
      const env = await this.#environment(folder);
      // In its own process group: this process handles interrupts of the terminal.
      this.#child = spawn(program, [...first, "agent", "--mode", this.#options.mode, ...options], { env, detached: true, windowsHide: true });
      if (this.#isEnding) this.#child.stdin.end(); // the last session has left since
      return await this.#address(this.#child, program);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async #environment(folder: string): Promise<NodeJS.ProcessEnv> {
    const { bootstrap, policy, rules } = this.#options;
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("HALTLINE_INTAKE_")));
    if (bootstrap !== undefined) env["HALTLINE_BOOTSTRAP"] = bootstrap;
    if (policy !== undefined) env["HALTLINE_AGENT_POLICY"] = policy;
    if (rules === undefined) return env;
    const file = join(folder, "rules.json");
    await writeFile(file, JSON.stringify(rules));
    return { ...env, HALTLINE_AGENT_RULES: [env["HALTLINE_AGENT_RULES"], file].filter(Boolean).join(delimiter) };
  }

  #address(child: ChildProcessWithoutNullStreams, program: string): Promise<string> {
    let said = "";
    let tail = "";
    child.stdin.on("error", () => {}); // it has ended
    child.stderr.on("data", (part: Buffer) => (tail = (tail + part.toString()).slice(-TAIL_CHARS)));
    return new Promise((resolve, reject) => {
      const budgetMs = this.#options.startBudgetMs ?? 60_000;
      const timer = setTimeout(() => {
        child.kill();
        reject(new Error(`${program} agent: expected to be ready within ${budgetMs} ms, got: ${tail}`));
      }, budgetMs);
      child.on("error", (error) => {
        clearTimeout(timer);
        reject(new Error(`expected haltline's command line, got none (${error.message}): pip install 'haltline[intake]'`));
      });
      child.on("exit", (code, signal) => {
        clearTimeout(timer);
        const why = `${program} agent has ended (${code ?? signal}): ${tail.trim()}`;
        reject(new Error(why));
        if (said !== "") void this.#again(why, new URL(said).port);
      });
      child.stdout.on("data", (part: Buffer) => {
        const [, address] = /^(http:\S+)\n/.exec(said + part.toString()) ?? [];
        said += part.toString();
        if (address === undefined) return;
        clearTimeout(timer);
        child.unref();
        for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as unknown as Socket).unref();
        resolve(address);
      });
    });
  }

  /** Starts it again at the same address, where its sessions find it. Counts that were not sent yet are lost. */
  async #again(why: string, port: string): Promise<void> {
    if (this.#isEnding) return;
    const now = performance.now();
    this.#endedAt = [...this.#endedAt.filter((at) => now - at < ENDS_WITHIN_MS), now];
    if (this.#endedAt.length > MAX_ENDS) {
      this.gone = `${why}; it is not started again`;
      this.#unshare(); // a further session starts one of its own
      return this.#warn(`haltline: ${this.gone}`);
    }
    this.#warn(`haltline: ${why}; it is started again`);
    await this.#start(port).catch((error: unknown) => this.#again(String(error), port));
  }

  #unshare(): void {
    if (intakes.get(this.#key) === this) intakes.delete(this.#key);
  }
}
