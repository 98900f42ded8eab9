"""Updates the read model from rows, of topics or of the audit table. Idempotent: a duplicate row has no effect.

The tables' content depends only on the records, and within a partition on their order, but not on the order in which
partitions were read, nor on the batches.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import Connection, bindparam, delete, select

from haltline.console.read_model import tables
from haltline.console.read_model.incidents import put_incidents
from haltline.console.read_model.intervention_rows import put_all, subject_of
from haltline.console.read_model.session_rows import add_sessions, count_interventions
from haltline.console.read_model.store import parts, put
from haltline.console.read_model.text_search import words_of
from haltline.schemas import wire
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.incidents import IncidentRecord
from haltline.streams.audit.columns import Row

_LOST: Final = "records.lost"
_R: Final = tables.records.c
_N: Final = tables.names.c
_NAMED: Final = select(_N.kind, _N.name, _N.last_ms).where(
    _N.kind.in_(("agent", "target", "tool")), _N.name.in_(bindparam("ids", expanding=True))
)
_KNOWN: Final = select(_R.offset).where(
    _R.topic == bindparam("of_topic"),
    _R.partition == bindparam("of_partition"),
    _R.offset.between(bindparam("first"), bindparam("last")),
)


def take_in(connection: Connection, rows: Sequence[Row], prefix: str) -> None:
    """Add new rows, each with its `raw` record. Runs in the caller's transaction."""
    rows = _new(connection, [row | {"topic": row["topic"].removeprefix(prefix)} for row in rows])
    of_topic: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("decode_error") is None and row["kind"] != _LOST:
            of_topic.setdefault(row["topic"], []).append(row)
    events = []
    for row in of_topic.get("actions", []):
        events.append(_event(row))
        row["raw"] = events[-1].to_json()  # a CloudEvent or a span is stored as an event
    places = [(row["partition"], row["offset"]) for row in of_topic.get("actions", [])]
    decisions = []
    for row in of_topic.get("interventions", []):
        decision = wire.decode(Decision, row["raw"])
        decisions.append(decision)
        row["subject"] = subject_of(decision)
        if decision.incident is not None and decision.detector:
            row["incident_id"] = decision.incident.incident_id
    commands = []
    for row in of_topic.get("commands", []):
        commands.append(wire.decode(Command, row["raw"]))
        row["subject"] = subject_of(commands[-1])
    put(connection, tables.records, [_record(row) for row in rows], replace=False)
    new = add_sessions(connection, zip(events, places, strict=True), decisions)
    _names(connection, events)
    count_interventions(connection, new | put_all(connection, events, decisions, commands))
    put_incidents(connection, [wire.decode(IncidentRecord, row["raw"]) for row in of_topic.get("incidents", [])])
    _control(connection, of_topic.get("control", []))


def _new(connection: Connection, rows: Sequence[Row]) -> list[Row]:
    """The rows whose position is not stored yet, each position once."""
    places = {(row["topic"], row["partition"], row["offset"]): row for row in rows}
    known: set[tuple[str, int, int]] = set()
    by_partition: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in places:
        by_partition.setdefault((topic, partition), []).append(offset)
    for (topic, partition), offsets in by_partition.items():
        span = {"of_topic": topic, "of_partition": partition, "first": min(offsets), "last": max(offsets)}
        known |= {(topic, partition, offset) for offset in connection.execute(_KNOWN, span).scalars()}
    return [row for place, row in places.items() if place not in known]


def _record(row: Row) -> dict[str, Any]:
    return {name: row.get(name) for name in _R.keys()} | {  # noqa: SIM118  # a collection of columns, not a mapping
        "time_ms": row.get("event_time") or row.get("timestamp_ms") or 0,
        "body": (row.get("raw") or b"").decode(errors="backslashreplace"),
    }


def _event(row: Row) -> ActionEvent:
    headers = [(name, (text or "").encode()) for name, text, *_ in orjson.loads(row.get("headers") or "[]")]
    return wire.decode_event(row["raw"], headers)


def _names(connection: Connection, events: Iterable[ActionEvent]) -> None:
    last: dict[tuple[str, str], int] = {}
    for event in events:
        named = [("agent", event.agent_id), ("tool", event.action or ""), *(("target", one) for one in event.targets)]
        for key in named:
            if key[1]:
                last[key] = max(event.time, last.get(key, 0))
    # Partitions are read in any order: the latest time is kept.
    for ids in parts(sorted({name for _, name in last})):
        for kind, name, before_ms in connection.execute(_NAMED, {"ids": ids}):
            if (kind, name) in last:
                last[kind, name] = max(last[kind, name], before_ms)
    rows = [
        {"kind": kind, "name": name, "last_ms": at, "words": words_of(name)}
        for (kind, name), at in sorted(last.items())
    ]
    put(connection, tables.names, rows)


def _control(connection: Connection, rows: Iterable[Row]) -> None:
    table = tables.control
    for row in rows:
        if row["kind"] == "cleared":
            connection.execute(delete(table).where(table.c.key == row["key"]))
        else:
            put(
                connection,
                table,
                [
                    {
                        "key": row["key"],
                        "scope": row["scope"],
                        "id": row["scope_id"],
                        "state": row["kind"],
                        "since_ms": row["event_time"],
                        "body": row["raw"].decode(),
                    }
                ],
            )
