"""Decisions, and what the agent's side must do for each level."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.findings import Evidence, Severity
from haltline.schemas.ordered import OrderedName
from haltline.schemas.payloads import (
    Choice,
    Governance,
    Incident,
    Recovery,
    Reinforcement,
    Remediation,
    Rollback,
    Throttling,
    Usd,
)
from haltline.schemas.record import EpochMs, Id, JsonObject, Name, Record, Text, Values


class Level(OrderedName):
    """How hard an intervention is: what the agent's side must do."""

    ALLOW = "ALLOW"
    """Continue. Sent only if the agent waits for a verdict."""
    NUDGE = "NUDGE"
    """Give the message to the model, then continue."""
    REINFORCE = "REINFORCE"
    """Give goals and constraints of the task to the model again, then continue."""
    THROTTLE = "THROTTLE"
    """Apply the limits, then continue within them."""
    PAUSE = "PAUSE"
    """Do nothing more until a person has approved; refuse when the approval expires."""
    BLOCK = "BLOCK"
    """Do not do this one action, and tell the model so."""
    ROLLBACK = "ROLLBACK"
    """Do not do it; restore the checkpoint, then continue from there."""
    KILL = "KILL"
    """Do nothing more in this scope. Stop, acknowledge, refuse every further call."""


class Mode(OrderedName):
    """The strictest effect that a rule may have."""

    SHADOW = "shadow"
    """Only record what it would have done."""
    WARN = "warn"
    """At most a nudge; record what it would have done."""
    ENFORCE = "enforce"
    """Carry out the decision."""


class Arm(StrEnum):
    """The group of a session in a policy's experiment."""

    TOLD = "told"
    """It got the hint."""
    SILENT = "silent"
    """The hint was held back: the level is ALLOW, and `would` is the hint's."""


class ScopeKind(StrEnum):
    """The kind of thing that a decision or a control record is about."""

    SESSION = "session"
    AGENT = "agent"
    MISSION = "mission"
    TOOL = "tool"
    TARGET = "target"
    FLEET = "fleet"


class ApprovalState(StrEnum):
    """The state of an approval request."""

    PENDING = "pending"
    INFO_REQUESTED = "info_requested"
    """An operator has asked for more information."""
    APPROVED = "approved"
    USED = "used"
    """The approved call has been made."""
    REJECTED = "rejected"
    EXPIRED = "expired"
    """There was no answer in time: the call is refused, by no operator."""
    CANCELLED = "cancelled"
    """The agent's side no longer waits for it."""


WHOLE_SESSION = "the whole session"
"""The action in the request of a session that is frozen until the answer."""


class Approval(Record):
    """A request for a person's approval of one call with exactly these arguments."""

    request_id: Id
    nonce: Id
    """Named by an answer, so that it applies only to the request that the operator saw."""
    parameters: Id
    """Digest of the call's canonical parameters: a call with other arguments needs another approval."""
    state: ApprovalState = ApprovalState.PENDING
    priority: Severity = Severity.MEDIUM
    action: Name = ""
    targets: list[Name] = Field(default_factory=list, max_length=32)
    arguments: Text = ""
    """The call's arguments, human-readable and truncated."""
    quorum: Annotated[int, Field(ge=1)] = 1
    voters: Annotated[int, Field(ge=1)] = 1
    approved_by: list[Name] = Field(default_factory=list, max_length=16)
    rejected_by: list[Name] = Field(default_factory=list, max_length=16)
    question: Text = ""
    """The operator's question."""
    asked: Annotated[int, Field(ge=1)] = 1
    """How often the agent attempted this call while it waited."""
    also: list[Id] | None = Field(default=None, max_length=64)
    """Digests of further calls that were paused for the same cause. A rejection refuses them too; an approval does
    not allow them."""
    behind: bool | None = None
    """In a decision on one of those further calls: the request is for another call."""
    closed: Name | None = None
    """Why it was closed without an answer: `session_killed`, `session_ended`, `session_reset`, `incident_resolved`."""
    since: EpochMs
    """Event time of the first attempt."""
    expires: EpochMs
    """On the agent's clock. Expiry never allows a call."""


