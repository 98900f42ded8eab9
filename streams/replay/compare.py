"""The comparison of recorded and replayed decisions: the first difference, by session and overall. Pure.

A decision's id is a hash of its causes, so the same decision has the same id when it is made twice, and the records
under an id are compared. `decided_at` is the worker's clock and not part of a decision.

Left out on both sides, and counted:
- what workers did because time had passed, as a replay has no clock;
- answers to records that are not within the range;
- with a choice of sessions, the decisions across sessions, which would need all of them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any, Final

from haltline.detectors.cross_session import ACROSS_BY_ID
from haltline.interventions.control import kills
from haltline.streams.replay.choice import Choice

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
    """The result: the numbers of compared decisions, and what differs."""

    recorded: int = 0
    replayed: int = 0
    same: int = 0
    reworded: int = 0
    """Those of `same` with other text or values, but the same level, code and rule."""
    by_clock: int = 0
    """The recorded decisions that were left out; so are the next two."""
    outside: int = 0
    across: int = 0
    first_by_session: dict[str, Divergence] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {"missing": 0, "extra": 0, "changed": 0})

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.first_by_session

    @property
    def first(self) -> Divergence | None:
        """The first difference of all, by the decisions' own time."""
        return next(iter(self.in_order), None)

    @property
    def in_order(self) -> "list[Divergence]":
        """The first difference of each session, by the decisions' own time."""
        return sorted(self.first_by_session.values(), key=lambda d: (d.time, d.session_id))

    def to_dict(self) -> Json:
        """Return plain values, for JSON."""
        first = self.first
        counts = {name: getattr(self, name) for name in ("recorded", "replayed", "same", "reworded")}
        return {
            **counts,
            **self.counts,
            "left_out": {"by_clock": self.by_clock, "outside": self.outside, "across": self.across},
            "first_divergence": None if first is None else asdict(first),
            "sessions": [asdict(one) for one in self.in_order],
        }


class Comparison:
    """Collects the recorded decisions and the causes in the range, and compares with the replayed decisions."""

    def __init__(self, choice: Choice, within: Callable[[int], bool]) -> None:
        """`within` returns whether a time is in the range: answers to approvals name the call and not the command."""
        self._choice = choice
        self._within = within
        self._then: dict[_Key, list[Json]] = {}
        self._now: dict[_Key, list[Json]] = {}
        self._topics_by_cause: dict[str, set[str]] = {}
        """The topics of each cause; only causes that some recorded decision names."""
        self._late: set[_Key] = set()
        self._found = Compared()

    def then(self, decision: Json, timestamp: int) -> None:
        """Add a recorded decision; before any input."""
        if not self._choice.takes(decision):
            return
        if is_by_clock(decision):
            self._found.by_clock += 1
        elif self._choice.leaves_out(decision.get("detector")):
            self._found.across += 1
        else:
            _keep(self._then, decision)
            self._topics_by_cause.setdefault(str(decision.get("event_id")), set())
            if decision.get("detector") == _APPROVAL and not self._within(timestamp):
                self._late.add(_key(decision))

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
        if not is_by_clock(decision) and not self._choice.leaves_out(decision.get("detector")):
            _keep(self._now, decision)

    def result(self, signals: str) -> Compared:
        """Return the result; `signals` is the topic of the causes of decisions across sessions."""
        found = self._found
        outside = {key for key, decisions in self._then.items() if not self._in_range(key, decisions[0], signals)}
        found.outside = len(outside)
        for key in dict.fromkeys((*self._then, *self._now)):
            if key in outside:
                continue
            then, now = self._then.get(key, []), self._now.get(key, [])
            found.recorded += len(then)
            found.replayed += len(now)
            for old, new in zip_longest(then, now):
                self._compare(key, old, new)
        return found

    def _in_range(self, key: "_Key", decision: Json, signals: str) -> bool:
        topics = self._topics_by_cause[str(decision.get("event_id"))]
        if decision.get("detector") in ACROSS_BY_ID:
            return signals in topics
        return bool(topics - {signals}) and key not in self._late

    def _compare(self, key: "_Key", old: Json | None, new: Json | None) -> None:
        found, fields = self._found, tuple[str, ...]()
        if old is not None and new is not None:
            fields = tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))
            if not fields or not (self._choice.exact or set(fields) & set(CLEAR)):
                found.same += 1
                found.reworded += bool(fields)
                return
        what = "extra" if old is None else "missing" if new is None else "changed"
        found.counts[what] += 1
        time = int((old or new or {})["time"])
        first = found.first_by_session.get(key[0])
        if first is None or time < first.time:
            found.first_by_session[key[0]] = Divergence(
                *key, time, what, fields, _brief(old, fields), _brief(new, fields)
            )


_Key = tuple[str, str]
"""Session and decision."""


def _key(decision: Mapping[str, Any]) -> _Key:
    return str(decision.get("session_id")), str(decision.get("decision_id"))


def _keep(kept: dict[_Key, list[Json]], decision: Json) -> None:
    """Keep a decision unless it is a duplicate: delivery is at least once."""
    fields = plain(decision)
    same_id = kept.setdefault(_key(decision), [])
    if fields not in same_id:
        same_id.append(fields)


def is_by_clock(decision: Mapping[str, Any]) -> bool:
    """Return whether a worker decided it because time had passed: a kill repeated or given up, an expired approval."""
    if decision.get("detector") == kills.DETECTOR:
        return "issued" in (decision.get("values") or {})
    approval = decision.get("approval") or {}
    return decision.get("detector") == _APPROVAL and approval.get("state") == "expired"


def plain(decision: Mapping[str, Any]) -> Json:
    """Return a decision without the fields that are not part of it."""
    return {name: value for name, value in decision.items() if name != "decided_at"}


def _brief(decision: Json | None, fields: tuple[str, ...]) -> Json | None:
    return None if decision is None else {name: decision.get(name) for name in (*_BRIEF, *fields) if name in decision}
