"""The conversion of a Kafka record to an audit row. Pure; it never fails: unreadable records are kept as received."""

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
from haltline.schemas.policy import Policy
from haltline.schemas.record import EARLIEST_MS, Record
from haltline.schemas.signals import Signal
from haltline.schemas.topics import LAYOUT, SETS_KEY, Cleanup, Topics
from haltline.streams.audit import summary
from haltline.streams.audit.chain import LOST
from haltline.streams.audit.columns import Block, Row
from haltline.streams.audit.event_columns import Headers, event_columns, present, unreadable, why
from haltline.streams.audit.redacting import Redaction

TOPICS: Final = "topics"
"""The kind of the row of an entry of `control` that names the sets of topics."""
_MS_PER_DAY: Final = 86_400_000
_CLOCKS_DIFFER_MS: Final = _MS_PER_DAY
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999, where calendars of most programs end


class KafkaRecord(NamedTuple):
    """A record as it is in the topic. `timestamp_ms` is None if the broker has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Reader:
    """Makes rows for one sink.

    `topics` assigns a kind of record to each topic; records of an unknown topic are kept as bytes, with a decode error.
    `redaction` is applied to all except policy documents, which are trusted.
    """

    def __init__(self, topics: Topics, sink: str, redaction: Redaction | None = None) -> None:
        self._sink = sink
        self._redaction = redaction
        self._kinds = {
            name: (layout.name, layout.cleanup is Cleanup.COMPACT)
            for name, layout in zip(topics.all, LAYOUT, strict=True)
        }

    def row(self, record: KafkaRecord, now_ms: int) -> Row:
        """Return the row of a record that was read at `now_ms` (epoch milliseconds). Never raises for a bad record."""
        return next(iter(self.block([record], now_ms)))

    def rows(self, records: Iterable[KafkaRecord], now_ms: int) -> list[Row]:
        """Return the rows of records of any topics, like `row`."""
        alike = (self.block(list(some), now_ms) for _, some in groupby(records, attrgetter("topic")))
        return [row for block in alike for row in block]

    def block(self, records: Sequence[KafkaRecord], now_ms: int) -> Block:
        """Return the rows of some records of one topic, like `row`."""
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
                _cleared(kind, key or "")
                if compacted and not record.value
                else _tried(_of_sets if record.key == SETS_KEY and kind == "control" else fields, record)
                for record, key in zip(records, columns["key"], strict=True)
            ]
            columns |= Block.of(parts).columns
        return Block(columns, len(records))

    def lost(self, topic: str, partition: int, first: int, last: int, now_ms: int) -> Row:
        """Return the row that records the loss of offsets `first` to `last` before they were read."""
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
            # A producer sets the timestamp: an arbitrary one must not create its own folder.
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
    """Return the keys as texts, and those that are not valid text as bytes."""
    try:
        return [None if key is None else key.decode() for key in keys], [None] * len(keys)
    except UnicodeDecodeError:
        texts = [None if key is None else key.decode(errors="backslashreplace") for key in keys]
        same = [text is None or text.encode() == key for text, key in zip(texts, keys, strict=True)]
        return texts, [None if alike else key for alike, key in zip(same, keys, strict=True)]


def _redacted(
    redaction: Redaction, records: Sequence[KafkaRecord]
) -> tuple[Sequence[KafkaRecord], dict[int, str | None]]:
    """Return the records as they are stored, and what was redacted in some of them."""
    suspicious = redaction.suspicious([record.value for record in records])
    at_all = suspicious.union(at for at, record in enumerate(records) if record.headers)
    if not at_all:
        return records, {}
    records, taken = list(records), {}
    for at in at_all:
        value, headers, taken[at] = redaction.of(records[at].value, records[at].headers, suspicious=at in suspicious)
        records[at] = records[at]._replace(value=value, headers=headers)
    return records, taken


def _tried(read: Callable[[KafkaRecord], dict[str, Any]], record: KafkaRecord) -> dict[str, Any]:
    """Return a record's cells, or why it cannot be read."""
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
    """Return the headers from the column `headers`. Raises ValueError, TypeError if it is not a list of headers."""
    found: list[tuple[str, bytes | None]] = []
    for name, value, *in_base64 in orjson.loads(text or "[]"):
        found.append((name, base64.b64decode(in_base64[0]) if in_base64 else None if value is None else value.encode()))
    return tuple(found)


def _cleared(kind: str, key: str) -> dict[str, Any]:
    """Return the cells of a tombstone, which removes the entry of this key."""
    if kind != "control":
        return {"kind": "removed", "summary": f"policy {key} removed"}
    scope, _, scope_id = key.partition(":")
    session = {"session_id": scope_id} if scope == ScopeKind.SESSION else {}
    who = "" if session else f" {scope_id}"
    return {"kind": "cleared", "scope": scope, "scope_id": scope_id, "summary": f"{scope}_cleared{who}"} | session


