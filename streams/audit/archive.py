"""What the audit table holds, as the records that they were: each once, however often it was delivered."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from haltline.schemas import wire
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.record import Record
from haltline.streams.audit.query import literal, open_query

_EVENTS: Final = (
    "action.proposed",
    "action.completed",
    "session.started",
    "session.heartbeat",
    "session.ended",
    "model.turn",
)
_R = TypeVar("_R", bound=Record)


class Archive:
    """One audit table, also while sinks write it."""

    def __init__(self, uri: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self._query = open_query(uri, storage_options)

    def decisions(self, where: str = "") -> list[Decision]:
        """Every decision, by time on the broker; `where` is SQL over the table's columns. Raises QueryFailed."""
        return _once(self._records(Decision, "\"kind\" = 'decision'", where), lambda one: one.decision_id)

    def labels(self) -> list[Command]:
        """What operators said of decisions, in order. Raises QueryFailed."""
        return _once(self._records(Command, "\"kind\" = 'label'", ""), lambda one: one.command_id)

    def events(self, session_id: str) -> list[ActionEvent]:
        """What a session did, in the order of the log. Raises QueryFailed."""
        kinds = ", ".join(map(literal, _EVENTS))
        rows = self._rows(f'"kind" IN ({kinds}) AND "session_id" = {literal(session_id)}')
        found = (_event(row) for row in rows)
        return _once((event for event in found if event is not None), lambda one: one.event_id)

    def proposals(self, event_ids: Sequence[str]) -> dict[str, ActionEvent]:
        """Events by their ids, as far as they are there. Raises QueryFailed."""
        found: dict[str, ActionEvent] = {}
        for first in range(0, len(event_ids), 500):
            some = ", ".join(map(literal, event_ids[first : first + 500]))
            for row in self._rows(f'"kind" LIKE \'action.%\' AND "event_id" IN ({some})'):
                event = _event(row)
                if event is not None:
                    found.setdefault(event.event_id, event)
        return found

    def _records(self, model: type[_R], condition: str, where: str) -> Iterator[_R]:
        for row in self._rows(condition + (f" AND ({where})" if where else "")):
            try:
                yield wire.decode(model, row["raw"])
            except wire.InvalidRecord:
                continue  # of a later version: the table says so itself

    def _rows(self, where: str) -> Iterator[Mapping[str, Any]]:
        return self._query.iter_rows(
            'SELECT "raw", "headers" FROM audit WHERE "decode_error" IS NULL AND '
            f'{where} ORDER BY "timestamp_ms", "partition", "offset"'
        )


def _event(row: Mapping[str, Any]) -> ActionEvent | None:
    headers: list[tuple[str, bytes | None]] = []
    for name, text, *_ in orjson.loads(row["headers"] or b"[]"):
        headers.append((name, None if text is None else text.encode()))
    try:
        return wire.decode_event(row["raw"], headers)
    except wire.InvalidRecord:
        return None


def _once(records: Iterator[_R], key: Any) -> list[_R]:
    """The first of each id: a record that was delivered twice is one."""
    found: dict[str, _R] = {}
    for record in records:
        found.setdefault(key(record), record)
    return list(found.values())
