"""The records of the audit table, each once, however often it was delivered."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from heapq import nsmallest
from pathlib import Path
from typing import Any, Final, TypeVar

from haltline.schemas import wire
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.record import Record
from haltline.schemas.topics import LAYOUT
from haltline.streams.audit.query import literal, open_query
from haltline.streams.audit.reading import headers_of
from haltline.streams.history import queries
from haltline.streams.history.fold import take_in
from haltline.streams.history.incident_report import Report
from haltline.streams.history.kept import Memory
from haltline.streams.operator.ids import NotFound, resolve

_KINDS: Final = ", ".join(literal(kind.value) for kind in Kind)
_AT_ONCE: Final = 100
_R = TypeVar("_R", bound=Record)


class Archive:
    """One audit table, which sinks may be writing."""

    def __init__(self, uri: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self._query = open_query(uri, storage_options)

    def decisions(self, where: str = "") -> list[Decision]:
        """Return every decision, by time on the broker; `where` is SQL over the table's columns. Raises QueryFailed."""
        return _once(self._records(Decision, "\"kind\" = 'decision'", where), lambda one: one.decision_id)

    def report(self, given: str) -> Report:
        """Return the report of the incident with this id or prefix; of a session by its id, that of its last kill.

        Raises NotFound, Ambiguous, QueryFailed.
        """
        history = Memory()
        self._fold(history, f'"topic" LIKE \'%incidents\' AND starts_with("event_id", {literal(given)})')
        known = {record.incident_id: record for record in queries.incidents(history)}
        record = known[resolve("incident", given, known)] if known else None
        session_id = given if record is None else record.session_id or record.scope_id
        self._fold(history, f'"session_id" = {literal(session_id)} AND "topic" NOT LIKE \'%incidents\'')
        report = queries.report(history, record, session_id)
        if report is None:
            raise NotFound(f"{given}: expected an incident with decisions, or a session that was killed, got none")
        return report

    def labelled(self) -> list[Decision]:
        """Return the decisions that operators labelled. Raises QueryFailed."""
        return self.decisions('"decision_id" IN (SELECT "decision_id" FROM audit WHERE "kind" = \'label\')')

    def labels(self) -> list[Command]:
        """Return operators' labels of decisions, in order. Raises QueryFailed."""
        return _once(self._records(Command, "\"kind\" = 'label'", ""), lambda one: one.command_id)

    def events_of(self, session_ids: Sequence[str]) -> dict[str, list[ActionEvent]]:
        """Return events by session, in log order. Raises QueryFailed."""
        found: dict[str, dict[str, ActionEvent]] = {session_id: {} for session_id in session_ids}
        for event in self._events("session_id", session_ids):
            found[event.session_id].setdefault(event.event_id, event)
        return {session_id: list(events.values()) for session_id, events in found.items()}

    def quiet(self, most: int, seed: int, *, besides: Collection[str] = (), least_results: int = 10) -> list[str]:
        """Return sessions that no rule would have paused, except `besides`; a sample if there are more than `most`.

        Sessions with fewer than `least_results` results are left out: they are too short to judge. Raises QueryFailed.
        """
        levels = ", ".join(literal(level.value) for level in Level if level >= Level.PAUSE)
        rows = self._query.iter_rows(
            'SELECT "session_id" FROM audit WHERE "decode_error" IS NULL AND "kind" = \'action.completed\' '
            'AND "session_id" NOT IN (SELECT "session_id" FROM audit WHERE "session_id" IS NOT NULL AND '
            f'"kind" = \'decision\' AND ("level" IN ({levels}) OR "would" IN ({levels}))) '
            f'GROUP BY "session_id" HAVING count(*) >= {least_results:d}'
        )
        names = (row["session_id"] for row in rows)
        return nsmallest(most, (n for n in names if n not in besides), key=lambda name: _drawn(name, seed))

    def _fold(self, history: Memory, where: str) -> None:
        """Add the records to a history, each once, though several sinks may have written it."""
        names = ("topic", "partition", "offset", "timestamp_ms", "key", "headers", "raw")
        columns = ", ".join(f'"{name}"' for name in names)
        order = '"timestamp_ms", "topic", "partition", "offset"'
        sql = f'SELECT DISTINCT {columns} FROM audit WHERE "decode_error" IS NULL AND {where} ORDER BY {order}'
        # The table may have topics of several prefixes: the order replaces the places.
        rows = ({**row, "partition": 0, "offset": number} for number, row in enumerate(self._query.iter_rows(sql)))
        topics = [layout.name for layout in LAYOUT]
        take_in(history, [{**row, "topic": next(n for n in topics if row["topic"].endswith(n))} for row in rows])

    def _events(self, column: str, ids: Sequence[str]) -> Iterator[ActionEvent]:
        for first in range(0, len(ids), _AT_ONCE):
            some = ", ".join(map(literal, ids[first : first + _AT_ONCE]))
            for row in self._rows(f'"kind" IN ({_KINDS}) AND "{column}" IN ({some})'):
                with suppress(wire.InvalidRecord):  # from a later version, as its row shows
                    yield wire.decode_event(row["raw"], headers_of(row["headers"]))

    def _records(self, model: type[_R], condition: str, where: str) -> Iterator[_R]:
        for row in self._rows(condition + (f" AND ({where})" if where else "")):
            with suppress(wire.InvalidRecord):
                yield wire.decode(model, row["raw"])

    def _rows(self, where: str) -> Iterator[Mapping[str, Any]]:
        return self._query.iter_rows(
            'SELECT "raw", "headers" FROM audit WHERE "decode_error" IS NULL AND '
            f'{where} ORDER BY "timestamp_ms", "partition", "offset"'
        )


def _drawn(name: str, seed: int) -> bytes:
    """Return a pseudo-random sort key, the same each time."""
    return blake2b(f"{seed} {name}".encode(errors="surrogatepass"), digest_size=8).digest()


def _once(records: Iterator[_R], key: Any) -> list[_R]:
    """Return the first record of each id: a record may have been delivered twice."""
    found: dict[str, _R] = {}
    for record in records:
        found.setdefault(key(record), record)
    return list(found.values())
