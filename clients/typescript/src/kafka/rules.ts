// The rules of an agent's author over one session, applied without a worker. No I/O; the clock is an argument. The same
// as the Python client's `RuleBook`, checked by its recorded answers; calls that are made once are in `once.ts`.
//
// The order: lists, arguments, evidence, loops, rates, budgets. The first refusal is reported. Only admitted calls count
// for rates and budgets; attempts count for the loop rule.

import { createHash } from "node:crypto";

import { namesOf } from "../effects.js";
import { sortedJson } from "../texts.js";
import { type Constraint, globOf, type RateLimit, type ReadRules } from "./rule_settings.js";

const TEXTS = {
  denied_action: "This tool must not be used here. Use another way that is allowed, or report what you wanted and why.",
  not_in_allowlist: "This tool is not among those that you may use. Use one of those, or report what you wanted and why.",
  argument_constraint_violated: "This call is not allowed with these arguments. Correct them, and do not repeat it as it is.",
  missing_evidence: "This call requires a lookup first. Do that, then repeat the call.",
  stale_evidence: "The lookup that this call requires is too old. Repeat the lookup first.",
  loop_detected: "You have made this same call repeatedly. Do not repeat it: use its result, or try something else.",
  rate_limited: "This tool is called too often. Wait, or continue with something else.",
  budget_exceeded: "The budget for this is used up. Report what is done and what is left.",
  budget_warning: "Most of the budget is used. Finish what matters most.",
};
const MAX_ACTIONS = 1024;
const MAX_CALLS = 1024;

/** An objection against a call, or a hint before it. */
export interface Objection {
  readonly code: string;
  /** The text for the model. */
  readonly message: string;
}

type Args = Readonly<Record<string, unknown>>;
type Against = (args: Args, nowMs: number) => Objection | undefined;

/** A call known to the rules; to be passed to `end` or `release`. */
export interface Ticket {
  readonly action: string;
  readonly costUsd: number;
  readonly refused: Objection | undefined;
  /** Hints for the model before the call. */
  readonly hints: readonly Objection[];
  held: readonly Budget[];
}

interface Applying {
  readonly against: readonly Against[];
  readonly argumentsAgainst: readonly Against[];
  readonly rates: readonly Rate[];
  readonly budgets: readonly Budget[];
  readonly priceUsd: number;
}

/** The state of one session under its rules. */
export class RuleBook {
  readonly #rules: ReadRules;
  readonly #session: Budget | undefined;
  readonly #run: Budget | undefined;
  readonly #budgets: readonly (readonly [string, Budget])[];
  readonly #rates: readonly (readonly [string, Rate])[];
  readonly #loops: readonly (readonly [string, Loop])[];
  readonly #seen = new Map<string, number>(); // the last success of each action that is evidence
  readonly #isEvidence: readonly RegExp[];
  readonly #applying = new Map<string, Applying>();

  constructor(rules: ReadRules) {
    this.#rules = rules;
    const budget = (usd: number | null): Budget | undefined =>
      usd === null ? undefined : new Budget(usd, rules.budget_warning_thresholds);
    this.#session = budget(rules.session_budget);
    this.#run = budget(rules.run_budget);
    const ofActions = Object.entries(rules.action_budgets);
    this.#budgets = ofActions.map(([glob, usd]) => [glob, new Budget(usd, rules.budget_warning_thresholds)]);
    this.#rates = Object.entries(rules.rate_limits).flatMap(([glob, all]) => all.map((one) => [glob, new Rate(one)] as const));
    this.#loops = rules.loop_rules.map((rule) => [rule.action, new Loop(rule)]);
    this.#isEvidence = Object.values(rules.evidence_requirements).flat().map(globOf);
  }

