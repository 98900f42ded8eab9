"""What holds now, what operators ask for, and what the agent's side answers."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from haltline.schemas.decisions import ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.intervention_records import InterventionRecord
from haltline.schemas.record import EpochMs, Id, JsonObject, Name, Record, Text

HALTLINE: Final = "haltline"
"""Who acts where no operator does: it freezes a session until its request is approved, and kills by its rules."""


class ControlState(StrEnum):
    """What holds for a session, an agent, a tool, a target, a mission or the fleet."""

    KILLED = "killed"
    """Nothing more is done, and an agent that receives it ends."""
    FROZEN = "frozen"
    """Nothing is done until it is lifted."""
    CONTAINED = "contained"
    """It may only read until it is lifted."""
    PROBATION = "probation"
    """It was released, and is held to less for a while."""


class ControlRecord(Record):
    """One entry of the compacted `control` topic; its key is `scope:id`. No entry: nothing holds.

    The worker that owns the key's partition is its only writer; the header `haltline-owner` names its claim.
    """

    v: int = 1
    scope: ScopeKind
    id: Id
    state: ControlState
    code: Name
    """What a refused call is answered with, such as `session_killed_loop_guard`."""
    reason: Text
    decision_id: Id
    agent_id: Id = "unknown"
    by: Name = "haltline"
    """Who did it: `haltline`, or an operator's name."""
    since: EpochMs
    """Event time of the decision, or the time of the operator's command."""
    decided_at: EpochMs | None = None
    stopped_at: EpochMs | None = None
    """When the agent's side acknowledged the stop; None: not acknowledged yet."""
    time_to_stop_ms: Annotated[int, Field(ge=0)] | None = None
    issued: Annotated[int, Field(ge=1)] | None = None
    """How often a kill was sent, when that was more than once."""
    escalated_at: EpochMs | None = None
    """When it was given up waiting for the agent's side to acknowledge a kill, though it was sent again."""
    unheard: bool | None = None
    """Of a killed session without any events: nobody is there to acknowledge; it is stopped if it starts."""
    locked_until: EpochMs | None = None
    """A reset by one operator alone is refused before then."""
    actions_left: Annotated[int, Field(ge=0)] | None = None
    """Of a probation, as it began."""
    spared: list[Id] | None = Field(default=None, max_length=1000)
    """Sessions for which the entry of an agent, a mission or the fleet does not hold: they were released from it."""

    @property
    def key(self) -> str:
        """The record's key on the topic."""
        return control_key(self.scope, self.id)

    @property
    def stands_since(self) -> int:
        """Since when it holds, for people: on the worker's clock where that is known, as events may be of long ago."""
        return self.since if self.decided_at is None else self.decided_at


def control_key(scope: str, scope_id: str) -> str:
    """The key of a control record, of the scope's value and its id: `session:42`, `agent:cleaner`, `fleet:*`."""
    return f"{scope}:{scope_id}"


class CommandKind(StrEnum):
    """What an operator can ask for."""

    KILL = "kill"
    RESET = "reset"
    CONTAIN = "contain"
    FREEZE = "freeze"
    LIFT = "lift"
    """End of what was contained or frozen; a kill needs a reset."""
    APPROVE = "approve"
    REJECT = "reject"
    ASK = "ask"
    """Request for information, before an approval."""
    LABEL = "label"
    BATCH = "batch"
    RECORD = "record"
    """Keeps an intervention record that somebody else's guard made."""
    HIDE = "hide"
    """Takes an intervention record out of lists and sums; it stays in the audit."""
    REQUEST = "request"
    """Asks for a person's approval of one call, for an agent whose own guard holds it back until then."""
    ANSWER = "answer"
    """What the agent's side says to an operator's question."""
    WITHDRAW = "withdraw"
    """The agent's side waits no longer for the approval that it asked for."""
    USE = "use"
    """The agent's side makes the one call that it asked an approval for, and was given."""
    REPLAYED = "replayed"
    """The result of running an agent again on the recorded outputs of a session."""
    ACKNOWLEDGE = "acknowledge"
    """Somebody has seen an incident."""
    ASSIGN = "assign"
    """The assignee of an incident."""
    COMMENT = "comment"
    """A note on an incident, in `reason`."""
    RESOLVE = "resolve"
    """An incident is over; its open approval request is closed with it."""


