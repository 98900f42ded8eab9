// The used fields of the records that a session reads. Unknown fields are ignored; unreadable records are reported.

export const LEVELS = ["ALLOW", "NUDGE", "REINFORCE", "THROTTLE", "PAUSE", "BLOCK", "ROLLBACK", "KILL"] as const;
export type Level = (typeof LEVELS)[number];
export const SCOPES = ["session", "agent", "mission", "tool", "target", "fleet"] as const;
export type Scope = (typeof SCOPES)[number];
const MODES = ["shadow", "warn", "enforce"] as const;
const STATES = ["killed", "frozen", "contained", "probation"] as const;
export type ControlState = (typeof STATES)[number];
const APPROVAL_STATES = ["pending", "info_requested", "approved", "used", "rejected", "expired", "cancelled"] as const;
export type ApprovalState = (typeof APPROVAL_STATES)[number];

const VERSION = 1;
/** A larger record is not parsed, as in the other clients. */
export const MAX_RECORD_BYTES = 1024 * 1024;
export const EARLIEST_MS = 946_684_800_000;
const LATEST_MS = 4_102_444_800_000;

/** The action in the request of a session that is frozen until it is answered. */
export const WHOLE_SESSION = "the whole session";
/** The operator of haltline's own commands. */
export const HALTLINE = "haltline";

/** Returns the rank of a level, for comparisons. */
export function rank(level: Level): number {
  return LEVELS.indexOf(level);
}

/** A request to a person to let one call pass. */
export interface Approval {
  request_id: string;
  parameters: string;
  state: ApprovalState;
  action: string;
  also: readonly string[];
  /** Epoch milliseconds. */
  expires: number;
}

/** One intervention, or the verdict on one event that awaited it. Times are epoch milliseconds. */
export interface Decision {
  decision_id: string;
  session_id: string;
  event_id: string;
  call_id?: string;
  time: number;
  decided_at?: number;
  level: Level;
  scope: Scope;
  scope_id?: string;
  code: string;
  reason: string;
  /** The text for the model. */
  message: string;
  detector: string;
  values: Record<string, unknown>;
  mode: (typeof MODES)[number];
  limits?: Record<string, number>;
  checkpoint?: string;
  arguments?: Record<string, unknown>;
  without_arguments?: readonly string[];
  expires?: number;
  approval?: Approval;
}

/** One entry of the compacted control topic; its key is `scope:id`. */
export interface ControlRecord {
  scope: Scope;
  id: string;
  state: ControlState;
  code: string;
  reason: string;
  decision_id: string;
  by: string;
  since: number;
  decided_at?: number;
  stopped_at?: number;
  spared: readonly string[];
}

/** An invalid record: what was expected, and what was received. */
export class InvalidRecord extends Error {}

type Fields = Record<string, unknown>;

