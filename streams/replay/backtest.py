"""The backtest: what a policy would have done with recorded sessions, as a guard would have carried it out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter
from typing import Any

from haltline.detectors import PATTERNS
from haltline.interventions.levels.default_levels import OF_TREE, is_ask
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.engine.local_fleet import decisions_of
from haltline.streams.replay.live_play import LivePlay


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded session: its events in order, each with its number in the source, which two events can share."""

    session_id: str
    events: Sequence[tuple[int, ActionEvent]]
    label: str | None = None
    clock: str = "real"
    """`real`, or `steps` if the source has no times and each event got a fixed step."""

    @property
    def length(self) -> int:
        """The number of its events in the source."""
        return len({seq for seq, _ in self.events})


@dataclass(frozen=True, slots=True)
class FoundAt:
    """A finding, at the event's number in the source."""

    seq: int
    detector: str
    severity: str
    confidence: float
    reason: str


@dataclass(frozen=True, slots=True)
class DecidedAt:
    """A decision, at the event's number in the source."""

    seq: int
    level: str
    detector: str
    reason: str


@dataclass(frozen=True, slots=True)
class FirstStop:
    """The first decision at PAUSE or above that is not an approval request."""

    seq: int
    event_id: str
    detector: str
    level: str


@dataclass(slots=True)
class Result:
    """The result of one session."""

    session_id: str
    events: int
    label: str | None = None
    clock: str = "real"
    level: str = Level.ALLOW.value
    """The highest level decided, without approval requests."""
    first: FirstStop | None = None
    findings: list[FoundAt] = field(default_factory=list)
    decisions: list[DecidedAt] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    """The calls that would not have been made, by the event's number in the source."""
    held: int | None = None
    """The event at which the session was held or killed for the first time: later calls are refused."""
    asks: int = 0
    """The number of approval requests. Nobody answers here: the call is refused."""
    cost_prevented_usd: float = 0.0
    """The cost of refused calls, if the policy has prices."""
    cost_after_stop_usd: float = 0.0
    """The recorded cost of what would not have happened after `held`."""

    def found(self, seq: int, finding: Finding) -> None:
        """Add a finding."""
        self.findings.append(FoundAt(seq, finding.detector, finding.severity.value, finding.confidence, finding.reason))

    def decided(self, seq: int, decision: Decision) -> None:
        """Add a decision, unless it is the plain verdict on an event."""
        if not decision.detector and decision.level is not Level.KILL:
            return
        self.decisions.append(DecidedAt(seq, decision.level.value, decision.detector, decision.reason))
        self.cost_prevented_usd += decision.cost_prevented_usd or 0.0
        if is_ask(decision.detector, decision.level):
            self.asks += 1
            return
        self.level = max(Level(self.level), decision.level).value
        if decision.level >= Level.PAUSE and self.first is None:
            self.first = FirstStop(seq, decision.event_id, decision.detector, decision.level.value)


def only(policy: Policy, rules: Mapping[str, Rule], **update: Any) -> Policy:
    """Return the policy with only these rules: decisions of others would take precedence."""
    disabled = {name: Rule(enabled=False) for name in PATTERNS}
    return policy.model_copy(update={"rules": {**disabled, **rules}, "correlations": (), "overrides": (), **update})


def backtest(core: Core, session: Recorded) -> Result:
    """Run one session alone through the core."""
    return together(core, [session])[0]


def together(core: Core, sessions: Sequence[Recorded]) -> list[Result]:
    """Run sessions together, in time order, with the rules across them.

    Calls that a guard would have refused do not happen: see `live_play`. Returns one result for each, in their order.
    """
    play = LivePlay(core)
    runs = {s.session_id: Result(s.session_id, s.length, s.label, s.clock) for s in sessions}
    numbers: dict[str, int] = {}
    for _, seq, event in merge(*(_numbered(session) for session in sessions), key=itemgetter(0)):
        run = runs[event.session_id]
        numbers[event.session_id] = seq
        happened = play.event(event)
        for followed in happened.followed:
            for detection in followed.detections:
                if detection.session_id in runs:
                    at = seq if detection.finding.detector in OF_TREE else numbers.get(detection.session_id, 0)
                    runs[detection.session_id].found(at, detection.finding)
            for decision in decisions_of(followed):
                if decision.session_id in runs:
                    at = seq if decision.detector in OF_TREE else numbers.get(decision.session_id, 0)
                    runs[decision.session_id].decided(at, decision)
        if happened.refused:
            run.refused.append(seq)
        if run.held is None:
            run.held = seq if play.is_stopped(event.session_id) else None
        elif not happened.made and event.usage is not None:
            run.cost_after_stop_usd = round(run.cost_after_stop_usd + event.usage.cost_usd, 6)
    return list(runs.values())


def related(sessions: Sequence[Recorded]) -> list[list[Recorded]]:
    """Return the sessions grouped by tree: sessions with their parents and roots. In order of the first."""
    group_of: dict[str, str] = {}

    def first_of(name: str) -> str:
        while group_of.get(name, name) != name:
            name = group_of[name]
        return name

    for session in sessions:
        group_of.setdefault(session.session_id, session.session_id)
        for _, event in session.events:
            for above in (event.parent_session_id, event.root_session_id):
                if above is not None:
                    group_of.setdefault(above, above)
                    group_of[first_of(session.session_id)] = first_of(above)
    groups: dict[str, list[Recorded]] = {}
    for session in sessions:
        groups.setdefault(first_of(session.session_id), []).append(session)
    return list(groups.values())


def _numbered(session: Recorded) -> Iterator[tuple[int, int, ActionEvent]]:
    return ((event.time, seq, event) for seq, event in session.events)
