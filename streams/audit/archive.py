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
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.record import Record
from haltline.streams.audit.incident import Report, stop_of, whole
from haltline.streams.audit.query import literal, open_query
from haltline.streams.audit.reading import headers_of
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

    def incidents(self, beginning: str) -> dict[str, IncidentRecord]:
        """Return the newest record of each incident whose id begins so, by id. Raises QueryFailed."""
        newest: dict[str, IncidentRecord] = {}
        where = f'starts_with("event_id", {literal(beginning)})'
        for record in self._records(IncidentRecord, "\"topic\" LIKE '%incidents'", where):
            if record.stands_over(newest.get(record.incident_id)):
                newest[record.incident_id] = record
        return newest

    def report(self, given: str) -> Report:
        """Return the report of the incident with this id or prefix; of a session by its id, that of its last kill.

        Raises NotFound, Ambiguous, QueryFailed.
        """
        incidents = self.incidents(given)
        record = incidents[resolve("incident", given, incidents)] if incidents else None
        session_id = given if record is None else record.session_id or record.scope_id
        decisions = self.decisions(f'"session_id" = {literal(session_id)}')
        stop = stop_of(decisions, record)
        if stop is None:
            raise NotFound(f"{given}: expected an incident with decisions, or a session that was killed, got none")
        return whole(stop, decisions, self.events_of([session_id])[session_id])

    def labelled(self) -> list[Decision]:
        """Return the decisions that operators labelled. Raises QueryFailed."""
        return self.decisions('"decision_id" IN (SELECT "decision_id" FROM audit WHERE "kind" = \'label\')')

    def tried(self) -> list[Decision]:
        """Return every decision of the sessions with a hint of a policy's experiment. Raises QueryFailed."""
        levels = ", ".join(literal(level.value) for level in (Level.ALLOW, Level.NUDGE, Level.REINFORCE))
        hints = self.decisions(f'"detector" <> \'\' AND "level" IN ({levels})')
        names = sorted({one.session_id for one in hints if one.experiment is not None})
        parts = (", ".join(map(literal, names[n : n + _AT_ONCE])) for n in range(0, len(names), _AT_ONCE))
        return [one for part in parts for one in self.decisions(f'"session_id" IN ({part})')]

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
