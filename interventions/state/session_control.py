"""The control state of a session: kill, freeze, probation, approvals, batches. Plain JSON values, part of its state."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b

from msgspec import field

from haltline.interventions.state.approval_ticket import ApprovalTicket
from haltline.interventions.state.intervention_history import History
from haltline.interventions.state.open_incident import OpenIncident
from haltline.schemas.control import Batch
from haltline.schemas.stored import Stored


def digest(*parts: str) -> str:
    """Return an id hashed from its subject, so that a redelivery and a replay give the same one."""
    return blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()


@dataclass
class Given:
    """The last decision of a rule in a session."""

    level: str
    time_ms: int


@dataclass
class Kill:
    """A kill of the session: its cause, and whether the agent's side has acknowledged it."""

    decision_id: str
    code: str
    reason: str
    by: str
    since_ms: int
    stopped_at_ms: int | None = None
    time_to_stop_ms: int | None = None
    issued: int = 1
    """How often it was sent; 0: the agent's side cannot acknowledge it."""
    sent_ms: int | None = None
    """When it was first sent, epoch ms of the worker's clock; None: no tick has checked it yet."""
    due_ms: int = 0
    """Deadline of its acknowledgement, epoch ms of the worker's clock; 0: no tick has checked it yet."""
    escalated_at_ms: int | None = None
    """When the wait for the acknowledgement was given up, epoch ms."""
    locked_until_ms: int | None = None
    """Until then (epoch ms of the operator's clock) a reset takes two operators."""
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
    """Attempts that the batch has covered so far."""

    def as_batch(self) -> Batch:
        """Return the batch as it was declared, without its use."""
        return Batch(actions=self.actions, targets=self.targets, max_deletes=self.max_deletes, expires=self.expires_ms)


@dataclass
class Probation:
    """The probation of a session after its release."""

    left: int
    """Actions that are left on probation."""
    by: str
    reason: str
    since_ms: int
    """Time of the operator's command."""
    decision_id: str


@dataclass
class Freeze:
    """A freeze or containment of the session, by an operator or by a pause of the whole session."""

    state: str
    by: str
    reason: str
    since_ms: int
    decision_id: str
    code: str = ""
    """The code of the refusals; empty: set by an operator."""
    turns: int = 0
    """Turns with a refused call since then."""
    step: int = 0
    """The step of the last of them."""


@dataclass
class Judging:
    """A session that had a call refused for lack of progress, until it makes some or is held."""

    rule: str
    """The rule that found it."""
    reason: str
    since_ms: int
    """When the lack of progress was first found, event time."""
    refused: list[str] = dataclasses.field(default_factory=list)
    """Short fingerprints of the refused calls."""
    refuses_next: bool = False
    """It was decided on a result: the agent's side refuses the next call, whatever it is."""
    step: int = 0
    """The step of the refused call, then of the last attempt."""
    attempts: int = 0
    """Steps attempted since."""


@dataclass
class RepeatedCommand:
    """A command of one operator that needs a second operator's."""

    by: str
    time_ms: int
    what: str = "reset"

    def confirms(self, earlier: "RepeatedCommand | None", within_s: float) -> bool:
        """Return whether another operator sent the same command at most `within_s` seconds before."""
        if earlier is None or earlier.what != self.what or earlier.by == self.by:
            return False
        return 0 <= self.time_ms - earlier.time_ms <= within_s * 1000


class SessionControl(Stored):
    """The control state of one session. Plain JSON values: part of the session's state."""

    killed: Kill | None = None
    given: dict[str, Given] = field(default_factory=dict)
    batches: list[DeclaredBatch] = field(default_factory=list)
    after_kill: int = 0
    """Attempts after the kill."""
    stopped_early: dict[str, int] = field(default_factory=dict)
    """By decision id: when the agent's side stopped for a kill that is not known here yet. In mode
    `local` it decides by itself, and its answer, on another topic, can overtake the event."""
    history: History | None = None
    """The interventions so far, and whether they helped; None: there was none yet."""
    approvals: dict[str, ApprovalTicket] = field(default_factory=dict)
    """By a call's canonical parameters: the request to let it pass; see `interventions.control.approvals`."""
    probation: Probation | None = None
    trips: int = 0
    """Kills on probation since the last probation that ended well."""
    held: Freeze | None = None
    """The freeze or containment in force."""
    release_asked: RepeatedCommand | None = None
    """A reset within the lockout that waits for a second operator's."""
    rejected: dict[str, str] = field(default_factory=dict)
    """By rule that asks once in a session: the operator who rejected its request."""
    judging: Judging | None = None
    """The steps towards a hold; None: no call was refused for lack of progress, or some was made since."""
    incidents: dict[str, OpenIncident] = field(default_factory=dict)
    """Open incidents by cause, the one with the oldest last decision first."""

    def batch_for(self, action: str, targets: Sequence[str], time_ms: int) -> DeclaredBatch | None:
        """Return the declared batch that covers this action on all of these targets now; the largest of several."""
        covering = [
            b
            for b in self.batches
            if time_ms <= b.expires_ms
            and b.used < b.max_deletes
            and fnmatchcase(action, b.actions)
            and (not b.targets or all(any(fnmatchcase(t, glob) for glob in b.targets) for t in targets))
        ]
        return max(covering, key=lambda b: b.max_deletes, default=None)