/** Reads a decision. Throws InvalidRecord. */
export function decisionOf(value: Uint8Array | null | undefined): Decision {
  const of = objectOf(value);
  const limits = optional(of, "limits", isObject, "an object");
  for (const [name, limit] of Object.entries(limits ?? {})) {
    if (typeof limit !== "number") throw new InvalidRecord(`limits.${name}: expected a number, got ${typeof limit}`);
  }
  const callId = optionalId(of, "call_id");
  const decidedAt = optionalTime(of, "decided_at");
  const scopeId = optionalId(of, "scope_id");
  const checkpoint = optional(of, "checkpoint", isText, "a text");
  const args = optional(of, "arguments", isObject, "an object");
  const without = optional(of, "without_arguments", isTexts, "a list of texts");
  const expires = optionalTime(of, "expires");
  const approval = approvalOf(of["approval"]);
  return {
    decision_id: id(of, "decision_id"),
    session_id: id(of, "session_id"),
    event_id: id(of, "event_id"),
    ...(callId === undefined ? {} : { call_id: callId }),
    time: time(of, "time"),
    ...(decidedAt === undefined ? {} : { decided_at: decidedAt }),
    level: oneOf(of, "level", LEVELS),
    scope: oneOf(of, "scope", SCOPES, "session"),
    ...(scopeId === undefined ? {} : { scope_id: scopeId }),
    code: text(of, "code"),
    reason: text(of, "reason"),
    message: text(of, "message", ""),
    detector: text(of, "detector", ""),
    values: optional(of, "values", isObject, "an object") ?? {},
    mode: oneOf(of, "mode", MODES, "enforce"),
    ...(limits === undefined ? {} : { limits: limits as Record<string, number> }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(args === undefined ? {} : { arguments: args }),
    ...(without === undefined ? {} : { without_arguments: without }),
    ...(expires === undefined ? {} : { expires }),
    ...(approval === undefined ? {} : { approval }),
  };
}

/** Reads an entry of the control topic. Throws InvalidRecord. */
export function strictControlOf(value: Uint8Array): ControlRecord {
  const of = objectOf(value);
  const decidedAt = optionalTime(of, "decided_at");
  const stoppedAt = optionalTime(of, "stopped_at");
  return {
    scope: oneOf(of, "scope", SCOPES),
    id: id(of, "id"),
    state: oneOf(of, "state", STATES),
    code: text(of, "code"),
    reason: text(of, "reason"),
    decision_id: id(of, "decision_id"),
    by: text(of, "by", HALTLINE),
    since: time(of, "since"),
    ...(decidedAt === undefined ? {} : { decided_at: decidedAt }),
    ...(stoppedAt === undefined ? {} : { stopped_at: stoppedAt }),
    spared: optional(of, "spared", isTexts, "a list of texts") ?? [],
  };
}

/** Reads an entry; an unreadable one (of a newer version?) counts as frozen, the safer choice. */
export function controlOf(key: string, value: Uint8Array): ControlRecord | undefined {
  try {
    return strictControlOf(value);
  } catch (bad) {
    return frozen(key, "control_entry_unreadable", bad instanceof Error ? bad.message : String(bad));
  }
}

/** Returns a frozen entry in place of an untrusted one; undefined: the key is invalid. */
export function frozen(key: string, code: string, why: string): ControlRecord | undefined {
  const colon = key.indexOf(":");
  const scope = SCOPES.find((one) => one === key.slice(0, Math.max(0, colon)));
  const scopeId = colon < 0 ? "" : key.slice(colon + 1);
  if (scope === undefined || scopeId === "") return undefined;
  return {
    scope,
    id: scopeId,
    state: "frozen",
    code,
    reason: why,
    decision_id: `${code} ${key}`,
    by: HALTLINE,
    since: EARLIEST_MS,
    spared: [],
  };
}

function objectOf(value: Uint8Array | null | undefined): Fields {
  if (value === null || value === undefined || value.length === 0) {
    throw new InvalidRecord("expected a JSON object, got no value");
  }
  if (value.length > MAX_RECORD_BYTES) {
    throw new InvalidRecord(`expected at most ${MAX_RECORD_BYTES} bytes, got ${value.length}`);
  }
  let read: unknown;
  try {
    read = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(value));
  } catch (error) {
    throw new InvalidRecord(`expected JSON, got something else: ${error instanceof Error ? error.message : ""}`);
  }
  if (!isObject(read)) throw new InvalidRecord("expected a JSON object, got another value");
  if ((read["v"] ?? VERSION) !== VERSION) throw new InvalidRecord(`v: expected ${VERSION}, got ${String(read["v"])}`);
  return read;
}

function approvalOf(value: unknown): Approval | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw new InvalidRecord(`approval: expected an object, got ${typeof value}`);
  id(value, "nonce");
  time(value, "since");
  return {
    request_id: id(value, "request_id"),
    parameters: id(value, "parameters"),
    state: oneOf(value, "state", APPROVAL_STATES, "pending"),
    action: text(value, "action", ""),
    also: optional(value, "also", isTexts, "a list of texts") ?? [],
    expires: time(value, "expires"),
  };
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(isText);
}

function isId(value: unknown): value is string {
  return typeof value === "string" && value.length >= 1 && value.length <= 512;
}

function optional<T>(of: Fields, name: string, is: (value: unknown) => value is T, expected: string): T | undefined {
  const value = of[name];
  if (value === undefined || value === null) return undefined;
  if (!is(value)) throw new InvalidRecord(`${name}: expected ${expected}, got ${typeof value}`);
  return value;
}

function optionalId(of: Fields, name: string): string | undefined {
  return optional(of, name, isId, "an id");
}

function id(of: Fields, name: string): string {
  const value = optionalId(of, name);
  if (value === undefined) throw new InvalidRecord(`${name}: expected an id, got none`);
  return value;
}

function text(of: Fields, name: string, instead?: string): string {
  const value = of[name] === undefined ? instead : optional(of, name, isText, "a text");
  if (value === undefined) throw new InvalidRecord(`${name}: expected a text, got none`);
  return value;
}

function oneOf<T extends string>(of: Fields, name: string, known: readonly T[], instead?: T): T {
  const value = of[name];
  if (value === undefined && instead !== undefined) return instead;
  const found = known.find((one) => one === value);
  if (found === undefined) throw new InvalidRecord(`${name}: expected one of ${known.join(", ")}, got ${String(value)}`);
  return found;
}

const RFC3339 = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/;

function optionalTime(of: Fields, name: string): number | undefined {
  const value = of[name];
  if (value === undefined || value === null) return undefined;
  const ms = typeof value === "string" && RFC3339.test(value) ? Date.parse(value) : value;
  if (typeof ms !== "number" || !Number.isInteger(ms) || ms < EARLIEST_MS || ms >= LATEST_MS) {
    throw new InvalidRecord(`${name}: expected a time from 2000 to 2100 in epoch milliseconds, got ${String(value)}`);
  }
  return ms;
}

function time(of: Fields, name: string): number {
  const value = optionalTime(of, name);
  if (value === undefined) throw new InvalidRecord(`${name}: expected a time, got none`);
  return value;
}
