"""The comparison of recorded and replayed decisions: the first difference, by session and overall. Pure.

A decision's id is a hash of its causes, so the same decision has the same id when it is made twice, and the records
under an id are compared. `decided_at` is the worker's clock and not part of a decision.

Left out on both sides, and counted:
- what workers did because time had passed, as a replay has no clock;
- answers to records that are not within the range, or were not chosen;
- with a choice of sessions, the decisions across sessions, which would need all of them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from haltline.detectors.cross_session import ACROSS_BY_ID
from haltline.interventions.control import kill_acknowledgement
from haltline.interventions.decide.controller import ALLOWED
from haltline.schemas.decisions import Mode
from haltline.streams.replay.compare_incidents import ComparedIncidents

Json = dict[str, Any]

CLEAR: Final = ("level", "code", "detector")
"""The fields that make a clear difference between decisions."""

_APPROVAL: Final = "approval"
_BRIEF: Final = ("decision_id", "event_id", "time", *CLEAR, "reason", "policy", "policy_version")


@dataclass(frozen=True, slots=True)
class Divergence:
    """One differing decision."""

    session_id: str
    decision_id: str
    time: int
    """Event time of the decision, epoch milliseconds."""
    what: str
    """`missing`: not replayed; `extra`: not recorded; `changed`."""
    fields: tuple[str, ...] = ()
    """The differing fields of a changed one."""
    recorded: Json | None = None
    replayed: Json | None = None

    def __str__(self) -> str:
        decision = self.replayed or self.recorded or {}
        name = f"{decision.get('level')} {decision.get('code')} on event {decision.get('event_id')}"
        if self.what == "missing":
            return f"{name} was decided then, and not now"
        if self.what == "extra":
            return f"{name} is decided now, and was not then"
        was = self.recorded or {}
        changes = ", ".join(f"{one} {was.get(one)!r} -> {decision.get(one)!r}" for one in self.fields if one in _BRIEF)
        others = ", ".join(one for one in self.fields if one not in _BRIEF)
        return f"{name} is another now: {'; '.join(filter(None, (changes, others)))}"


@dataclass(slots=True)
class Compared:
    """The result."""

    recorded: int = 0
    """The recorded decisions that were compared."""
    replayed: int = 0
    same: int = 0
    reworded: int = 0
    """Those of `same` with other text or values, but the same level, code and rule."""
    by_clock: int = 0
    """The recorded decisions that were left out; so are the next two."""
    outside: int = 0
    across: int = 0
    first_by_session: dict[str, Divergence] = field(default_factory=dict)
    incidents: ComparedIncidents = field(default_factory=ComparedIncidents)
    counts: dict[str, int] = field(default_factory=lambda: {"missing": 0, "extra": 0, "changed": 0})

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.first_by_session and not self.incidents.different

    @property
    def first(self) -> Divergence | None:
        """The first difference of all, by the decisions' own time."""
        return min(self.first_by_session.values(), key=lambda d: (d.time, d.session_id), default=None)

    def to_dict(self) -> Json:
        """Return plain values, for JSON."""
        first = self.first
        return {
            "recorded": self.recorded,
            "replayed": self.replayed,
            "same": self.same,
            "reworded": self.reworded,
            **self.counts,
            "left_out": {"by_clock": self.by_clock, "outside": self.outside, "across": self.across},
            "first_divergence": None if first is None else asdict(first),
            "incidents": self.incidents.to_dict(),
            "sessions": [asdict(one) for one in sorted(self.first_by_session.values(), key=lambda d: d.time)],
        }


