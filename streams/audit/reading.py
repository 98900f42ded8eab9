"""From a record of Kafka to a row of the audit. Pure, and never in the way: what cannot be read is kept as it came."""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind, ControlRecord, Feedback
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.findings import Detection
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.policy import Policy
from haltline.schemas.record import EARLIEST_MS
from haltline.schemas.signals import Signal
from haltline.schemas.topics import LAYOUT, Cleanup, Topics
from haltline.streams.audit import summary
from haltline.streams.audit.columns import Row
from haltline.streams.audit.quick import event_columns
from haltline.streams.audit.redacting import Redaction

Headers = tuple[tuple[str, bytes | None], ...]

_MS_PER_DAY: Final = 86_400_000
_CLOCKS_DIFFER_MS: Final = _MS_PER_DAY
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999, where calendars of most programs end


class KafkaRecord(NamedTuple):
    """A record as it is on the topic. `timestamp_ms` is None where the broker has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Reader:
    """Makes rows for one sink.

    `topics` says which topic holds which kind of record; a topic that it does not know is kept
    as bytes, with a decode error. `redaction` is done to all but documents of policies, which are trusted.
    """

    def __init__(self, topics: Topics, sink: str, redaction: Redaction | None = None) -> None:
        self._sink = sink
        self._redaction = redaction
        self._kinds = {
            name: (layout.name, layout.cleanup is Cleanup.COMPACT)
            for name, layout in zip(topics.all, LAYOUT, strict=True)
        }

    def row(self, record: KafkaRecord, now_ms: int) -> Row:
        """The row of a record that was read at `now_ms` (epoch milliseconds). Never raises for a bad record."""
        kind, compacted = self._kinds.get(record.topic, ("", False))
        taken: str | None = None
        if self._redaction is not None and kind != "policies":
            value, headers, taken = self._redaction.of(record.value, record.headers)
            if taken is not None:
                record = record._replace(value=value, headers=headers)
        row = self._position(record, now_ms)
        row["redacted"] = taken
        try:
            if compacted and not record.value:
                row.update(_cleared(kind, row["key"] or ""))
            else:
                row.update(_FIELDS[kind](record))
        except wire.InvalidRecord as error:
            row.update(_unreadable(str(error)))
        except Exception as error:  # one record, whatever is in it, must not keep all later ones from being written
            row.update(_unreadable(f"{type(error).__name__}: {error}"[:2000]))
        return row

    def lost(self, topic: str, partition: int, first: int, last: int, now_ms: int) -> Row:
        """The row that says that offsets `first` to `last` were gone before they were read."""
        row = self._position(KafkaRecord(topic, partition, first, None, None, None), now_ms)
        row["kind"] = "records.lost"
        row["summary"] = (
            f"lost: {topic}[{partition}] offsets {first} to {last} were deleted by the broker before they were read"
        )
        return row

    def _position(self, record: KafkaRecord, now_ms: int) -> dict[str, Any]:
        time_ms = record.timestamp_ms
        on_calendar = time_ms is not None and EARLIEST_MS <= time_ms <= now_ms + _CLOCKS_DIFFER_MS
        # A producer writes its own timestamp: a wild one must not make a folder of its own.
        day = (time_ms if time_ms is not None and on_calendar else now_ms) // _MS_PER_DAY
        row: dict[str, Any] = {
            "sink": self._sink,
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": time_ms if time_ms is not None and 0 <= time_ms <= _LAST_MS else None,
            "timestamp_ms": time_ms,
            "event_date": day,
            "ingested_at": now_ms,
            "key": None,
            "key_bytes": None,
            "headers": None,
            "raw": record.value,
        }
        if record.key is not None:
            try:
                row["key"] = record.key.decode()
            except UnicodeDecodeError:
                row["key"] = record.key.decode(errors="backslashreplace")
                row["key_bytes"] = record.key
        if record.headers:
            row["headers"] = orjson.dumps([_header(name, value) for name, value in record.headers]).decode()
        return row


def _header(name: str, value: bytes | None) -> list[str | None]:
    if value is None:
        return [name, None]
    try:
        return [name, value.decode()]
    except UnicodeDecodeError:
        return [name, None, base64.b64encode(value).decode()]


def headers_of(text: str | None) -> Headers:
    """The headers that the column `headers` says. Raises ValueError, TypeError: it is no list of headers."""
    found: list[tuple[str, bytes | None]] = []
    for name, value, *in_base64 in orjson.loads(text or "[]"):
        found.append((name, base64.b64decode(in_base64[0]) if in_base64 else None if value is None else value.encode()))
    return tuple(found)


def _present(headers: Headers) -> list[tuple[str, bytes]]:
    return [(name, value) for name, value in headers if value is not None]


def _unreadable(detail: str) -> dict[str, Any]:
    return {"kind": "unreadable", "decode_error": detail, "summary": f"unreadable: {detail}"}


def _cleared(kind: str, key: str) -> dict[str, Any]:
    """A tombstone: the entry of this key holds no more."""
    if kind != "control":
        return {"kind": "removed", "summary": f"policy {key} removed"}
    scope, _, scope_id = key.partition(":")
    session = {"session_id": scope_id} if scope == ScopeKind.SESSION else {}
    who = "" if session else f" {scope_id}"
    return {"kind": "cleared", "scope": scope, "scope_id": scope_id, "summary": f"{scope}_cleared{who}"} | session


def _of_event(record: KafkaRecord) -> dict[str, Any]:
    if (ordinary := event_columns(record.value, record.headers)) is not None:
        return ordinary
    event = wire.decode_event(record.value, _present(record.headers))
    usage = event.usage
    return {
        "kind": event.kind,
        "event_time": event.time,
        "event_id": event.event_id,
        "call_id": event.call_id,
        "session_id": event.session_id,
        "agent_id": event.agent_id,
        "parent_session_id": event.parent_session_id,
        "root_session_id": event.root_session_id,
        "mission_id": event.mission_id,
        "seq": event.seq,
        "action": event.action,
        "targets": event.targets,
        "effect": event.effect,
        "outcome": event.outcome,
        "error": event.error,
        "duration_ms": event.duration_ms,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cost_usd": usage.cost_usd if usage else None,
        "summary": summary.of_event(event),
    }


def _of_detection(record: KafkaRecord) -> dict[str, Any]:
    detection = wire.decode(Detection, record.value)
    finding = detection.finding
    return {
        "kind": "detection",
        "event_time": detection.time,
        "event_id": detection.event_id,
        "session_id": detection.session_id,
        "agent_id": detection.agent_id,
        "targets": [finding.target] if finding.target is not None else None,
        "detector": finding.detector,
        "severity": finding.severity,
        "code": finding.code,
        "mode": detection.mode,
        "confidence": finding.confidence,
        "decision_id": detection.decision_id,
        "policy": detection.policy,
        "policy_version": detection.policy_version,
        "reason": finding.reason,
        "summary": summary.of_detection(detection),
    }


def _of_decision(record: KafkaRecord) -> dict[str, Any]:
    decision = wire.decode(Decision, record.value)
    return {
        "kind": "decision",
        "event_time": decision.time,
        "event_id": decision.event_id,
        "call_id": decision.call_id,
        "session_id": decision.session_id,
        "agent_id": decision.agent_id,
        "level": decision.level,
        "scope": decision.scope,
        "detector": decision.detector,
        "severity": decision.severity,
        "code": decision.code,
        "mode": decision.mode,
        "would": decision.would,
        "confidence": decision.confidence,
        "flag": decision.flag,
        "decision_id": decision.decision_id,
        "policy": decision.policy,
        "policy_version": decision.policy_version,
        "by": "haltline",
        "reason": decision.reason,
        "summary": summary.of_decision(decision),
    }


def _of_feedback(record: KafkaRecord) -> dict[str, Any]:
    feedback = wire.decode(Feedback, record.value)
    return {
        "kind": feedback.stage,
        "event_time": feedback.time,
        "event_id": feedback.feedback_id,
        "call_id": feedback.call_id,
        "session_id": feedback.session_id,
        "agent_id": feedback.agent_id,
        "action": feedback.action,
        "decision_id": feedback.decision_id,
        "reason": feedback.detail,
        "summary": summary.of_feedback(feedback),
    }


def _of_incident(record: KafkaRecord) -> dict[str, Any]:
    incident = wire.decode(IncidentRecord, record.value)
    return {
        "kind": incident.change,
        "event_time": incident.changed_at,
        "event_id": incident.incident_id,
        "session_id": incident.session_id,
        "agent_id": incident.agent_id,
        "mission_id": incident.mission_id,
        "level": incident.level,
        "scope": incident.scope,
        "scope_id": incident.scope_id,
        "targets": [incident.target] if incident.target is not None else None,
        "detector": incident.cause,
        "severity": incident.severity,
        "code": incident.resolution or incident.state,
        "decision_id": incident.decision_id,
        "by": incident.by or "haltline",
        "reason": incident.comment or incident.summary,
        "summary": summary.of_incident(incident),
    }


def _of_command(record: KafkaRecord) -> dict[str, Any]:
    command = wire.decode(Command, record.value)
    return {
        "kind": command.kind,
        "event_time": command.time,
        "event_id": command.command_id,
        "session_id": command.id if command.scope is ScopeKind.SESSION else None,
        "scope": command.scope,
        "scope_id": command.id,
        "code": command.label if command.kind is CommandKind.LABEL else None,
        "decision_id": command.decision_id,
        "by": command.by,
        "reason": command.reason,
        "summary": summary.of_command(command),
    }


def _of_control(record: KafkaRecord) -> dict[str, Any]:
    entry = wire.decode(ControlRecord, record.value)
    return {
        "kind": entry.state,
        "event_time": entry.since,
        "session_id": entry.id if entry.scope is ScopeKind.SESSION else None,
        "agent_id": entry.agent_id,
        "scope": entry.scope,
        "scope_id": entry.id,
        "code": entry.code,
        "decision_id": entry.decision_id,
        "by": entry.by,
        "reason": entry.reason,
        "time_to_stop_ms": entry.time_to_stop_ms,
        "summary": summary.of_control(entry),
    }


def _of_signal(record: KafkaRecord) -> dict[str, Any]:
    signal = wire.decode(Signal, record.value)
    return {
        "kind": signal.kind,
        "event_time": signal.time,
        "event_id": signal.event_id,
        "session_id": signal.session_id,
        "agent_id": signal.agent_id,
        "scope": signal.scope,
        "scope_id": signal.id,
        "action": signal.action,
        "parent_session_id": signal.parent_session_id,
        "targets": signal.targets or ([signal.target] if signal.target else None),
        "code": signal.code,
        "reason": signal.reason,
        "summary": summary.of_signal(signal),
    }


def _of_notification(record: KafkaRecord) -> dict[str, Any]:
    told = wire.decode(NotificationRecord, record.value)
    return {
        "kind": "notification",
        "event_time": told.at,
        "event_id": told.notification_id,
        "session_id": told.session_id,
        "agent_id": told.agent_id,
        "level": told.level,
        "code": told.outcome,
        "by": "haltline",
        "reason": told.detail,
        "summary": summary.of_notification(told),
    }


def _of_policy(record: KafkaRecord) -> dict[str, Any]:
    policy = wire.decode(Policy, record.value)
    return {
        "kind": "policy",
        "policy": policy.name,
        "policy_version": policy.version,
        "summary": summary.of_policy(policy),
    }


def _of_dead_letter(record: KafkaRecord) -> dict[str, Any]:
    try:
        letter = DeadLetter.from_record(record.key, record.value, _present(record.headers))
    except KeyError as error:
        raise wire.InvalidRecord(BadRecord.INVALID, f"expected header {error}, got none") from None
    return {
        "kind": "dead_letter",
        "code": letter.reason,
        "reason": letter.detail,
        "summary": summary.of_dead_letter(letter),
    }


def _of_unknown(record: KafkaRecord) -> dict[str, Any]:
    raise wire.InvalidRecord(BadRecord.UNKNOWN_FORMAT, f"no kind of record is known for topic {record.topic}")


_FIELDS: Final[Mapping[str, Callable[[KafkaRecord], dict[str, Any]]]] = {
    "actions": _of_event,
    "detections": _of_detection,
    "interventions": _of_decision,
    "feedback": _of_feedback,
    "incidents": _of_incident,
    "commands": _of_command,
    "signals": _of_signal,
    "control": _of_control,
    "policies": _of_policy,
    "notifications": _of_notification,
    "dead-letter": _of_dead_letter,
    "": _of_unknown,
}
