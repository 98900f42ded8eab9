// The rules that an agent's author can set: the fields of the Python client's `ClientRules`, so that one JSON file
// serves both.

type ByGlob<T> = Readonly<Record<string, T>>;
type Several<T> = T | readonly T[];

/** The maximum number of calls in any window of this length. */
export interface RateLimit {
  readonly max_count: number;
  readonly window_seconds: number;
}

/** Constraints of one argument. */
export interface Constraint {
  readonly type?: "string" | "number" | "integer" | "boolean" | "array" | "object" | "null" | null;
  readonly minimum?: number | null;
  readonly maximum?: number | null;
  readonly enum?: readonly unknown[] | null;
  /** A regular expression with the flag `u` that must match somewhere in the text. */
  readonly pattern?: string | null;
  /** Of a text or a list. */
  readonly max_length?: number | null;
}

export interface Arguments {
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Constraint>>;
}

/** The same call this often (5) in this time (10) is a loop; refused attempts count as well. */
export interface LoopRule {
  readonly action?: string;
  readonly threshold?: number;
  readonly window_seconds?: number;
  readonly arg_exclude?: readonly string[];
}

/** The rules of an agent's author. Names of actions are globs like in Python's fnmatch; amounts are US dollars. */
export interface Rules {
  readonly session_budget?: number | null;
  /** `Session.beginRun` starts the next run. */
  readonly run_budget?: number | null;
  readonly action_budgets?: ByGlob<number>;
  /** Percentages of a budget at which the model gets a hint, once each: 80. */
  readonly budget_warning_thresholds?: readonly number[];
  /** The cost of a call, unless its options have it (`costUsd`). */
  readonly prices?: ByGlob<number>;
  readonly denied_actions?: readonly string[];
  readonly allowed_actions?: readonly string[] | null;
  readonly rate_limits?: ByGlob<Several<RateLimit>>;
  readonly argument_constraints?: ByGlob<Several<Arguments>>;
  /** Actions that must have succeeded before in this run. */
  readonly evidence_requirements?: ByGlob<readonly string[]>;
  readonly evidence_max_age_seconds?: ByGlob<number>;
  readonly loop_rules?: readonly LoopRule[];
  /** How long the result of a call with a key is returned again: 3600. */
  readonly idempotency_ttl_seconds?: number;
  /** False: refusals are only hints. */
  readonly strict_mode?: boolean;
}

type Read<T> = { readonly [K in keyof T]-?: T[K] };

/** The rules, complete and validated. */
export interface ReadRules extends Read<Omit<Rules, "rate_limits" | "argument_constraints" | "loop_rules">> {
  readonly rate_limits: ByGlob<readonly RateLimit[]>;
  readonly argument_constraints: ByGlob<readonly Read<Arguments>[]>;
  readonly loop_rules: readonly Read<LoopRule>[];
}

/** Reads the value of a field, or throws TypeError. */
type Check = (value: any, at: string) => unknown;
type Fields = Readonly<Record<string, readonly [check: Check, instead?: unknown]>>;