class _Columns:
    """The mapping of one kind of record to columns. `renamed` has field names by column names.

    `all_are` is the kind of all records, if no field has it; `more` returns computed cells.
    """

    def __init__(
        self,
        model: type[Record],
        line: Callable[[Any], str],
        same: tuple[str, ...],
        *,
        all_are: str = "",
        more: Callable[[Any], dict[str, Any]] = lambda _: {},
        **renamed: str,
    ) -> None:
        self._model = model
        self._line = line
        self._all_are = {"kind": all_are} if all_are else {}
        self._more = more
        self._names = (*same, *renamed)
        self._cells = attrgetter(*same, *renamed.values())

    def __call__(self, record: KafkaRecord) -> dict[str, Any]:
        """Return the cells of a record. Raises InvalidRecord."""
        content = wire.decode(self._model, record.value)
        cells = dict(zip(self._names, self._cells(content), strict=True))
        return self._all_are | cells | self._more(content) | {"summary": self._line(content)}


def _session_of(content: Command | ControlRecord) -> str | None:
    return content.id if content.scope is ScopeKind.SESSION else None


def _one(target: str | None) -> list[str] | None:
    return None if target is None else [target]


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


def _of_sets(_: KafkaRecord) -> dict[str, Any]:
    return {"kind": TOPICS, "summary": "the topics that an earlier release has grown"}


_OF_SESSION: Final = ("session_id", "agent_id")
_OF_EVENT: Final = ("event_id", *_OF_SESSION)
_OURS: Final = "haltline"
_FIELDS: Final[Mapping[str, Callable[[KafkaRecord], dict[str, Any]]]] = {
    "detections": _Columns(
        Detection, summary.of_detection, (*_OF_EVENT, "mode", "decision_id", "policy", "policy_version"),
        all_are="detection", event_time="time", detector="finding.detector", severity="finding.severity",
        code="finding.code", confidence="finding.confidence", reason="finding.reason",
        more=lambda detection: {"targets": _one(detection.finding.target)},
    ),
    "interventions": _Columns(
        Decision, summary.of_decision,
        (*_OF_EVENT, "call_id", "level", "scope", "detector", "severity", "code", "mode", "would", "confidence", "flag",
         "decision_id", "policy", "policy_version", "reason"),
        all_are="decision", event_time="time", more=lambda _: {"by": _OURS},
    ),
    "feedback": _Columns(
        Feedback, summary.of_feedback, (*_OF_SESSION, "call_id", "action", "decision_id"),
        kind="stage", event_time="time", event_id="feedback_id", reason="detail",
    ),
    "incidents": _Columns(
        IncidentRecord, summary.of_incident,
        (*_OF_SESSION, "mission_id", "level", "scope", "scope_id", "severity", "decision_id"),
        kind="change", event_time="changed_at", event_id="incident_id", detector="cause",
        more=lambda incident: {
            "targets": _one(incident.target),
            "code": incident.resolution or incident.state,
            "by": incident.by or _OURS,
            "reason": incident.comment or incident.summary,
        },
    ),
    "commands": _Columns(
        Command, summary.of_command, ("kind", "scope", "decision_id", "by", "reason"),
        event_time="time", event_id="command_id", scope_id="id",
        more=lambda command: {
            "session_id": _session_of(command),
            "code": command.label if command.kind is CommandKind.LABEL else None,
        },
    ),
    "control": _Columns(
        ControlRecord, summary.of_control,
        ("agent_id", "scope", "code", "decision_id", "by", "reason", "time_to_stop_ms"),
        kind="state", event_time="since", scope_id="id", more=lambda entry: {"session_id": _session_of(entry)},
    ),
    "signals": _Columns(
        Signal, summary.of_signal, (*_OF_EVENT, "kind", "scope", "action", "parent_session_id", "code", "reason"),
        event_time="time", scope_id="id",
        more=lambda signal: {"targets": signal.targets or _one(signal.target or None)},
    ),
    "policies": _Columns(
        Policy, summary.of_policy, (), all_are="policy", policy="name", policy_version="version",
    ),
    "notifications": _Columns(
        NotificationRecord, summary.of_notification, (*_OF_SESSION, "level"),
        all_are="notification", event_time="at", event_id="notification_id", code="outcome", reason="detail",
        more=lambda _: {"by": _OURS},
    ),
    "dead-letter": _of_dead_letter,
    "": _of_unknown,
}  # fmt: skip