class Decision(Record):
    """One intervention, or the verdict on one event whose agent waits for it."""

    v: int = 1
    decision_id: Id
    """A hash of rule, session and last evidence: the same after redelivery or replay."""
    session_id: Id
    agent_id: Id = "unknown"
    event_id: Id
    """The event that it answers."""
    call_id: Id | None = None
    time: EpochMs
    """Event time of that event: decisions are made on the agent's clock."""
    decided_at: EpochMs | None = None
    """The worker's wall clock when it was sent; not part of the decision itself."""

    level: Level
    scope: ScopeKind = ScopeKind.SESSION
    scope_id: Id | None = None
    """The id within the scope; None: the session id."""
    code: Name
    """Machine-readable, such as `session_killed_loop_guard`."""
    reason: Text
    """For the operator: the observed values against their thresholds."""
    message: Text = ""
    """For the model: what to do next, without hints for evading the guard."""
    flag: bool = False
    """A person is to review it, whatever the level."""
    flag_severity: Severity | None = None

    detector: Name = ""
    """The rule that decided; empty for a plain verdict."""
    severity: Severity | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    evidence: tuple[Evidence, ...] = ()
    values: Values = Field(default_factory=dict)
    thresholds: Values = Field(default_factory=dict)
    near: dict[Name, float] = Field(default_factory=dict)
    """How close the other rules were to their thresholds, 0 to 1."""

    mode: Mode = Mode.ENFORCE
    would: Level | None = None
    """The level under `enforce`, if the mode or an experiment lowered it."""
    experiment: Arm | None = None
    """For a hint of the rule of the policy's `experiment`: the session's group."""
    policy: Name = ""
    policy_version: int = 0
    limits: dict[Name, float] | None = None
    checkpoint: Name | None = None
    arguments: JsonObject | None = None
    """New values of arguments; all others stay unchanged."""
    expires: EpochMs | None = None

    action: Name | None = None
    """The tool that was called; None: a plain verdict."""
    target: Name | None = None
    """The one thing that the finding is about, if there is one."""
    without_arguments: tuple[Name, ...] | None = None
    """Arguments to leave out."""
    would_do: Text | None = None
    """The action that the mode suppressed, human-readable."""
    choice: Choice | None = None
    """Why this level, if it is not the rule's own."""
    reinforcement: Reinforcement | None = None
    """With REINFORCE: the task to repeat to the model."""
    throttling: Throttling | None = None
    """With THROTTLE: the reasons for `limits`."""
    rollback: Rollback | None = None
    """With ROLLBACK: the checkpoint, or that a person has to recover the work."""
    incident: Incident | None = None
    """With KILL: the report."""
    recovery: Recovery | None = None
    """From REINFORCE on: how to continue after the failure."""
    remediation: Remediation | None = None
    """With a refusal: what the caller may do next."""
    governance: Governance | None = None
    """The result of ACGP's evaluation, if the policy applies it to the session."""
    vocabulary: Name | None = None
    """The vocabulary that the policy sets for this session."""
    attempt: Annotated[int, Field(ge=1)] | None = None
    """For a refusal: how often this same call was refused recently, including now."""
    estimated_cost_usd: Usd | None = None
    """The estimated cost of the call, if the policy has its price."""
    cost_prevented_usd: Usd | None = None
    """The same, at the first refusal of a repeated call; 0 at each further one."""
    blast_radius: Text | None = None
    """What the refused call would have deleted, human-readable."""
    custom: JsonObject | None = None
    """Additional fields of another package's intervention."""
    approval: Approval | None = None
    """With PAUSE: the request to answer; in later decisions on it: its current state."""
    incident_id: Id | None = None
    """The open incident of its cause, in its session or scope."""
