"""What is remembered of one session, and what follows from one input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct, field

from haltline.detectors.commands.model import Destruction
from haltline.detectors.features.observation import CallTracker
from haltline.interventions.state.context import TaskNote
from haltline.interventions.state.effects import SessionRef
from haltline.interventions.state.intervention_history import Checkpoints
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.control import ControlRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Detection
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.signals import Signal
from haltline.streams.engine.log_position import Failure
from haltline.streams.engine.signals import UnsentSignals

if TYPE_CHECKING:
    Memory = Any
else:
    Memory = Raw  # of what class it is, its detector knows: until then it is left as it is written

_new = object.__new__

MAX_SEEN = 64
"""Event ids that are remembered, to know an event that its producer sent twice."""


class SessionState(Struct):
    """All that is remembered of one session: one value, with the offsets that it includes."""

    session_id: str
    agent_id: str = "unknown"
    offsets: dict[str, int] = field(default_factory=dict)
    """By topic: the last offset that this state includes."""
    seen: bytes = b""
    """Short hashes of the last event ids one behind the other, the oldest first: one object to look at, not many."""
    clock_ms: int = 0
    """The latest event time."""
    events: int = 0
    calls: CallTracker = field(default_factory=CallTracker)
    detectors: dict[str, Memory] = field(default_factory=dict)
    """By detector id: its State."""
    standing: SessionControl = field(default_factory=SessionControl)
    unsaid: UnsentSignals = field(default_factory=UnsentSignals)
    root_session_id: str | None = None
    """The first session of the tree that it is of, where that is another one."""
    task: TaskNote | None = None
    """What it was asked to do, cut."""
    checkpoints: Checkpoints | None = None
    """What the agent's side has kept; None: it keeps none."""
    ended: bool = False
    """Its side reported its end, and nothing since."""
    due_ms: int = 0
    """When a tick has something to do, on the worker's clock; 0: never."""
    v: int = 2

    @property
    def ref(self) -> SessionRef:
        """Which session it is, as what is decided about it needs it."""
        return SessionRef(self.session_id, self.agent_id, listens=self.events > 0 and not self.ended)


@dataclass
class Effects:
    """What follows from one input. What is left out stands in the class: of most inputs nothing follows."""

    state: SessionState
    applied: bool = True
    """False: the state included it already, and nothing follows."""
    detections: tuple[Detection, ...] = ()
    decision: Decision | None = None
    control: ControlRecord | None = None
    """What to write to the compacted topic."""
    released: bool = False
    """The session's entry on the compacted topic is to be removed."""
    failures: tuple[Failure, ...] = ()
    signals: Sequence[Signal] = ()
    """For what looks across sessions."""
    also: tuple[Decision, ...] = ()
    """More decisions, after the first."""
    followup: str = ""
    """What operators, answers or the clock have caused, to be counted."""
    incidents: Sequence[IncidentRecord] = ()
    """How incidents stand from now on, in order."""
    judged: Sequence[tuple[str, str, float]] = ()
    """Interventions of which it is known now how far they helped: rule, level, and 0 to 1."""
    irreversible: Sequence[Destruction] = ()
    """What the event attempts that cannot be taken back, without scratch and the session's own things."""

    @classmethod
    def nothing(cls, state: SessionState) -> "Effects":
        """Of an input from which nothing follows: as `Effects(state)`, in a quarter of the time."""
        outcome = _new(cls)
        outcome.state = state
        return outcome

    @property
    def follows(self) -> bool:
        """Whether anything does: of most inputs nothing does but their place in the state."""
        follows = self.decision is not None or self.control is not None or self.released
        follows = follows or bool(self.detections or self.failures or self.signals or self.judged)
        return follows or bool(self.incidents or self.also or self.irreversible)
