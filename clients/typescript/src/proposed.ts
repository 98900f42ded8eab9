/** A session and its calls as a transport gets them: without secrets, and bounded. */

import { randomUUID } from "node:crypto";

import { key, own } from "./answers.js";
import type { Describer } from "./describe.js";
import { knownEffect } from "./effects.js";
import type { HeldSecrets } from "./held_secrets.js";
import type { CallOptions, SessionOptions } from "./options.js";
import { head, wellFormed } from "./redaction/unicode.js";
import { simpleTargets } from "./targets.js";
import type { ProposedCall, SessionInfo } from "./transport.js";

const MAX_TARGETS = 1000;
const MAX_NAME_CHARS = 512;
const MAX_GOAL_CHARS = 8192;

export function infoOf(options: SessionOptions, sessionId: string, agentId: string | undefined, describer: Describer): SessionInfo {
  const { parentSessionId, rootSessionId, ancestors, missionId, goal, mode } = options;
  return {
    sessionId,
    ...(agentId === undefined ? {} : { agentId }),
    ...(parentSessionId === undefined ? {} : { parentSessionId }),
    ...(rootSessionId === undefined ? {} : { rootSessionId }),
    ancestors: ancestors ?? [],
    ...(missionId === undefined ? {} : { missionId }),
    ...(goal === undefined ? {} : { goal: describer.text(goal, MAX_GOAL_CHARS) }),
    ...(mode === undefined ? {} : { mode }),
  };
}

/** Returns the options of a session below one with this id and these options, without its own ids. */
export function optionsBelow(options: SessionOptions, sessionId: string): SessionOptions {
  const { parentSessionId, rootSessionId, ancestors } = options;
  const above = [sessionId, parentSessionId, rootSessionId, ...(ancestors ?? [])].filter((one) => one !== undefined);
  const ids = { parentSessionId: sessionId, rootSessionId: rootSessionId ?? sessionId, ancestors: [...new Set(above)] };
  return { ...options, ...ids, goal: undefined };
}

export function proposedCall(
  callId: string | undefined,
  name: string,
  args: Record<string, unknown>,
  options: CallOptions,
  effects: SessionOptions["effects"],
  describer: Describer,
  held: HeldSecrets,
): ProposedCall {
  const action = wellFormed(head(String(name), MAX_NAME_CHARS)) || "unknown";
  const effect = options.effect ?? own(effects, name);
  const known = knownEffect(action, effect);
  const described = describer.args(args, action, known);
  const targets = (options.targets ?? []).map(String);
  const secretsSent = held.sent(action, args);
  return {
    callId: callId ? key(callId) : randomUUID(),
    action,
    ...described,
    targets: targets.slice(0, MAX_TARGETS).map((target) => describer.text(target)),
    cutTargets: () => (described.unreadFrom === undefined ? [] : describer.cutTargets(args, described.args, MAX_TARGETS)),
    matchTargets: () => [...targets, ...simpleTargets(args)],
    ...(effect === undefined ? {} : { effect }),
    knownEffect: known,
    ...(options.mode === undefined ? {} : { mode: options.mode }),
    ...(options.loopKey === undefined ? {} : { loopKey: describer.text(options.loopKey) }),
    ...(secretsSent.length === 0 ? {} : { secretsSent }),
    rawArgs: () => args,
    ...(options.costUsd === undefined ? {} : { costUsd: options.costUsd }),
  };
}
