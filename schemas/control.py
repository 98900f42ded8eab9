"""Records of the topics `control` (restrictions in force), `commands` (operators' acts) and `feedback` (of agents)."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from haltline.schemas.decisions import ScopeKind
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.intervention_records import InterventionRecord
from haltline.schemas.record import EpochMs, Id, Name, Record, Text

HALTLINE: Final = "haltline"
"""The value of `by` for haltline's own acts: freezes until a request is approved, and kills by rules."""


class ControlState(StrEnum):
    """The restriction in force for a session, an agent, a tool, a target, a mission or the fleet."""

    KILLED = "killed"
    """Every call is refused, and the agent's run ends."""
    FROZEN = "frozen"
    """Every call is refused until an operator lifts it."""
    CONTAINED = "contained"
    """Only reads are allowed until an operator lifts it."""
    PROBATION = "probation"
    """Released from a kill, with stricter limits for its next actions."""


class ControlRecord(Record):
    """One entry of the compacted `control` topic; its key is `scope:id`. No entry: no restriction.

    The worker that owns the key's partition is its only writer; the header `haltline-owner` names its claim.
    """

    v: int = 1
    scope: ScopeKind
    id: Id
    state: ControlState
    code: Name
    """The code of refusals, such as `session_killed_loop_guard`."""
    reason: Text
    decision_id: Id
    agent_id: Id = "unknown"
    by: Name = "haltline"
    """Who set it: `haltline`, or an operator's name."""
    since: EpochMs
    """Event time of the decision, or the time of the operator's command."""
    decided_at: EpochMs | None = None
    stopped_at: EpochMs | None = None
    """When the agent's side acknowledged the stop; None: not acknowledged yet."""
    time_to_stop_ms: Annotated[int, Field(ge=0)] | None = None
    issued: Annotated[int, Field(ge=1)] | None = None
    """How often a kill was sent, if more than once."""
    escalated_at: EpochMs | None = None
    """When the wait for the acknowledgement of a kill ended without one, though the kill was sent again."""
    unheard: bool | None = None
    """For a killed session without any events: no agent can acknowledge the kill. It is stopped if it starts."""
    locked_until: EpochMs | None = None
    """Until then a reset takes two operators."""
    from_depth: Annotated[int, Field(ge=0)] | None = None
    """For a tree whose sessions start no more agents: generations below the first from which on; None: all of them."""
    actions_left: Annotated[int, Field(ge=0)] | None = None
    """For a probation: its number of actions when it began."""
    spared: list[Id] | None = Field(default=None, max_length=1000)
    """Sessions that were released from the entry of an agent, a mission or the fleet."""

    @property
    def key(self) -> str:
        """The record's key on the topic."""
        return control_key(self.scope, self.id)

    @property
    def stands_since(self) -> int:
        """Since when it is in force, for display: by the worker's clock if known, as event times may be old."""
        return self.since if self.decided_at is None else self.decided_at


def control_key(scope: str, scope_id: str) -> str:
    """The key of a control record from a scope and an id within it: `session:42`, `agent:cleaner`, `fleet:*`."""
    return f"{scope}:{scope_id}"


class CommandKind(StrEnum):
    """The kinds of commands."""

    KILL = "kill"
    RESET = "reset"
    CONTAIN = "contain"
    FREEZE = "freeze"
    LIFT = "lift"
    """Lifts a containment or a freeze; a kill needs a reset."""
    APPROVE = "approve"
    REJECT = "reject"
    ASK = "ask"
    """Request for information, before an approval."""
    LABEL = "label"
    BATCH = "batch"
    RECORD = "record"
    """Stores an intervention record of another system's guard."""
    HIDE = "hide"
    """Hides an intervention record from lists and totals; it stays in the audit."""
    ACKNOWLEDGE = "acknowledge"
    """An operator works on an incident."""
    ASSIGN = "assign"
    """The assignee of an incident."""
    COMMENT = "comment"
    """A note on an incident, in `reason`."""
    RESOLVE = "resolve"
    """An incident is over; its open approval request is closed with it."""
    REQUEST = "request"
    ANSWER = "answer"
    WITHDRAW = "withdraw"
    USE = "use"
    REPLAYED = "replayed"
    """Like the four before it of earlier releases only: see `REMOVED_KINDS`."""