class Comparison:
    """Collects the recorded decisions and the causes in the range, and compares with the replayed decisions."""

    def __init__(
        self,
        *,
        chosen: Callable[[Json], bool] | None = None,
        exact: bool = False,
        partial: bool = False,
        within: Callable[[int], bool] | None = None,
    ) -> None:
        """`chosen` returns whether a decision counts; `exact`: all fields must be equal; `partial`: not all is read.

        `within` returns whether a record's time is in the range, for answers to approvals, which name the call and not
        the command.
        """
        self._chosen = chosen
        self._exact = exact
        self._partial = partial
        self._within = within
        self._then: dict[str, dict[str, list[Json]]] = {}
        self._now: dict[str, dict[str, list[Json]]] = {}
        self._topics_by_cause: dict[str, set[str]] = {}
        """The topics of each cause; only causes that some recorded decision names."""
        self._late: set[str] = set()
        self._found = Compared()

    def then(self, decision: Json, timestamp: int) -> None:
        """Add a recorded decision; before any input."""
        left_out = self._left_out(decision)
        self._found.by_clock += left_out == "by_clock"
        self._found.across += left_out == "across"
        if left_out:
            return
        if _keep(self._then, decision):
            self._topics_by_cause.setdefault(str(decision.get("event_id")), set())
            if decision.get("detector") == _APPROVAL and self._within is not None and not self._within(timestamp):
                self._late.add(str(decision.get("decision_id")))

    @property
    def causes(self) -> Collection[str]:
        """Return the causes that the recorded decisions name."""
        return self._topics_by_cause.keys()

    def add_cause(self, cause: str | None, topic: str) -> None:
        """Add a cause in the range."""
        if cause in self._topics_by_cause:
            self._topics_by_cause[cause].add(topic)

    def now(self, decision: Json) -> None:
        """Add a replayed decision."""
        if not self._left_out(decision):
            _keep(self._now, decision)

    def result(self, signals: str) -> Compared:
        """Return the result; `signals` is the topic of the causes of decisions across sessions."""
        found = self._found
        for session_id in sorted(self._then.keys() | self._now.keys()):
            mine = {
                name: ones for name, ones in self._then.get(session_id, {}).items() if self._in_range(ones, signals)
            }
            found.outside += len(self._then.get(session_id, {})) - len(mine)
            out = self._then.get(session_id, {}).keys() - mine.keys()
            now = {name: ones for name, ones in self._now.get(session_id, {}).items() if name not in out}
            answered = {ones[0].get("event_id") for ones in mine.values() if _is_verdict_in_shadow(ones[0])}
            now = {name: [_as_then(one, answered) for one in ones] for name, ones in now.items()}
            now = {name: ones for name, ones in now.items() if not _is_plain(ones[0], answered)}
            self._compare(session_id, mine, now)
        return found

    def _in_range(self, decisions: list[Json], signals: str) -> bool:
        first = decisions[0]
        topics = self._topics_by_cause.get(str(first.get("event_id")), set())
        if first.get("detector") in ACROSS_BY_ID:
            return signals in topics
        return bool(topics - {signals}) and first.get("decision_id") not in self._late

    def _compare(self, session_id: str, then: Mapping[str, list[Json]], now: Mapping[str, list[Json]]) -> None:
        found = self._found
        different: list[Divergence] = []
        for name in dict.fromkeys((*then, *now)):
            was, is_now = then.get(name, []), now.get(name, [])
            found.recorded += len(was)
            found.replayed += len(is_now)
            for number in range(max(len(was), len(is_now))):
                old = was[number] if number < len(was) else None
                new = is_now[number] if number < len(is_now) else None
                one = self._difference(session_id, old, new)
                if one is None:
                    found.same += 1
                else:
                    found.counts[one.what] += 1
                    different.append(one)
        if different:
            found.first_by_session[session_id] = min(different, key=lambda d: d.time)

    def _difference(self, session_id: str, old: Json | None, new: Json | None) -> Divergence | None:
        decision = new if old is None else old
        assert decision is not None  # one of them is not None
        what = "changed"
        fields: tuple[str, ...] = ()
        if old is None or new is None:
            what = "extra" if old is None else "missing"
        else:
            fields = tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))
            if not fields:
                return None
            if not self._exact and not set(fields) & set(CLEAR):
                self._found.reworded += 1
                return None
        return Divergence(
            session_id,
            str(decision["decision_id"]),
            int(decision["time"]),
            what,
            fields,
            _brief(old, fields),
            _brief(new, fields),
        )

    def _left_out(self, decision: Json) -> str:
        if self._chosen is not None and not self._chosen(decision):
            return "unchosen"
        if is_by_clock(decision):
            return "by_clock"
        return "across" if self._partial and decision.get("detector") in ACROSS_BY_ID else ""


def is_by_clock(decision: Mapping[str, Any]) -> bool:
    """Return whether a worker decided it because time had passed: a kill repeated or given up, an expired approval."""
    if decision.get("detector") == kill_acknowledgement.DETECTOR:
        return "issued" in (decision.get("values") or {})
    approval = decision.get("approval") or {}
    return decision.get("detector") == _APPROVAL and approval.get("state") == "expired"


def plain(decision: Mapping[str, Any]) -> Json:
    """Return a decision without the fields that are not part of it."""
    return {name: value for name, value in decision.items() if name != "decided_at"}


def chosen_of(
    sessions: Iterable[str], agents: Iterable[str], detectors: Iterable[str] = ()
) -> Callable[[Json], bool] | None:
    """Return the filter for a choice of sessions, agents and rules; None: all decisions."""
    named = {"session_id": frozenset(sessions), "agent_id": frozenset(agents), "detector": frozenset(detectors)}
    filters = [(name, of) for name, of in named.items() if of]
    if not filters:
        return None
    return lambda decision: all(decision.get(name) in of for name, of in filters)


def _is_verdict_in_shadow(decision: Json) -> bool:
    """Return whether it is from a release in which a shadow rule's decision was also the verdict on its event."""
    return decision.get("mode") == Mode.SHADOW and decision.get("scope_id") is None


def _is_plain(decision: Json, answered: Collection[object]) -> bool:
    """Return whether it is the verdict that now accompanies such a decision."""
    return decision.get("code") == ALLOWED and not decision.get("detector") and decision.get("event_id") in answered


def _as_then(decision: Json, answered: Collection[object]) -> Json:
    """Return a shadow rule's decision as it was published when it was also the verdict."""
    if decision.get("mode") != Mode.SHADOW or decision.get("event_id") not in answered:
        return decision
    return {name: value for name, value in decision.items() if name != "scope_id"}


def _keep(kept: dict[str, dict[str, list[Json]]], decision: Json) -> bool:
    """Keep a decision unless it is a duplicate: delivery is at least once."""
    fields = plain(decision)
    same_id = kept.setdefault(str(fields.get("session_id")), {}).setdefault(str(fields.get("decision_id")), [])
    if fields in same_id:
        return False
    same_id.append(fields)
    return True


def _brief(decision: Json | None, fields: tuple[str, ...]) -> Json | None:
    return None if decision is None else {name: decision.get(name) for name in (*_BRIEF, *fields) if name in decision}
