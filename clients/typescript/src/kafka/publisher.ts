// Publishing of the session's events, and of feedback on decisions. Never waits for the broker.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import { blake2b } from "../redaction/blake2b.js";
import type { ProposedCall, SessionInfo } from "../transport.js";
import type { Acknowledge } from "./admission.js";

export const DEFAULT_AGENT = "unknown";
const MAX_NAME_CHARS = 512;
const MAX_DETAIL_CHARS = 2000;
const MAX_ID_CHARS = 256;

/** Queues one record, keyed by the session. False: it was dropped. With `must`, it may use the reserved room. */
export type Send = (topic: string, value: Buffer, must: boolean) => boolean;

/** Creates the records of one session. */
export class Publisher {
  readonly #who: { session_id: string; agent_id: string };
  readonly #ofSession: Record<string, unknown>;
  readonly #run = randomUUID().replaceAll("-", "").slice(0, 12); // distinguishes this process's ids from earlier ones
  readonly #actions: string;
  readonly #feedback: string;
  readonly #send: Send;
  #seq = 0;
  #answers = 0;
  #droppedReported = 0;
  /** Records dropped because the queue was full. */
  dropped = 0;

  constructor(session: SessionInfo, topicPrefix: string, send: Send) {
    this.#send = send;
    this.#actions = `${topicPrefix}actions`;
    this.#feedback = `${topicPrefix}feedback`;
    this.#who = { session_id: session.sessionId, agent_id: session.agentId ?? DEFAULT_AGENT };
    this.#ofSession = {
      v: 1,
      ...this.#who,
      parent_session_id: session.parentSessionId,
      root_session_id: session.rootSessionId,
      mission_id: session.missionId,
      // Distinguishes agents with the default id.
      host: this.#who.agent_id === DEFAULT_AGENT ? hostname().slice(0, MAX_ID_CHARS) || undefined : undefined,
    };
  }

  /** Publishes an event. Returns its id, and whether it was queued. */
  event(kind: string, fields: Record<string, unknown>, must: boolean): { eventId: string; handedOver: boolean } {
    const seq = this.#seq++;
    const eventId = `${this.#run}-${seq}`;
    const unreported = this.dropped - this.#droppedReported;
    const event = {
      ...this.#ofSession,
      event_id: eventId,
      kind,
      seq,
      time: Date.now(),
      ...fields,
      ...(unreported > 0 ? { dropped: unreported } : {}),
    };
    const handedOver = this.#send(this.#actions, Buffer.from(JSON.stringify(event)), must);
    if (handedOver) this.#droppedReported += Math.max(0, unreported);
    else this.dropped++;
    return { eventId, handedOver };
  }

  /** Publishes the progress of a decision. A decision applies even if this cannot be published. */
  readonly acknowledge: Acknowledge = (stage, decisionId, decidedAtMs, { callId, action, detail }) => {
    const feedback = {
      v: 1,
      feedback_id: `${this.#run}-f${this.#answers++}`,
      decision_id: decisionId,
      ...this.#who,
      stage,
      time: Date.now(),
      decided_at: decidedAtMs,
      call_id: callId,
      action: (action ?? "").slice(0, MAX_NAME_CHARS),
      detail: (detail ?? "").slice(0, MAX_DETAIL_CHARS),
    };
    if (!this.#send(this.#feedback, Buffer.from(JSON.stringify(feedback)), true)) this.dropped++;
  };
}

/** Returns the fields of an event that describe the call. */
export function fieldsOf(call: ProposedCall): Record<string, unknown> {
  return {
    call_id: call.callId,
    action: call.action.slice(0, MAX_NAME_CHARS),
    args: call.args,
    args_digest: call.argsDigest,
    targets: call.targets,
    effect: call.effect,
    loop_key: call.loopKey,
    unread_from: call.unreadFrom,
  };
}

/** Returns the digest of a call's canonical parameters, as the worker computes it from the event. */
export function parametersOf(call: ProposedCall): string | undefined {
  if (call.action === "") return undefined;
  const targets = [...call.targets].sort(byCodePoint);
  const parts = [call.action.slice(0, MAX_NAME_CHARS), ...targets, call.argsDigest];
  return blake2b(Buffer.from(parts.join("\x1f")), 16);
}

function byCodePoint(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
