"""The comparison of recorded and replayed incidents: the first differing revision of each. Pure.

A replay numbers the revisions again, so records with equal id and revision are compared. Left out on both sides, and
counted: incidents that the clock changed (an approval that expired, an unacknowledged kill), and those of a session or
scope with an incident that was open before the range.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from haltline.interventions.control.kill_acknowledgement import UNACKNOWLEDGED
from haltline.schemas.decisions import ApprovalState
from haltline.schemas.incidents import IncidentChange, IncidentRecord
from haltline.streams.replay.choice import Choice

_CLEAR: Final = ("change", "state", "cause", "causes", "level", "severity", "count", "resolution")
_IDLE: Final = "idle"
"""Published by a checkpoint after the idle time; a replay may end before."""

_Revisions = dict[int, IncidentRecord]


@dataclass(frozen=True, slots=True)
class IncidentDivergence:
    """One differing incident."""

    incident_id: str
    key: str
    """Session, or `scope:id`."""
    time: int
    """Event time of the change, epoch milliseconds."""
    what: str
    """`missing`: not replayed; `extra`: not recorded; `changed`."""
    revision: int
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        fields = f" ({', '.join(self.fields)})" if self.fields else ""
        return f"incident {self.incident_id[:8]} of {self.key}: revision {self.revision} is {self.what}{fields}"


@dataclass(slots=True)
class Matched:
    """The numbers of compared records."""

    recorded: int = 0
    replayed: int = 0
    same: int = 0


@dataclass(slots=True)
class ComparedIncidents(Matched):
    """The result."""

    left_out: int = 0
    different: list[IncidentDivergence] = field(default_factory=list)


class IncidentComparison:
    """Collects recorded and replayed incidents."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._then: dict[str, _Revisions] = {}
        self._now: dict[str, _Revisions] = {}
        self._required: dict[str, int] = {}
        """The last recorded revision within the range, by incident."""

    def then(self, record: IncidentRecord, *, within: bool) -> None:
        """Add a recorded revision; `within`: before the end of the range."""
        if self._keep(self._then, record) and within and record.resolution != _IDLE:
            self._required[record.incident_id] = max(record.revision, self._required.get(record.incident_id, 0))

    def now(self, record: IncidentRecord) -> None:
        """Add a replayed revision."""
        self._keep(self._now, record)

    def result(self) -> ComparedIncidents:
        """Return the result."""
        found = ComparedIncidents()
        earlier = {_key(ones) for ones in self._then.values() if min(ones) > 1 and not _opens(ones)}
        for name in dict.fromkeys((*self._then, *self._now)):
            then, now = self._then.get(name, {}), self._now.get(name, {})
            if _key(then or now) in earlier or _is_by_clock(then) or _is_by_clock(now):
                found.left_out += 1
                continue
            if not now and name not in self._required:
                continue  # it was opened after the range
            found.recorded += bool(then)
            found.replayed += bool(now)
            different = next(self._differences(then, now, self._required.get(name, 0)), None)
            found.same += different is None
            if different is not None:
                found.different.append(different)
        found.different.sort(key=lambda one: (one.time, one.key))
        return found

    def _differences(self, then: _Revisions, now: _Revisions, required: int) -> Iterator[IncidentDivergence]:
        for revision in sorted(then.keys() & now.keys()):
            fields = self._fields(then[revision], now[revision])
            if fields:
                yield _divergence(now[revision], "changed", fields)
        last = max(now, default=0)
        if last < required:
            yield _divergence(then[required], "missing")
        if last > max(then, default=0) and now[last].resolution != _IDLE:
            yield _divergence(now[last], "extra")

    def _fields(self, then: IncidentRecord, now: IncidentRecord) -> tuple[str, ...]:
        names = type(then).model_fields if self._choice.exact else _CLEAR
        return tuple(name for name in names if getattr(then, name) != getattr(now, name))

    def _keep(self, kept: dict[str, _Revisions], record: IncidentRecord) -> bool:
        if self._choice.leaves_out(record.rule) or not self._choice.takes(dict(record)):
            return False
        kept.setdefault(record.incident_id, {})[record.revision] = record
        return True


def _divergence(record: IncidentRecord, what: str, fields: tuple[str, ...] = ()) -> IncidentDivergence:
    return IncidentDivergence(record.incident_id, record.key, record.changed_at, what, record.revision, fields)


def _key(revisions: Mapping[int, IncidentRecord]) -> str:
    return next(iter(revisions.values())).key


def _opens(revisions: Mapping[int, IncidentRecord]) -> bool:
    return any(record.change is IncidentChange.OPENED for record in revisions.values())


def _is_by_clock(revisions: Mapping[int, IncidentRecord]) -> bool:
    return any(
        record.approval is ApprovalState.EXPIRED or UNACKNOWLEDGED in (record.causes or (record.cause,))
        for record in revisions.values()
    )
