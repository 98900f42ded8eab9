"""What a policy would have done with recorded sessions."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent
from haltline.streams.core import Core, Position, SessionState


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded session: its events in order, each with its number in the source (two events can share one)."""

    session_id: str
    events: Sequence[tuple[int, ActionEvent]]
    label: str | None = None
    clock: str = "real"
    """`real`, or `steps` where the source has no times and each event was given a fixed step."""

    @property
    def length(self) -> int:
        """How many events the source has of it."""
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
    """The first decision at PAUSE or above."""

    seq: int
    event_id: str
    detector: str
    level: str


@dataclass(slots=True)
class Result:
    """What would have happened in one session."""

    session_id: str
    events: int
    level: str = Level.ALLOW.value
    first: FirstStop | None = None
    findings: list[FoundAt] = field(default_factory=list)
    decisions: list[DecidedAt] = field(default_factory=list)
    label: str | None = None
    clock: str = "real"

    def to_dict(self) -> dict[str, object]:
        """As plain values, for JSON."""
        return asdict(self)


def backtest(core: Core, session: Recorded) -> Result:
    """Runs one session through the core, to its end or to the kill."""
    result = Result(session.session_id, session.length, label=session.label, clock=session.clock)
    state: SessionState | None = None
    for offset, (seq, event) in enumerate(session.events):
        followed = core.on_event(state, event, Position("recorded", 0, offset))
        state = followed.state
        for detection in followed.detections:
            f = detection.finding
            result.findings.append(FoundAt(seq, f.detector, f.severity.value, f.confidence, f.reason))
        decision = followed.decision
        if decision is None or not decision.detector:
            continue
        result.decisions.append(DecidedAt(seq, decision.level.value, decision.detector, decision.reason))
        result.level = max(Level(result.level), decision.level).value
        if decision.level >= Level.PAUSE and result.first is None:
            result.first = FirstStop(seq, event.event_id, decision.detector, decision.level.value)
        if decision.level is Level.KILL:
            break
    return result
