"""The operator's client for incidents: read, acknowledge, assign, comment and resolve them."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from confluent_kafka import TopicPartition

from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.record import Record
from haltline.streams.operator.client import Operator
from haltline.streams.operator.command_factory import NotAllowed, make_command
from haltline.streams.operator.ids import resolve
from haltline.streams.operator.kill_trail import kill_trail

_POLL_S: Final = 0.1
_R = TypeVar("_R", bound=Record)


@dataclass(frozen=True, kw_only=True)
class IncidentChange:
    """The result of an operator's command on an incident."""

    command: Command
    before: IncidentRecord
    after: IncidentRecord | None
    """As the worker published it; None after a timeout."""
    place: TopicPartition | None = None
    """The position of the record that shows it."""


class Incidents(Operator):
    """The operator's client for incidents."""

    def incidents(self) -> list[IncidentRecord]:
        """Return the latest revision of each incident of the topic, the worst first."""
        with self._reader(self._topics.incidents) as reader:
            return worst_first(fold(message.value() for message in reader.to_end()).values())

    def history(self, incident_id: str) -> list[IncidentRecord]:
        """Return all published revisions of an incident. Raises as `incident`."""
        with self._reader(self._topics.incidents) as reader:
            read = [_read(IncidentRecord, message.value()) for message in reader.to_end()]
        records = [record for record in read if record is not None]
        found = one_of(worst_first(last_revisions(records).values()), incident_id)
        by_revision = {record.revision: record for record in records if record.incident_id == found.incident_id}
        return [record for _, record in sorted(by_revision.items())]

    def kill_trail(self, scope_id: str, scope: ScopeKind | None = None) -> list[str]:
        """Return what became of the last kill of a session or agent, in lines; `scope` None: of either."""
        scopes = (ScopeKind.SESSION, ScopeKind.AGENT) if scope is None else (scope,)
        control = next((one for one in self.in_force() if one.scope in scopes and one.id == scope_id), None)
        with self._reader(self._topics.notifications) as reader:
            read = [_read(NotificationRecord, message.value()) for message in reader.to_end()]
        answers = [one for one in read if one and one.kill and one.kill.scope in scopes and one.kill.id == scope_id]
        if control is None and not answers:
            return []
        about = [one for one in self.incidents() if one.scope in scopes and one.scope_id == scope_id]
        return kill_trail(control, answers, about)

    def act(
        self, kind: CommandKind, incident: IncidentRecord, *, by: str, reason: str, assignee: str | None = None
    ) -> IncidentChange:
        """Acknowledge, assign, comment or resolve an incident.

        Raises NotAllowed when it is resolved, is already acknowledged, or the assignee is missing.
        """
        _require_allowed(kind, incident, assignee)
        command = make_command(
            kind,
            incident.scope,
            incident.scope_id,
            by=by,
            reason=reason,
            incident_id=incident.incident_id,
            assignee=assignee,
            incident=incident if kind is CommandKind.RESOLVE else None,
        )
        with self._reader(self._topics.incidents, from_beginning=False) as reader:
            self._send(command)
            sent_at = time.monotonic()
            while time.monotonic() - sent_at < self._within_s:
                message = reader.poll(_POLL_S)
                after = None if message is None else _read(IncidentRecord, message.value())
                if message is None or after is None or after.incident_id != incident.incident_id:
                    continue
                done = (after.by, after.comment) == (command.by, command.reason)
                if done or after.state is IncidentState.RESOLVED:
                    place = TopicPartition(str(message.topic()), int(message.partition() or 0), message.offset() or 0)
                    return IncidentChange(command=command, before=incident, after=after, place=place)
        return IncidentChange(command=command, before=incident, after=None)


def one_of(known: Iterable[IncidentRecord], name: str) -> IncidentRecord:
    """Return the incident with this id or prefix. Raises NotFound if there is none, Ambiguous if there are several."""
    by_id = {record.incident_id: record for record in known}
    return by_id[resolve("incident", name, by_id, hint="see: haltline incidents")]


def fold(values: Iterable[bytes | None]) -> dict[str, IncidentRecord]:
    """Return the latest revision of each incident by id, from encoded records in any order."""
    return last_revisions(record for value in values if (record := _read(IncidentRecord, value)))


def worst_first(records: Iterable[IncidentRecord]) -> list[IncidentRecord]:
    """Return the records sorted: open ones first, then by severity, level and last decision."""
    return sorted(records, key=_how_bad, reverse=True)


def _how_bad(record: IncidentRecord) -> tuple[bool, int, int, int]:
    severity: Severity | None = record.severity
    rank = -1 if severity is None else severity.rank
    return record.state is not IncidentState.RESOLVED, rank, record.level.rank, record.last_at


def last_revisions(records: Iterable[IncidentRecord]) -> dict[str, IncidentRecord]:
    """Return the latest revision of each incident by id, from records in any order."""
    last: dict[str, IncidentRecord] = {}
    for record in records:
        known = last.get(record.incident_id)
        if record.stands_over(known):
            last[record.incident_id] = record
    return last


def _read(model: type[_R], value: bytes | None) -> _R | None:
    try:
        return wire.decode(model, value)
    except wire.InvalidRecord:
        return None


def _require_allowed(kind: CommandKind, incident: IncidentRecord, assignee: str | None) -> None:
    name = f"{kind} of incident {incident.incident_id}"
    if incident.state is IncidentState.RESOLVED:
        raise NotAllowed(f"{name}: it is resolved ({incident.resolution}); a new trip opens another one")
    if kind is CommandKind.ACKNOWLEDGE and incident.state is IncidentState.ACKNOWLEDGED:
        raise NotAllowed(f"{name}: it is acknowledged already")
    if kind is CommandKind.ASSIGN and not (assignee or "").strip():
        raise NotAllowed(f"{name}: expected the name of an assignee, got none")
    if kind is CommandKind.ASSIGN and assignee == incident.assignee:
        raise NotAllowed(f"{name}: it is assigned to {assignee} already")
