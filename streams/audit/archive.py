"""The records of the audit table, each once, however often it was delivered."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest
from pathlib import Path
from typing import Any, Final, TypeVar

from haltline.schemas import wire
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.record import Record
from haltline.streams.audit.query import literal, open_query
from haltline.streams.audit.reading import headers_of

_EVENTS: Final = (
    "action.proposed",
    "action.completed",
    "session.started",
    "session.heartbeat",
    "session.ended",
    "model.turn",
)
_KINDS: Final = ", ".join(map(literal, _EVENTS))
_R = TypeVar("_R", bound=Record)


class Archive:
    """One audit table, which sinks may be writing."""

    def __init__(self, uri: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self._query = open_query(uri, storage_options)

    def decisions(self, where: str = "") -> list[Decision]:
        """Return every decision, by time on the broker; `where` is SQL over the table's columns. Raises QueryFailed."""
        return _once(self._records(Decision, "\"kind\" = 'decision'", where), lambda one: one.decision_id)

    def labelled(self) -> list[Decision]:
        """Return the decisions that operators labelled. Raises QueryFailed."""
        return self.decisions('"decision_id" IN (SELECT "decision_id" FROM audit WHERE "kind" = \'label\')')

    def labels(self) -> list[Command]:
        """Return operators' labels of decisions, in order. Raises QueryFailed."""
        return _once(self._records(Command, "\"kind\" = 'label'", ""), lambda one: one.command_id)

    def events(self, session_id: str) -> list[ActionEvent]:
        """Return a session's events, in log order. Raises QueryFailed."""
        return self.events_of([session_id])[session_id]

    def events_of(self, session_ids: Sequence[str]) -> dict[str, list[ActionEvent]]:
        """Return events by session, in log order. Raises QueryFailed."""
        found: dict[str, dict[str, ActionEvent]] = {session_id: {} for session_id in session_ids}
        for first in range(0, len(session_ids), 100):
            some = ", ".join(map(literal, session_ids[first : first + 100]))
            for row in self._rows(f'"kind" IN ({_KINDS}) AND "session_id" IN ({some})'):
                event = _event(row)
                if event is not None:
                    found[event.session_id].setdefault(event.event_id, event)
        return {session_id: list(events.values()) for session_id, events in found.items()}

    def sessions(self, *, least_events: int) -> list[str]:
        """Return the sessions with at least this many events. Raises QueryFailed."""
        rows = self._query.iter_rows(
            f'SELECT "session_id" FROM audit WHERE "decode_error" IS NULL AND "kind" IN ({_KINDS}) '
            f'GROUP BY "session_id" HAVING count(DISTINCT "event_id") >= {least_events:d}'
        )
        return [row["session_id"] for row in rows]

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

    def _records(self, model: type[_R], condition: str, where: str) -> Iterator[_R]:
        for row in self._rows(condition + (f" AND ({where})" if where else "")):
            try:
                yield wire.decode(model, row["raw"])
            except wire.InvalidRecord:
                continue  # from a later version, as its row shows

    def _rows(self, where: str) -> Iterator[Mapping[str, Any]]:
        return self._query.iter_rows(
            'SELECT "raw", "headers" FROM audit WHERE "decode_error" IS NULL AND '
            f'{where} ORDER BY "timestamp_ms", "partition", "offset"'
        )


def _event(row: Mapping[str, Any]) -> ActionEvent | None:
    try:
        return wire.decode_event(row["raw"], headers_of(row["headers"]))
    except wire.InvalidRecord:
        return None


def _drawn(name: str, seed: int) -> bytes:
    """Return a pseudo-random sort key, the same each time."""
    return blake2b(f"{seed} {name}".encode(errors="surrogatepass"), digest_size=8).digest()


def _once(records: Iterator[_R], key: Any) -> list[_R]:
    """Return the first record of each id: a record may have been delivered twice."""
    found: dict[str, _R] = {}
    for record in records:
        found.setdefault(key(record), record)
    return list(found.values())