REMOVED_KINDS: Final = frozenset(
    {CommandKind.REQUEST, CommandKind.ANSWER, CommandKind.WITHDRAW, CommandKind.USE, CommandKind.REPLAYED}
)
"""Records of earlier releases still have them. They have no effect, and are counted."""


class Batch(Record):
    """A bulk operation that an operator has announced.

    Raises the allowed volume for matching calls. A second call on the same target still counts.
    """

    actions: Name = "*"
    """Glob over tool names."""
    targets: list[Name] = Field(default_factory=list, max_length=10_000)
    """Globs over targets such as `asset_id=stg_*`; empty: any."""
    max_deletes: Annotated[int, Field(ge=1, le=1_000_000)]
    expires: EpochMs


class Command(Record):
    """An operator's act, with its operator and reason; the audit keeps it."""

    v: int = 1
    command_id: Id
    kind: CommandKind
    scope: ScopeKind = ScopeKind.SESSION
    id: Id
    """The session's id, or the id within the scope."""
    by: Annotated[str, Field(min_length=1, max_length=256)]
    reason: Annotated[str, Field(min_length=1, max_length=4096)]
    time: EpochMs
    batch: Batch | None = None
    decision_id: Id | None = None
    code: Name | None = None
    """For a kill that haltline itself requests: the code of the session's refusals. For the label `missed`: the
    rule."""
    label: Name | None = None
    """For `label`: `confirmed` or `false_alarm` for a decision, `missed` for a session."""
    request_id: Id | None = None
    """For `approve`, `reject` and `ask`: the approval request."""
    nonce: Id | None = None
    """The request's nonce: an answer to a request that has changed since has no effect."""
    probation_actions: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """For `reset`: the number of actions on probation; by default the policy's."""
    force: bool | None = None
    """For `reset`: release within the lockout, which takes two operators."""
    record: InterventionRecord | None = None
    """For `record`."""
    record_id: Id | None = None
    """For `hide`."""
    session: Id | None = None
    """For `reset` of an agent, a mission or the fleet: release this session only."""
    incident_id: Id | None = None
    """For `acknowledge`, `assign`, `comment` and `resolve`; `scope` and `id` are those of the incident."""
    assignee: Name | None = None
    """For `assign`."""
    incident: IncidentRecord | None = None
    """For `resolve`: the incident as the operator saw it, so that one whose state was dropped can be closed, too."""


class Stage(StrEnum):
    """The stage of a decision at the agent's side."""

    RECEIVED = "received"
    APPLIED = "applied"
    STOPPED = "stopped"
    """For a kill: no call runs any more, and every further one is refused."""
    REFUSED = "refused"
    """A call was refused because of the decision."""
    FAILED = "failed"
    """The decision could not be carried out; `detail` has the reason."""
    CHILDREN = "children"
    """The descendants that were stopped with the session."""


class Feedback(Record):
    """The feedback of the agent's side on one decision."""

    v: int = 1
    feedback_id: Id
    decision_id: Id
    session_id: Id
    agent_id: Id = "unknown"
    stage: Stage
    time: EpochMs
    decided_at: EpochMs | None = None
    """Copied from the decision, so that the worker can measure the round trip by its own clock."""
    call_id: Id | None = None
    action: Name = ""
    children: list[Id] = Field(default_factory=list, max_length=10_000)
    detail: Text = ""
    cause: Name | None = None
    """The key of the control record that it answers, such as `session:42`; None: a decision on this session."""