class Batch(Record):
    """Many destructive acts that a person declared beforehand.

    Raises the volume that is allowed for acts that match; the same target twice still counts.
    """

    actions: Name = "*"
    """Glob over tool names."""
    targets: list[Name] = Field(default_factory=list, max_length=10_000)
    """Globs over targets such as `asset_id=stg_*`; empty: any."""
    max_deletes: Annotated[int, Field(ge=1, le=1_000_000)]
    expires: EpochMs


class CallRequest(Record):
    """One call that is to be approved, as the agent's own guard tells it; secrets are taken out before."""

    action: Annotated[str, Field(min_length=1, max_length=512)]
    args: JsonObject | None = None
    targets: list[Name] = Field(default_factory=list, max_length=32)
    agent_id: Id = "unknown"
    priority: Severity = Severity.MEDIUM
    expires_s: Annotated[float, Field(ge=1, le=86_400)]
    """Refused when nobody has answered by then."""
    why: Text
    """For the operator."""


class Replayed(Record):
    """The result of a replay on an agent's own side, as Agent Sentinel's SDK reports it."""

    status: Name
    """`success`, `partial` (something diverged) or `failed`."""
    actions_replayed: Annotated[int, Field(ge=0, le=2**31)]
    actions_total: Annotated[int, Field(ge=0, le=2**31)]
    divergences_detected: Annotated[int, Field(ge=0, le=2**31)] = 0
    divergences: list[JsonObject] = Field(default_factory=list, max_length=100)
    """The first of them."""
    cost_savings: Annotated[float, Field(ge=0, le=1e15)] = 0.0
    """US dollars that the calls would have cost."""


class Command(Record):
    """An operator's act. Every one names who and why, and is kept in the audit."""

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
    """Of a kill that haltline itself asks for: what the session's calls are refused with. Of the label `missed`: the
    rule."""
    label: Name | None = None
    """For `label`: `confirmed` or `false_alarm` of a decision, `missed` of a session."""
    request_id: Id | None = None
    """For `approve`, `reject`, `ask`, `request`, `answer`, `withdraw` and `use`: the approval request."""
    nonce: Id | None = None
    """As in the request: what is answered is what was seen."""
    probation_actions: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """For `reset`: on probation for so many actions; left out: as the policy says."""
    force: bool | None = None
    """For `reset`: within the lockout, which takes two operators."""
    record: InterventionRecord | None = None
    """For `record`."""
    record_id: Id | None = None
    """For `hide`."""
    request: CallRequest | None = None
    """For `request`; the id is `request_id`."""
    replayed: Replayed | None = None
    """For `replayed`."""
    session: Id | None = None
    """For `reset` of an agent, a mission or the fleet: only of this one session."""
    incident_id: Id | None = None
    """For `acknowledge`, `assign`, `comment` and `resolve`; `scope` and `id` are those of the incident."""
    assignee: Name | None = None
    """For `assign`."""
    incident: IncidentRecord | None = None
    """For `resolve`: the incident as it was seen, so that one whose state is gone can be closed too."""


class Stage(StrEnum):
    """How far the agent's side is with a decision."""

    RECEIVED = "received"
    APPLIED = "applied"
    STOPPED = "stopped"
    """For a kill: nothing runs any more, every further call is refused."""
    REFUSED = "refused"
    """A call was refused because of it."""
    FAILED = "failed"
    """It could not be carried out: the detail says why."""
    CHILDREN = "children"
    """The descendants that were stopped with it."""


class Feedback(Record):
    """An answer of the agent's side to one decision."""

    v: int = 1
    feedback_id: Id
    decision_id: Id
    session_id: Id
    agent_id: Id = "unknown"
    stage: Stage
    time: EpochMs
    decided_at: EpochMs | None = None
    """As in the decision: lets the worker measure the way there and back on its own clock."""
    call_id: Id | None = None
    action: Name = ""
    children: list[Id] = Field(default_factory=list, max_length=10_000)
    detail: Text = ""
    cause: Name | None = None
    """The key of the control record that it obeys, such as `session:42`; left out: a decision on this session."""