const TYPES = ["string", "number", "integer", "boolean", "array", "object", "null"];
const text = check("a text", (value) => typeof value === "string");
const glob = check("a glob", (value) => typeof value === "string" && value !== "");
const amount = check("a number from 0", (value) => Number.isFinite(value) && value >= 0);
const seconds = check("a number above 0", (value) => Number.isFinite(value) && value > 0);
const count = check("a whole number from 0", (value) => Number.isInteger(value) && value >= 0);
const finite = orNull(check("a number", Number.isFinite));
const constraint = part({
  type: [orNull(check(`one of ${TYPES.join(", ")}`, (value) => TYPES.includes(value))), null],
  minimum: [finite, null],
  maximum: [finite, null],
  enum: [orNull(list((value) => value)), null],
  pattern: [orNull(check("a regular expression of JavaScript", isPattern)), null],
  max_length: [orNull(count), null],
});
const FIELDS: Fields = {
  session_budget: [orNull(amount), null],
  run_budget: [orNull(amount), null],
  action_budgets: [named(amount), {}],
  budget_warning_thresholds: [list(check("a number above 0, below 100", (value) => value > 0 && value < 100)), [80]],
  prices: [named(amount), {}],
  denied_actions: [list(glob), []],
  allowed_actions: [orNull(list(glob)), null],
  rate_limits: [named(several(part({ max_count: [count], window_seconds: [seconds] }))), {}],
  argument_constraints: [named(several(part({ required: [list(text), []], properties: [named(constraint), {}] }))), {}],
  evidence_requirements: [named(list(glob)), {}],
  evidence_max_age_seconds: [named(seconds), {}],
  loop_rules: [
    list(
      part({
        action: [glob, "*"],
        threshold: [check("a whole number from 2", (value) => Number.isInteger(value) && value >= 2), 5],
        window_seconds: [seconds, 10],
        arg_exclude: [list(text), []],
      }),
    ),
    [],
  ],
  idempotency_ttl_seconds: [seconds, 3600],
  strict_mode: [check("true or false", (value) => typeof value === "boolean"), true],
};

/** Reads rules. Throws TypeError for invalid ones. */
export function rulesOf(rules: unknown): ReadRules {
  const read = part(FIELDS)(rules, "rules") as ReadRules;
  const other = Object.keys(read.evidence_max_age_seconds).find((one) => !Object.hasOwn(read.evidence_requirements, one));
  check("one of evidence_requirements", (name) => name === undefined)(other, "rules.evidence_max_age_seconds");
  return read;
}

/** Converts a glob of Python's fnmatchcase. */
export function globOf(text: string): RegExp {
  const special = /(\*)|(\?)|\[(!?)(\][^\]]{0,255}|[^\]]{1,256})\]|[\\^$.|+(){}[\]/]/gsu;
  const form = text.replace(special, (part: string, all?: string, one?: string, not?: string, inside?: string) => {
    if (all || one) return all ? ".*" : ".";
    return inside === undefined ? `\\${part}` : `[${not ? "^" : ""}${inside.replace(/[\\^[\]]/g, "\\$&")}]`;
  });
  return new RegExp(`^(?:${form})$`, "su");
}

function check(expected: string, is: (value: any) => boolean): Check {
  return (value, at) => {
    if (is(value)) return value;
    throw new TypeError(`${at}: expected ${expected}, got ${(JSON.stringify(value) ?? String(value)).slice(0, 80)}`);
  };
}

function isPattern(value: any): boolean {
  try {
    return typeof value === "string" && new RegExp(value, "u") instanceof RegExp;
  } catch {
    return false;
  }
}

function orNull(inner: Check): Check {
  return (value, at) => (value === null ? null : inner(value, at));
}

function list(item: Check): Check {
  const is = check("a list", Array.isArray);
  return (value, at) => (is(value, at) as unknown[]).map((one, number) => item(one, `${at}[${number}]`));
}

function several(item: Check): Check {
  return (value, at) => list(item)(Array.isArray(value) ? value : [value], at);
}

function named(item: Check): Check {
  return (value, at) => {
    const entries = Object.entries(object(value, at));
    return Object.fromEntries(entries.map(([name, one]) => [glob(name, at), item(one, `${at}.${name}`)]));
  };
}

function part(fields: Fields): Check {
  return (value, at) => {
    const given = object(value, at);
    for (const name of Object.keys(given)) {
      check(`one of ${Object.keys(fields).join(", ")}`, (one) => Object.hasOwn(fields, one))(name, at);
    }
    const read = Object.entries(fields).map(([name, [inner, instead]]) => {
      const one = given[name];
      return [name, one === undefined && instead !== undefined ? instead : inner(one, `${at}.${name}`)];
    });
    return Object.fromEntries(read);
  };
}

function object(value: unknown, at: string): Record<string, unknown> {
  const is = check("an object", (one) => typeof one === "object" && one !== null && !Array.isArray(one));
  return is(value, at) as Record<string, unknown>;
}
