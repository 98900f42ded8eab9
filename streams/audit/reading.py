"""From a record of Kafka to a row of the audit. Pure, and never in the way: what cannot be read is kept as it came."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import orjson

from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind, ControlRecord, Feedback
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.findings import Detection
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.opinions import Opinion
from haltline.schemas.policy import Policy
from haltline.schemas.record import EARLIEST_MS
from haltline.schemas.signals import Signal
from haltline.schemas.topics import LAYOUT, Cleanup, Topics
from haltline.streams.audit import summary
from haltline.streams.audit.chain import LOST
from haltline.streams.audit.columns import Block, Row
from haltline.streams.audit.event_columns import Headers, event_columns, present, unreadable, why
from haltline.streams.audit.redacting import Redaction

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
        return next(iter(self.block([record], now_ms)))

    def rows(self, records: Iterable[KafkaRecord], now_ms: int) -> list[Row]:
        """As `row`, of records of any topics."""
        alike = (self.block(list(some), now_ms) for _, some in groupby(records, attrgetter("topic")))
        return [row for block in alike for row in block]

    def block(self, records: Sequence[KafkaRecord], now_ms: int) -> Block:
        """The rows of some records of one topic, as `row` makes them."""
        kind, compacted = self._kinds.get(records[0].topic, ("", False))
        taken: dict[int, str | None] = {}
        if self._redaction is not None and kind != "policies":
            records, taken = _redacted(self._redaction, records)
        columns = self._positions(records, now_ms)
        columns["redacted"] = [*map(taken.get, range(len(records)))]
        if kind == "actions":
            columns |= event_columns(columns["raw"], [record.headers for record in records])
        else:
            fields = _FIELDS[kind]
            parts = [
                _cleared(kind, key or "") if compacted and not record.value else _tried(fields, record)
                for record, key in zip(records, columns["key"], strict=True)
            ]
            columns |= Block.of(parts).columns
        return Block(columns, len(records))

    def lost(self, topic: str, partition: int, first: int, last: int, now_ms: int) -> Row:
        """The row that says that offsets `first` to `last` were gone before they were read."""
        record = KafkaRecord(topic, partition, first, None, None, None)
        row = next(iter(Block(self._positions([record], now_ms), 1)))
        row["kind"] = LOST
        row["summary"] = (
            f"lost: {topic}[{partition}] offsets {first} to {last} were deleted by the broker before they were read"
        )
        return row

    def _positions(self, records: Sequence[KafkaRecord], now_ms: int) -> dict[str, Sequence[Any]]:
        topics, partitions, offsets, times, keys, values, headers = zip(*records, strict=True)
        texts, no_texts = _texts(keys)
        latest_ms = now_ms + _CLOCKS_DIFFER_MS
        return {
            "sink": [self._sink] * len(records),
            "topic": topics,
            "partition": partitions,
            "offset": offsets,
            "timestamp": [at if at is not None and 0 <= at <= _LAST_MS else None for at in times],
            "timestamp_ms": times,
            # A producer writes its own timestamp: a wild one must not make a folder of its own.
            "event_date": [
                (at if at is not None and EARLIEST_MS <= at <= latest_ms else now_ms) // _MS_PER_DAY for at in times
            ],
            "ingested_at": [now_ms] * len(records),
            "key": texts,
            "key_bytes": no_texts,
            "headers": [
                orjson.dumps([_header(*pair) for pair in pairs]).decode() if pairs else None for pairs in headers
            ],
            "raw": values,
        }


def _texts(keys: Sequence[bytes | None]) -> tuple[list[str | None], list[bytes | None]]:
    """The keys as texts, and those that are none."""
    try:
        return [None if key is None else key.decode() for key in keys], [None] * len(keys)
    except UnicodeDecodeError:
        texts = [None if key is None else key.decode(errors="backslashreplace") for key in keys]
        same = [text is None or text.encode() == key for text, key in zip(texts, keys, strict=True)]
        return texts, [None if alike else key for alike, key in zip(same, keys, strict=True)]


def _redacted(
    redaction: Redaction, records: Sequence[KafkaRecord]
) -> tuple[Sequence[KafkaRecord], dict[int, str | None]]:
    """The records as they are stored, and what was taken out of some of them."""
    at_all = {*redaction.suspicious([record.value for record in records])}
    at_all.update(at for at, record in enumerate(records) if record.headers)
    if not at_all:
        return records, {}
    records, taken = list(records), {}
    for at in at_all:
        value, headers, taken[at] = redaction.of(records[at].value, records[at].headers)
        records[at] = records[at]._replace(value=value, headers=headers)
    return records, taken


def _tried(read: Callable[[KafkaRecord], dict[str, Any]], record: KafkaRecord) -> dict[str, Any]:
    """What a record says, or why it cannot be read."""
    try:
        return read(record)
    except Exception as error:
        return unreadable(why(error))


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


def _cleared(kind: str, key: str) -> dict[str, Any]:
    """A tombstone: the entry of this key holds no more."""
    if kind != "control":
        return {"kind": "removed", "summary": f"policy {key} removed"}
    scope, _, scope_id = key.partition(":")
    session = {"session_id": scope_id} if scope == ScopeKind.SESSION else {}
    who = "" if session else f" {scope_id}"
    return {"kind": "cleared", "scope": scope, "scope_id": scope_id, "summary": f"{scope}_cleared{who}"} | session


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
    notification = wire.decode(NotificationRecord, record.value)
    return {
        "kind": "notification",
        "event_time": notification.at,
        "event_id": notification.notification_id,
        "session_id": notification.session_id,
        "agent_id": notification.agent_id,
        "level": notification.level,
        "code": notification.outcome,
        "by": "haltline",
        "reason": notification.detail,
        "summary": summary.of_notification(notification),
    }


def _of_opinion(record: KafkaRecord) -> dict[str, Any]:
    opinion = wire.decode(Opinion, record.value)
    return {
        "kind": "opinion",
        "event_time": opinion.time,
        "event_id": opinion.event_id,
        "session_id": opinion.session_id,
        "agent_id": opinion.agent_id,
        "detector": opinion.detector,
        "code": opinion.outcome,
        "decision_id": opinion.decision_id,
        "by": opinion.model or "haltline",
        "reason": opinion.why or opinion.detail,
        "summary": summary.of_opinion(opinion),
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
        letter = DeadLetter.from_record(record.key, record.value, present(record.headers))
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
    "detections": _of_detection,
    "interventions": _of_decision,
    "feedback": _of_feedback,
    "incidents": _of_incident,
    "commands": _of_command,
    "signals": _of_signal,
    "control": _of_control,
    "policies": _of_policy,
    "notifications": _of_notification,
    "opinions": _of_opinion,
    "dead-letter": _of_dead_letter,
    "": _of_unknown,
}
