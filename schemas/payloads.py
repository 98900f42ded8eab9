"""The optional parts of a decision: instructions for the agent's side, and explanations for people."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.findings import Severity
from haltline.schemas.record import EpochMs, Id, Name, Record, Text

Risk = Annotated[float, Field(ge=0, le=1)]
Usd = Annotated[float, Field(ge=0, le=1e15)]


class Strength(StrEnum):
    """How much of the task is repeated to the model."""

    LIGHT = "light"
    """The goal."""
    MEDIUM = "medium"
    """The goal and its constraints."""
    STRONG = "strong"
    """Both, with what is out of scope and what to do first."""


class Choice(Record):
    """Why a decision has this level, if it is not the rule's own."""

    strategy: Name
    """`by_rule`, `scored`, `progressive`, `pattern_specific`, or a custom one's name."""
    why: Text
    """Human-readable steps from the rule's own level to this one, in order."""
    score: float | None = None
    """Severity score and escalation together; the strategy `scored` compares it."""
    escalation: int = 0
    """Interventions of the same rule in the recent history that did not help."""
    attempts: int = 0
    """Earlier interventions of this level for the same rule since one helped."""
    effectiveness: Risk | None = None
    """The share of the rule's recent interventions that helped, 0 to 1; None: not known yet."""


class Reinforcement(Record):
    """The task as it was given, to be repeated to the model."""

    strength: Strength
    goal: Text = ""
    constraints: tuple[Text, ...] = ()
    boundaries: tuple[Text, ...] = ()
    """What is out of scope."""
    examples: tuple[Text, ...] = ()
    """Examples of correct actions."""


class Throttling(Record):
    """The reasons for the limits of a decision."""

    resource: Name | None = None
    """The resource that grew; None: every limit is lowered."""
    growth: float | None = None
    """The measured factor per step, if any."""
    factor: Annotated[float, Field(gt=0, le=1)]
    """The factor of the limits; none falls below 1."""


class Rollback(Record):
    """The checkpoint that the agent's side restores."""

    checkpoint: Name | None = None
    """None: no checkpoint is safe, and a person has to recover the work."""
    depth: Annotated[int, Field(ge=0)] = 0
    """How many checkpoints are undone, this one included."""
    recovery_needed: bool = False
    why: Text
    plan: tuple[Text, ...] = ()
    """What to do if no checkpoint is safe, in order."""


class Recovery(Record):
    """How to continue after a failure."""

    situation: Name
    """A kind of failure (`file_not_found` ...), or `stuck_in_loop`, `lost_context`, `resource_exhaustion`."""
    ways: tuple[Name, ...]
    """`automatic`, `guided`, `checkpoint`, `collaborative`, `self_healing`: in the order in which to try them."""
    steps: tuple[Text, ...]
    """The steps of the way `guided`, in order."""
    attempts: Annotated[int, Field(ge=0)]
    """How often to try; 0: only after a person's release."""
    timeout_s: Annotated[int, Field(ge=1)]
    """For all attempts together."""
    wait_s: Annotated[int, Field(ge=0)] | None = None
    """The wait before the first try of the way `automatic`, multiplied by `backoff` before each further one."""
    backoff: float | None = None
    fallback: Text
    """What to do if no way helps, or no one answers."""


class Moment(Record):
    """One entry of a timeline."""

    time: EpochMs | None = None
    what: Text


class Option(Record):
    """One way to continue after a stop."""

    option: Name
    """`resume_with_limits`, `rollback_and_retry`, `manual_intervention` or `abort`."""
    description: Text
    limits: dict[Name, float] = Field(default_factory=dict)
    checkpoint: Name | None = None
    approve: tuple[Name, ...] = ()
    """Effects that need a person's approval from then on."""


class Impact(Record):
    """What had happened before the stop, as far as the worker knows."""

    actions: int = 0
    events: int = 0
    running: tuple[Name, ...] = ()
    """Tools whose calls had started and not ended."""
    things: tuple[Name, ...] = ()
    """What the stopped call would have deleted."""
    duration_s: float | None = None
    resources: dict[Name, float] = Field(default_factory=dict)


class Recommendations(Record):
    """Recommended next steps."""

    immediate: tuple[Text, ...] = ()
    preventive: tuple[Text, ...] = ()
    configuration: tuple[Text, ...] = ()


class Incident(Record):
    """The report of a stop. It contains names only, no arguments and no output."""

    incident_id: Id
    summary: Text
    severity: Severity
    timeline: tuple[Moment, ...] = ()
    impact: Impact = Field(default_factory=Impact)
    root_cause: Text = ""
    contributing_factors: tuple[Text, ...] = ()
    recommendations: Recommendations = Field(default_factory=Recommendations)
    recovery_options: tuple[Option, ...] = ()
    snapshot: dict[Name, int | float | str | None] = Field(default_factory=dict)
    """The session's state, without texts that the agent wrote or read."""
    history_topic: Name | None = None
    history_partition: int | None = None
    history_until: int | None = None
    """The offset of the session's last action in the log. `haltline incidents report` adds the last 50."""


class Remediation(Record):
    """What the caller may do about a refusal, with the names of Agent Sentinel's remediation payload."""

    reason_code: Name
    missing_requirements: tuple[Text, ...] = ()
    required_prior_actions: tuple[Text, ...] = ()
    retry_guidance: Text = ""
    safe_alternatives: tuple[Text, ...] = ()
    stale_evidence: tuple[Text, ...] = ()
    argument_violations: tuple[Text, ...] = ()
    retry_after_seconds: Annotated[int, Field(ge=0)] | None = None


class ReviewTicket(Record):
    """A request for a person's review."""

    ticket_id: Id
    kind: Name
    """`flag`, `halt` or `re_tiering`."""
    severity: Severity
    about: Text


class Governance(Record):
    """The result of ACGP's evaluation, for one decision."""

    intervention: Name
    """`ok`, `nudge`, `escalate`, `block` or `halt`."""
    flagged: bool = False
    flag_severity: Severity | None = None
    agent_acl_tier: Annotated[int, Field(ge=0, le=5)]
    ctq: Risk
    risk: Risk
    scores: dict[Name, float] = Field(default_factory=dict)
    """The scores of the dimensions that are not 1."""
    tripwire: Name | None = None
    """The tripwire that decided."""
    steps: tuple[Name, ...] = ()
    """The text of each step of the evaluation, in its order."""
    trust_debt: float = 0.0
    """The debt after this decision."""
    standing: Name = "normal"
    """`normal`, `elevated_monitoring`, `restricted_mode` or `re_tiering_review`."""
    ticket: ReviewTicket | None = None


class Checkpoint(Record):
    """A state that the agent's side saved and can restore."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    safe: bool = True
    """False: the agent's side does not consider it safe."""
