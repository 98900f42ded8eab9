"""What holds for one session. Plain JSON values: part of its state."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b

from msgspec import Struct, field

from haltline.interventions.state.approval_ticket import Ticket
from haltline.interventions.state.intervention_history import History
from haltline.interventions.state.open_incident import OpenIncident
from haltline.interventions.state.open_question import OpenQuestion
from haltline.schemas.control import Batch


def digest(*parts: str) -> str:
    """An id made of what it is about, so that a redelivery and a replay make the same one."""
    return blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()


@dataclass
class Given:
    """The last decision that a rule led to in a session."""

    level: str
    time_ms: int


@dataclass
class Kill:
    """That a session is killed, by what or whom, and whether its side has stopped."""

    decision_id: str
    code: str
    reason: str
    by: str
    since_ms: int
    stopped_at_ms: int | None = None
    time_to_stop_ms: int | None = None
    issued: int = 1
    """How often it was sent; 0: nobody is there who could answer."""
    sent_ms: int | None = None
    """When it was sent first, on the worker's clock; None: not looked at yet."""
    due_ms: int = 0
    """When it is to be acknowledged, on the worker's clock; 0: not looked at yet."""
    escalated_at_ms: int | None = None
    """When it was given up waiting."""
    locked_until_ms: int | None = None
    """A reset by one operator alone is refused before then, on the operator's clock."""
    unheard: bool = False
    """The session had no events when it was killed."""


@dataclass
class DeclaredBatch:
    """A batch that an operator declared for the session."""

    actions: str
    targets: list[str]
    max_deletes: int
    expires_ms: int
    by: str = ""
    reason: str = ""
    command_id: str = ""
    used: int = 0
    """How many attempts it has covered."""

    def as_batch(self) -> Batch:
        """As it was declared."""
        return Batch(actions=self.actions, targets=self.targets, max_deletes=self.max_deletes, expires=self.expires_ms)


@dataclass
class Probation:
    """What a session is held to since it was released."""

    left: int
    """For so many more of its actions."""
    by: str
    reason: str
    since_ms: int
    """Time of the operator's command."""
    decision_id: str


@dataclass
class Freeze:
    """That a session is frozen, or contained: by an operator, or by a pause of the whole session."""

    state: str
    by: str
    reason: str
    since_ms: int
    decision_id: str
    code: str = ""
    """What its calls are refused with; empty: an operator did it."""


@dataclass
class RepeatedCommand:
    """What one operator asks for, and it takes two."""

    by: str
    time_ms: int
    what: str = "reset"

    def confirms(self, earlier: "RepeatedCommand | None", within_s: float) -> bool:
        """Whether another operator asked for the same before, within the time for that."""
        if earlier is None or earlier.what != self.what or earlier.by == self.by:
            return False
        return 0 <= self.time_ms - earlier.time_ms <= within_s * 1000


class SessionControl(Struct):
    """What holds for one session. Plain JSON values: part of the session's state."""

    killed: Kill | None = None
    given: dict[str, Given] = field(default_factory=dict)
    batches: list[DeclaredBatch] = field(default_factory=list)
    after_kill: int = 0
    """Attempts that were seen after the kill."""
    stopped_early: dict[str, int] = field(default_factory=dict)
    """By decision id: when the agent's side stopped for a kill that is not known here yet. In mode
    `local` it decides by itself, and its answer, on another topic, can overtake the event."""
    history: History | None = None
    """What was said, and whether it helped; None: there was nothing to say yet."""
    approvals: dict[str, Ticket] = field(default_factory=dict)
    """By a call's canonical parameters: the request to let it pass; see `interventions.approvals`."""
    probation: Probation | None = None
    trips: int = 0
    """Kills on probation, since it last came through one."""
    held: Freeze | None = None
    """An operator has frozen or contained it."""
    release_asked: RepeatedCommand | None = None
    """A reset within the lockout."""
    rejected: dict[str, str] = field(default_factory=dict)
    """By rule that asks once in a session: who has rejected its request."""
    incidents: dict[str, OpenIncident] = field(default_factory=dict)
    """By cause: what is open; the one that counted longest ago first."""
    opinions: dict[str, OpenQuestion] = field(default_factory=dict)
    """By rule of judgement: the last second opinion that was requested."""

    def batch_for(self, action: str, targets: Sequence[str], time_ms: int) -> DeclaredBatch | None:
        """The declared batch that covers this action on all of these targets now; the largest of several."""
        covering = [
            b
            for b in self.batches
            if time_ms <= b.expires_ms
            and b.used < b.max_deletes
            and fnmatchcase(action, b.actions)
            and (not b.targets or all(any(fnmatchcase(t, glob) for glob in b.targets) for t in targets))
        ]
        return max(covering, key=lambda b: b.max_deletes, default=None)