  /** Applies the rules to a call. `costUsd`: default: the rules' price. */
  begin(action: string, args: Args, nowMs: number, costUsd?: number): Ticket {
    const { against, rates, budgets, priceUsd } = this.#of(action);
    const cost = costUsd ?? priceUsd;
    const found = [
      ...against.map((one) => one(args, nowMs)),
      ...rates.map((one) => one.against(nowMs)),
      ...budgets.map((one) => one.against(cost)),
    ].filter((one) => one !== undefined);
    if (this.#rules.strict_mode && found[0]) return { action, costUsd: cost, refused: found[0], hints: [], held: [] };
    for (const one of rates) one.note(nowMs);
    for (const one of budgets) one.hold(cost);
    const warnings = budgets.map((one) => one.warning()).filter((one) => one !== undefined);
    return { action, costUsd: cost, refused: undefined, hints: [...found, ...warnings], held: budgets };
  }

  /** Records the end of a call, which is charged in any case. Returns its cost. */
  end(ticket: Ticket, nowMs: number, isOk: boolean): number {
    for (const one of ticket.held) one.spend(ticket.costUsd);
    if (isOk && this.#isEvidence.some((one) => one.test(ticket.action))) keep(this.#seen, ticket.action, nowMs);
    this.release(ticket);
    return ticket.costUsd;
  }

  /** Reverts a call that is not made. */
  release(ticket: Ticket): void {
    for (const one of ticket.held) one.release(ticket.costUsd);
    ticket.held = [];
  }

  /** Records the cost of a model turn. */
  spend(usd: number): void {
    this.#session?.spend(usd);
    this.#run?.spend(usd);
  }

  /** Starts the next run: its budget is unspent, and evidence is cleared. */
  beginRun(): void {
    this.#run?.beginAnew();
    this.#seen.clear();
  }

  /** Returns the violations in arguments that a decision has set instead of the admitted ones. */
  againstChanged(action: string, args: Args): { refused?: Objection; hint?: Objection } {
    const wrong = this.#of(action).argumentsAgainst.map((one) => one(args, 0)).find((one) => one !== undefined);
    if (wrong === undefined) return {};
    return this.#rules.strict_mode ? { refused: wrong } : { hint: wrong };
  }

  #of(action: string): Applying {
    let known = this.#applying.get(action);
    if (known === undefined) {
      if (this.#applying.size >= MAX_ACTIONS) this.#applying.clear(); // only cached rules are dropped, no counts
      known = this.#workOut(action);
      this.#applying.set(action, known);
    }
    return known;
  }

  #workOut(action: string): Applying {
    // Denials and counts apply with any server's prefix; permissions only to the whole name.
    const rules = this.#rules;
    const names = [...new Set([action, ...namesOf(action)])];
    const isMatched = (glob: string): boolean => names.some((name) => globOf(glob).test(name));
    const matching = <T>(pairs: Iterable<readonly [string, T]>): T[] => {
      return [...pairs].filter(([glob]) => isMatched(glob)).map(([, what]) => what);
    };
    const isAllowed = rules.allowed_actions?.some((glob) => globOf(glob).test(action)) ?? true;
    const listed = rules.denied_actions.some(isMatched) ? DENIED : isAllowed ? undefined : NOT_ALLOWED;
    const constraints = matching(Object.entries(rules.argument_constraints)).flat();
    const argumentsAgainst = constraints.map(({ required, properties }): Against => {
      const checks = Object.entries(properties).map(([name, one]) => [name, checkOf(one)] as const);
      return (args) => againstArguments(required, checks, args);
    });
    const required = matching(Object.entries(rules.evidence_requirements).map(([glob, one]) => [glob, [glob, one] as const]));
    return {
      against: [
        () => listed,
        ...argumentsAgainst,
        ...required.map(([glob, wanted]): Against => (_, nowMs) => this.#lacking(wanted, rules.evidence_max_age_seconds[glob], nowMs)),
        ...matching(this.#loops).map((one): Against => (args, nowMs) => one.against(action, args, nowMs)),
      ],
      argumentsAgainst,
      rates: matching(this.#rates),
      budgets: [this.#session, this.#run, ...matching(this.#budgets)].filter((one) => one !== undefined),
      priceUsd: Math.max(0, ...matching(Object.entries(rules.prices))),
    };
  }

  /** Returns missing or outdated evidence; evidence of exactly the maximum age is valid. */
  #lacking(wanted: readonly string[], maxAgeS: number | undefined, nowMs: number): Objection | undefined {
    const latest = (glob: string): number => {
      const is = globOf(glob);
      return Math.max(...[...this.#seen].filter(([name]) => is.test(name)).map(([, at]) => at), -Infinity);
    };
    const missing = wanted.filter((glob) => latest(glob) === -Infinity);
    if (missing.length > 0) return objection("missing_evidence", missing);
    const stale = wanted.filter((glob) => maxAgeS !== undefined && nowMs - latest(glob) > maxAgeS * 1000);
    return stale.length > 0 ? objection("stale_evidence", stale) : undefined;
  }
}

function objection(code: keyof typeof TEXTS, parts: readonly string[] = []): Objection {
  return { code, message: parts.length > 0 ? `${TEXTS[code]} (${parts.join("; ")})`.slice(0, 2000) : TEXTS[code] };
}

const DENIED = objection("denied_action");
const NOT_ALLOWED = objection("not_in_allowlist");

/** One limit and its spending. Sums are rounded, as ten times 0.1 is not 1 in binary. */
class Budget {
  #spent = 0;
  #held = 0;
  #reported = 0;
  readonly #limit: number;
  readonly #warnAt: readonly number[];

  constructor(limitUsd: number, warnAt: readonly number[]) {
    this.#limit = limitUsd;
    this.#warnAt = warnAt;
  }

  against(usd: number): Objection | undefined {
    return rounded(rounded(this.#spent + this.#held) + usd) <= this.#limit ? undefined : objection("budget_exceeded");
  }

  hold(usd: number): void {
    this.#held = rounded(this.#held + usd);
  }

  release(usd: number): void {
    this.#held = Math.max(0, rounded(this.#held - usd));
  }

  spend(usd: number): void {
    this.#spent = rounded(this.#spent + usd);
  }

  beginAnew(): void {
    this.#spent = this.#reported = 0;
  }

  /** Returns a warning, once for each threshold passed. */
  warning(): Objection | undefined {
    const percent = rounded((this.#spent / this.#limit) * 100);
    const passed = this.#limit > 0 ? this.#warnAt.filter((at) => percent >= at).length : 0;
    if (passed <= this.#reported) return undefined;
    this.#reported = passed;
    return objection("budget_warning");
  }
}

function rounded(usd: number): number {
  return Math.round(usd * 1e9) / 1e9;
}

/** One rate limit over admitted calls; an entry exactly as old as the window still counts. */
class Rate {
  readonly #limit: RateLimit;
  #times: number[] = [];

  constructor(limit: RateLimit) {
    this.#limit = limit;
  }

  against(nowMs: number): Objection | undefined {
    const { max_count: count, window_seconds: windowS } = this.#limit;
    const oldest = this.#times[0];
    const hasRoom = count > 0 && (oldest === undefined || this.#times.length < count || nowMs - oldest > windowS * 1000);
    return hasRoom ? undefined : objection("rate_limited");
  }

  note(nowMs: number): void {
    this.#times.push(nowMs);
    if (this.#times.length > Math.max(1, this.#limit.max_count)) this.#times.shift();
  }
}

/** One loop rule of one session. */
class Loop {
  readonly #rule: ReadRules["loop_rules"][number];
  readonly #calls = new Map<string, number[]>();

  constructor(rule: ReadRules["loop_rules"][number]) {
    this.#rule = rule;
  }

  /** Counts an attempt, then returns the objection if it is one too many; so refused attempts count too. */
  against(action: string, args: Args, nowMs: number): Objection | undefined {
    const { threshold, window_seconds: windowS, arg_exclude: without } = this.#rule;
    const kept = Object.entries(args).filter(([name]) => !without.includes(name));
    const key = createHash("sha256").update(`${action}\x1f${sortedJson(Object.fromEntries(kept))}`).digest("base64");
    const times = [...(this.#calls.get(key) ?? []), nowMs].slice(-threshold);
    keep(this.#calls, key, times);
    return times.filter((at) => nowMs - at <= windowS * 1000).length < threshold ? undefined : objection("loop_detected");
  }
}

/** Stores an entry as the newest; beyond the maximum the oldest is dropped. */
function keep<T>(kept: Map<string, T>, key: string, value: T): void {
  kept.delete(key);
  kept.set(key, value);
  for (const oldest of kept.keys()) {
    if (kept.size <= MAX_CALLS) return;
    kept.delete(oldest);
  }
}

type Checked = (value: unknown) => string[];

/**
 * Returns all violations of the arguments. A missing one is ignored unless it is required. A bound requires a number, a
 * pattern a text, a length a value that has one: another type is a violation.
 */
function againstArguments(required: readonly string[], checks: readonly (readonly [string, Checked])[], args: Args): Objection | undefined {
  const of = (name: string): unknown => (Object.hasOwn(args, name) ? args[name] : undefined);
  const wrong = required.filter((name) => (of(name) ?? null) === null).map((name) => `${name} is required`);
  for (const [name, check] of checks) {
    const value = of(name);
    if (value !== undefined) wrong.push(...check(value).map((what) => `${name} ${what}`));
  }
  return wrong.length > 0 ? objection("argument_constraint_violated", wrong.slice(0, 32)) : undefined;
}

function checkOf({ type, minimum, maximum, enum: allowed, pattern, max_length: longest }: Constraint): Checked {
  const form = typeof pattern === "string" ? new RegExp(pattern, "u") : undefined;
  const [least, most, length] = [minimum ?? undefined, maximum ?? undefined, longest ?? undefined];
  return (value) => {
    if (type && !isOf(value, type)) return [`must be of type ${type}`];
    const wrong: string[] = [];
    const number = typeof value === "number" || typeof value === "bigint" ? value : undefined;
    if ((least !== undefined || most !== undefined) && number === undefined && value !== null) wrong.push("must be a number");
    if (least !== undefined && number !== undefined && !(number >= least)) wrong.push(`must be at least ${least}`);
    if (most !== undefined && number !== undefined && !(number <= most)) wrong.push(`must be at most ${most}`);
    if (allowed && !allowed.some((one) => sortedJson(one) === sortedJson(value))) {
      wrong.push(`must be one of ${allowed.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(", ")}`.slice(0, 500));
    }
    if (value === null) return wrong;
    if (form !== undefined && typeof value !== "string") wrong.push("must be a text");
    else if (form !== undefined && !form.test(value as string)) wrong.push(`must match ${pattern}`);
    if (length !== undefined && !(lengthOf(value) <= length)) wrong.push(`must not be longer than ${length}`);
    return wrong;
  };
}

function isOf(value: unknown, type: NonNullable<Constraint["type"]>): boolean {
  if (type === "integer") return Number.isInteger(value) || typeof value === "bigint";
  if (type === "number") return typeof value === "number" || typeof value === "bigint";
  if (type === "array") return Array.isArray(value);
  if (type === "null") return value === null;
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === type;
}

/** Returns the length of a text in characters, or of a list; NaN for other values. */
function lengthOf(value: unknown): number {
  if (typeof value === "string") return [...value].length;
  return typeof value === "object" && value !== null ? Object.keys(value).length : NaN;
}
