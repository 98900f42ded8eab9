"""The state of one session, and the effects of one input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Raw, field

from haltline.detectors.commands.model import Destruction
from haltline.detectors.features.observation import CallTracker
from haltline.interventions.author_rules.evaluation import RuleState
from haltline.interventions.state.context import TaskNote
from haltline.interventions.state.effects import SessionRef
from haltline.interventions.state.intervention_history import Checkpoints
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.control import ControlRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Detection
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.signals import Signal
from haltline.schemas.stored import Stored
from haltline.streams.engine.log_position import Failure
from haltline.streams.engine.signals import UnsentSignals

if TYPE_CHECKING:
    Memory = Any
else:
    Memory = Raw  # its detector knows its class; until then it stays encoded

_new = object.__new__

MAX_SEEN = 64
"""The number of event ids kept, to detect an event that its producer sent twice."""


class SessionState(Stored):
    """The state of one session: one value, with the offsets that it includes."""

    session_id: str
    agent_id: str = "unknown"
    offsets: dict[str, int] = field(default_factory=dict)
    """The last offset that this state includes, by topic."""
    seen: bytes = b""
    """Concatenated short hashes of the last event ids, oldest first: scanning one object is fast."""
    clock_ms: int = 0
    """The latest event time."""
    events: int = 0
    calls: CallTracker = field(default_factory=CallTracker)
    detectors: dict[str, Memory] = field(default_factory=dict)
    """State by detector id."""
    control: SessionControl = field(default_factory=SessionControl, name="standing")  # as it is stored
    unsent: UnsentSignals = field(default_factory=UnsentSignals, name="unsaid")  # as it is stored
    root_session_id: str | None = None
    """The first session of its tree; None if that is this session."""
    task: TaskNote | None = None
    """Its task, truncated."""
    checkpoints: Checkpoints | None = None
    """The checkpoints of the agent's side; None if it keeps none."""
    author_rules: RuleState | None = None
    """The counts of the author's rules; None: the policy has none for it."""
    ended: bool = False
    """Whether the agent's side reported the session's end, and nothing since."""
    due_ms: int = 0
    """When a tick is due, in milliseconds of the worker's clock; 0: never."""
    v: int = 2

    @property
    def ref(self) -> SessionRef:
        """The reference to this session, for decisions about it."""
        return SessionRef(self.session_id, self.agent_id, listens=self.events > 0 and not self.ended)


@dataclass
class Effects:
    """The effects of one input. Fields that are not set are read from the class: most inputs have no effects."""

    state: SessionState
    applied: bool = True
    """False if the state already included it, and there are no effects."""
    detections: tuple[Detection, ...] = ()
    decision: Decision | None = None
    control: ControlRecord | None = None
    """The record to write to the compacted topic."""
    released: bool = False
    """Whether to remove the session's entry on the compacted topic."""
    failures: tuple[Failure, ...] = ()
    signals: Sequence[Signal] = ()
    """Signals for the rules across sessions."""
    also: tuple[Decision, ...] = ()
    """Further decisions, after the first."""
    followup: str = ""
    """The effect of operators, feedback or the clock, to be counted."""
    incidents: Sequence[IncidentRecord] = ()
    """Updated incidents, in order."""
    judged: Sequence[tuple[str, str, float]] = ()
    """Interventions for which it is now known how far they helped: rule, level, and 0 to 1."""
    irreversible: Sequence[Destruction] = ()
    """Irreversible effects that the event attempts, without scratch and the session's own things."""

    @classmethod
    def nothing(cls, state: SessionState) -> "Effects":
        """Return the effects of an input without any: like `Effects(state)`, without its defaults."""
        outcome = _new(cls)
        outcome.state = state
        return outcome

    @property
    def follows(self) -> bool:
        """Whether there are effects besides the changed state: most inputs have none."""
        follows = self.decision is not None or self.control is not None or self.released
        follows = follows or bool(self.detections or self.failures or self.signals or self.judged)
        return follows or bool(self.incidents or self.also or self.irreversible)
