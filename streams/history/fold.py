"""The fold: the records of the topics make the rows of a history. Idempotent: a duplicate record has no effect.

The rows depend only on the records, and within a partition on their order, but not on the order in which partitions
were read, nor on the batches.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson

from haltline.schemas import wire
from haltline.schemas.events import ActionEvent
from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.topics import SETS_KEY
from haltline.streams.history.intervention_rows import put_interventions, subject_of
from haltline.streams.history.kept import Kept, Row
from haltline.streams.history.session_rows import add_sessions
from haltline.streams.history.words import words_of
from haltline.streams.kafka.log_record import LogRecord

_READ: Final = ("interventions", "commands", "incidents", "control")
"""The topics whose records make rows, besides `actions`."""
_COLUMNS: Final = (
    "topic", "partition", "offset", "kind", "session_id", "agent_id", "event_id", "decision_id", "detector", "severity",
    "incident_id", "subject", "summary",
)  # fmt: skip
_SAME: Final = {
    "incident_id", "revision", "state", "scope", "scope_id", "cause", "session_id", "agent_id", "count", "assignee",
    "decision_id", "request_id",
}  # fmt: skip
"""The columns of an incident that are as in its record."""


def take_in(kept: Kept, rows: Sequence[Row], prefix: str = "") -> None:
    """Add records: each as a row of the audit table, or with its place, `key`, `raw` and `headers` only."""
    rows = _new(kept, [{**row, "topic": row["topic"].removeprefix(prefix)} for row in rows])
    read: dict[str, list[tuple[Row, Any]]] = {topic: [] for topic in (*_READ, "actions")}
    for row in rows:
        if (record := _record_of(row)) is not None:
            read[row["topic"]].append((row, record))
    for row, event in read["actions"]:
        row.setdefault("event_time", event.time)
        row.update(raw=event.to_json(), kind=event.kind.value, event_id=event.event_id, session_id=event.session_id)
    for row, decision in read["interventions"]:
        row.setdefault("event_time", decision.time)
        row.update(
            kind="decision",
            session_id=decision.session_id,
            decision_id=decision.decision_id,
            subject=subject_of(decision),
        )
        if decision.incident is not None and decision.detector:
            row["incident_id"] = decision.incident.incident_id
    for row, command in read["commands"]:
        row.update(kind=command.kind.value, subject=subject_of(command))
    for row, incident in read["incidents"]:
        row.update(event_id=incident.incident_id)
    kept.put("records", [_stored(row) for row in rows], replace=False)
    events, decisions, commands, incidents = (
        [record for _, record in read[topic]] for topic in ("actions", "interventions", "commands", "incidents")
    )
    places = [(row["partition"], row["offset"]) for row, _ in read["actions"]]
    add_sessions(kept, zip(events, places, strict=True), decisions)
    _put_names(kept, events)
    put_interventions(kept, events, decisions, commands)
    _put_incidents(kept, incidents)
    for row in rows:
        if row["topic"] == "control" and row["key"] != SETS_KEY.decode():
            _put_control(kept, row)


def row_of(record: LogRecord) -> Row:
    """Return a record of a topic as `take_in` reads it."""
    headers = [[name, None if text is None else text.decode(errors="replace")] for name, text in record.headers]
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": (record.key or b"").decode(errors="backslashreplace"),
        "headers": orjson.dumps(headers).decode() if headers else None,
        "raw": record.value,
    }


def _new(kept: Kept, rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose position is not known yet, each position once."""
    places = {(row["topic"], row["partition"], row["offset"]): row for row in rows}
    by_partition: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in places:
        by_partition.setdefault((topic, partition), []).append(offset)
    for (topic, partition), offsets in by_partition.items():
        at = (("topic", "=", topic), ("partition", "=", partition))
        span = (("offset", ">=", min(offsets)), ("offset", "<=", max(offsets)))
        for row in kept.rows("records", *at, *span):
            places.pop((topic, partition, row["offset"]), None)
    return list(places.values())


def _record_of(row: Row) -> Any:
    """Return the record of a row; None: it has none that counts, or none that can be read."""
    topic = row["topic"]
    if not row["raw"] or row.get("decode_error") is not None:
        return None
    with suppress(wire.InvalidRecord):
        if topic == "actions":
            headers = [(name, (text or "").encode()) for name, text, *_ in orjson.loads(row.get("headers") or "[]")]
            return wire.decode_event(row["raw"], headers)
        if topic in _READ and row["key"] != SETS_KEY.decode():
            return wire.decode(wire.MODELS[topic], row["raw"])
    return None


def _stored(row: Row) -> Row:
    return {name: row.get(name) for name in _COLUMNS} | {
        "time_ms": row.get("event_time") or row.get("timestamp_ms") or 0,
        "body": (row.get("raw") or b"").decode(errors="backslashreplace"),
    }


def _put_names(kept: Kept, events: Iterable[ActionEvent]) -> None:
    last: dict[tuple[str, str], int] = {}
    for event in events:
        named = [("agent", event.agent_id), ("tool", event.action or ""), *(("target", one) for one in event.targets)]
        for key in named:
            if key[1]:
                last[key] = max(event.time, last.get(key, 0))
    # Partitions are read in any order: the latest time is kept.
    for row in kept.rows("names", ("name", "in", sorted({name for _, name in last}))):
        key = row["kind"], row["name"]
        if key in last:
            last[key] = max(last[key], row["last_ms"])
    kept.put(
        "names",
        [{"kind": kind, "name": n, "last_ms": at, "words": words_of(n)} for (kind, n), at in sorted(last.items())],
    )


def _put_incidents(kept: Kept, records: Sequence[IncidentRecord]) -> None:
    """Store revisions, in any order, also repeatedly: the highest is current, and resolved ones stay resolved."""
    ids = sorted({record.incident_id for record in records})
    known = {row["incident_id"]: row["body"] for row in kept.rows("incidents", ("incident_id", "in", ids))}
    last = {name: IncidentRecord.model_validate_json(body) for name, body in known.items()}
    for record in records:
        if record.stands_over(last.get(record.incident_id)):
            last[record.incident_id] = record
    kept.put("incidents", [_incident(last[name]) for name in ids])


def _incident(record: IncidentRecord) -> Row:
    return {
        **record.model_dump(mode="json", include=_SAME),
        "open": record.state is not IncidentState.RESOLVED,
        "level": record.level.rank,
        "severity": -1 if record.severity is None else record.severity.rank,
        "last_ms": record.last_at,
        "snoozed_ms": record.snoozed_until or 0,
        "words": words_of(
            record.incident_id, record.cause, record.scope_id, record.target, record.summary, record.session_id,
            record.agent_id,
        ),
        "body": record.to_json().decode(),
    }  # fmt: skip


def _put_control(kept: Kept, row: Row) -> None:
    if not row["raw"]:
        kept.remove("control", row["key"])
    elif (entry := _record_of(row)) is not None:
        kept.put(
            "control",
            [
                {
                    "key": row["key"],
                    "scope": entry.scope.value,
                    "id": entry.id,
                    "state": entry.state.value,
                    "since_ms": entry.since,
                    "body": row["raw"].decode(),
                }
            ],
        )
