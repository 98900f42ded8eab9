"""What haltline decides, and what the agent's side must do then."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.findings import Evidence, Severity
from haltline.schemas.opinions import OpinionRequest
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
    """Go on. Sent only where a verdict is awaited."""
    NUDGE = "NUDGE"
    """Give the message to the model, then go on."""
    REINFORCE = "REINFORCE"
    """Give goals and constraints of the task to the model again, then go on."""
    THROTTLE = "THROTTLE"
    """Apply the limits, then go on within them."""
    PAUSE = "PAUSE"
    """Do nothing more until a person has approved; refuse when the approval expires."""
    BLOCK = "BLOCK"
    """Do not do this one action, and tell the model so."""
    ROLLBACK = "ROLLBACK"
    """Do not do it; restore the checkpoint, then go on from there."""
    KILL = "KILL"
    """Do nothing more in this scope. Stop, acknowledge, refuse every further call."""


class Mode(OrderedName):
    """How far a rule may go."""

    SHADOW = "shadow"
    """Only record what it would have done."""
    WARN = "warn"
    """At most a nudge; record what it would have done."""
    ENFORCE = "enforce"
    """Do it."""


class ScopeKind(StrEnum):
    """What a decision or a control record is about."""

    SESSION = "session"
    AGENT = "agent"
    MISSION = "mission"
    TOOL = "tool"
    TARGET = "target"
    FLEET = "fleet"


class ApprovalState(StrEnum):
    """What became of an approval request."""

    PENDING = "pending"
    INFO_REQUESTED = "info_requested"
    """An operator wants to know more first."""
    APPROVED = "approved"
    USED = "used"
    """Approved, and the one call that it was for has been made."""
    REJECTED = "rejected"
    EXPIRED = "expired"
    """Nobody answered in time: refused, and not by anybody."""
    CANCELLED = "cancelled"
    """Who asked waits no longer."""


WHOLE_SESSION = "the whole session"
"""What stands for the action in the request of a session that is frozen until somebody answers."""


class Approval(Record):
    """A request to a person to let one call pass, as it stands."""

    request_id: Id
    nonce: Id
    """An answer names it: what is answered is what was seen."""
    parameters: Id
    """Digest of the call's canonical parameters: one with other arguments needs another approval."""
    state: ApprovalState = ApprovalState.PENDING
    priority: Severity = Severity.MEDIUM
    action: Name = ""
    targets: list[Name] = Field(default_factory=list, max_length=32)
    arguments: Text = ""
    """The call's arguments for people, cut."""
    quorum: Annotated[int, Field(ge=1)] = 1
    voters: Annotated[int, Field(ge=1)] = 1
    approved_by: list[Name] = Field(default_factory=list, max_length=16)
    rejected_by: list[Name] = Field(default_factory=list, max_length=16)
    question: Text = ""
    """What an operator wants to know first."""
    answer: Text | None = None
    """The answer of the agent's side."""
    asked_by: Name | None = None
    """Who asked for it; None: haltline itself, when it paused the call."""
    asked: Annotated[int, Field(ge=1)] = 1
    """How often this call was about to be made while it waited."""
    also: list[Id] | None = Field(default=None, max_length=64)
    """Digests of further calls that were paused for the same cause. They wait with it: its rejection refuses them too,
    its approval lets none of them pass."""
    behind: bool | None = None
    """With a decision on one of those further calls: the request is about another one."""
    closed: Name | None = None
    """Why it was closed without an answer: `session_killed`, `session_ended`, `session_reset`, `incident_resolved`."""
    since: EpochMs
    """Event time of the first of them."""
    expires: EpochMs
    """On the agent's clock. Nothing is ever allowed by its passing."""


class Decision(Record):
    """One intervention, or the verdict on one event that awaited it."""

    v: int = 1
    decision_id: Id
    """A hash of rule, session and last evidence, so that a redelivery or a replay makes the same one."""
    session_id: Id
    agent_id: Id = "unknown"
    event_id: Id
    """The event that it answers."""
    call_id: Id | None = None
    time: EpochMs
    """Event time of that event: decisions are made on the agent's clock."""
    decided_at: EpochMs | None = None
    """Wall clock of the worker when it was sent; not part of what is decided."""

    level: Level
    scope: ScopeKind = ScopeKind.SESSION
    scope_id: Id | None = None
    """The id within the scope; None: that of the session."""
    code: Name
    """For machines, such as `session_killed_loop_guard`."""
    reason: Text
    """For the operator: what was seen, values against thresholds."""
    message: Text = ""
    """For the model: what to do next, and nothing that helps it around the guard."""
    flag: bool = False
    """To be reviewed by a person, whatever the level."""
    flag_severity: Severity | None = None

    detector: Name = ""
    """The rule that decided; empty for a plain verdict."""
    severity: Severity | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    evidence: tuple[Evidence, ...] = ()
    values: Values = Field(default_factory=dict)
    thresholds: Values = Field(default_factory=dict)
    near: dict[Name, float] = Field(default_factory=dict)
    """How close the other rules were, 0 to 1."""

    mode: Mode = Mode.ENFORCE
    would: Level | None = None
    """What it would have been under `enforce`, where the mode held it back."""
    policy: Name = ""
    policy_version: int = 0
    limits: dict[Name, float] | None = None
    checkpoint: Name | None = None
    arguments: JsonObject | None = None
    """Arguments that get these values instead; those that are not named stay as they are."""
    expires: EpochMs | None = None

    action: Name | None = None
    """The tool that was called, of what is more than a plain verdict."""
    target: Name | None = None
    """What the finding is about, where one thing can be named."""
    without_arguments: tuple[Name, ...] | None = None
    """Arguments to leave out."""
    would_do: Text | None = None
    """What was held back by the mode, in words."""
    choice: Choice | None = None
    """Why this level, where it is not the rule's own."""
    reinforcement: Reinforcement | None = None
    """With REINFORCE: the task again."""
    throttling: Throttling | None = None
    """With THROTTLE: the reasons for `limits`."""
    rollback: Rollback | None = None
    """With ROLLBACK: which checkpoint, or that a person has to recover."""
    incident: Incident | None = None
    """With KILL: the report."""
    recovery: Recovery | None = None
    """From REINFORCE on: how to go on from what went wrong."""
    remediation: Remediation | None = None
    """With a refusal: what the caller may do about it."""
    governance: Governance | None = None
    """The result of ACGP's evaluation, where the policy governs the session by it."""
    vocabulary: Name | None = None
    """The vocabulary that the policy wants it in."""
    attempt: Annotated[int, Field(ge=1)] | None = None
    """Of a refusal: how often this same call was refused lately, this time included."""
    estimated_cost_usd: Usd | None = None
    """What the call would have cost, where the policy has a price for it."""
    cost_prevented_usd: Usd | None = None
    """The same, at the first refusal of a call that is tried again and again; 0 at each further one."""
    blast_radius: Text | None = None
    """What the refused call would have taken away, in words."""
    custom: JsonObject | None = None
    """What another package's intervention added."""
    approval: Approval | None = None
    """With PAUSE: the request that a person is to answer; with what follows from it: how it stands."""
    incident_id: Id | None = None
    """The incident that it belongs to: the open one of its cause, in its session or scope."""
    opinion: OpinionRequest | None = None
    """A second opinion on its finding is requested."""
