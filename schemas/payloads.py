"""What a decision brings along: what the agent's side does with it, and what people read of it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.findings import Severity
from haltline.schemas.record import EpochMs, Id, Name, Record, Text

Risk = Annotated[float, Field(ge=0, le=1)]
Usd = Annotated[float, Field(ge=0, le=1e15)]


class Strength(StrEnum):
    """How much of the task the model is reminded of."""

    LIGHT = "light"
    """The goal."""
    MEDIUM = "medium"
    """The goal and what it has to keep to."""
    STRONG = "strong"
    """Both, with what lies outside of the task, and what to do first."""


class Choice(Record):
    """Why a decision is of this level and no other, where it is not the rule's own."""

    strategy: Name
    """`by_rule`, `scored`, `progressive`, `pattern_specific`, or a custom one's name."""
    why: Text
    """Each step from the rule's own level to this one, in order."""
    score: float | None = None
    """Severity score and escalation together; the strategy `scored` compares it."""
    escalation: int = 0
    """Interventions of the same rule in the recent history that did not help."""
    attempts: int = 0
    """Interventions of this level for the same rule before, since one helped."""
    effectiveness: Risk | None = None
    """How far the recent interventions of this rule helped, 0 to 1; None: none is known yet."""


class Reinforcement(Record):
    """The task as it was given, to be put before the model again."""

    strength: Strength
    goal: Text = ""
    constraints: tuple[Text, ...] = ()
    boundaries: tuple[Text, ...] = ()
    """What lies outside of the task."""
    examples: tuple[Text, ...] = ()
    """What would be right to do instead."""


class Throttling(Record):
    """The reasons for the limits of a decision."""

    resource: Name | None = None
    """What grew; None: every limit is lowered."""
    growth: float | None = None
    """Factor a step, where it was measured."""
    factor: Annotated[float, Field(gt=0, le=1)]
    """By which the limits were multiplied; none falls below 1."""


class Rollback(Record):
    """To which checkpoint the agent's side goes back."""

    checkpoint: Name | None = None
    """None: there is no safe one, and a person has to recover the work."""
    depth: Annotated[int, Field(ge=0)] = 0
    """How many checkpoints are taken back, this one included."""
    recovery_needed: bool = False
    why: Text
    plan: tuple[Text, ...] = ()
    """What to do where no checkpoint is safe, in order."""


class Recovery(Record):
    """How to go on from what went wrong."""

    situation: Name
    """A kind of failure (`file_not_found` ...), or `stuck_in_loop`, `lost_context`, `resource_exhaustion`."""
    ways: tuple[Name, ...]
    """`automatic`, `guided`, `checkpoint`, `collaborative`, `self_healing`: in the order in which to try them."""
    steps: tuple[Text, ...]
    """For the way `guided`, in order."""
    attempts: Annotated[int, Field(ge=0)]
    """How often to try; 0: not before a person has released it."""
    timeout_s: Annotated[int, Field(ge=1)]
    """For all of it."""
    wait_s: Annotated[int, Field(ge=0)] | None = None
    """Before the first try of the way `automatic`; `backoff` times as long before each further one."""
    backoff: float | None = None
    fallback: Text
    """When nothing of it helps, or nobody answers."""


class Moment(Record):
    """One thing of a timeline."""

    time: EpochMs | None = None
    what: Text


class Option(Record):
    """One way to go on after a stop."""

    option: Name
    """`resume_with_limits`, `rollback_and_retry`, `manual_intervention` or `abort`."""
    description: Text
    limits: dict[Name, float] = Field(default_factory=dict)
    checkpoint: Name | None = None
    approve: tuple[Name, ...] = ()
    """Effects that want a person's approval from then on."""


class Impact(Record):
    """What had happened until the stop, as far as it is known where it was decided."""

    actions: int = 0
    events: int = 0
    running: tuple[Name, ...] = ()
    """Tools whose calls had begun and not ended."""
    things: tuple[Name, ...] = ()
    """What the stopped call was about to take away."""
    duration_s: float | None = None
    resources: dict[Name, float] = Field(default_factory=dict)


class Recommendations(Record):
    """What to do about it."""

    immediate: tuple[Text, ...] = ()
    preventive: tuple[Text, ...] = ()
    configuration: tuple[Text, ...] = ()


class Incident(Record):
    """The report of a stop. Names of things only: no arguments and no output are in it."""

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
    """The session's state, without what the agent wrote or read."""
    history_topic: Name | None = None
    history_partition: int | None = None
    history_until: int | None = None
    """Where the log has the session's actions: the last one's offset. `haltline audit incident` adds the last 50."""


class Remediation(Record):
    """What the caller may do about a refusal: the names are those of Agent Sentinel's remediation payload."""

    reason_code: Name
    missing_requirements: tuple[Text, ...] = ()
    required_prior_actions: tuple[Text, ...] = ()
    retry_guidance: Text = ""
    safe_alternatives: tuple[Text, ...] = ()
    stale_evidence: tuple[Text, ...] = ()
    argument_violations: tuple[Text, ...] = ()
    retry_after_seconds: Annotated[int, Field(ge=0)] | None = None


class Ticket(Record):
    """That a person is to look at something."""

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
    """Of the dimensions that are not 1."""
    tripwire: Name | None = None
    """The one that decided."""
    steps: tuple[Name, ...] = ()
    """The text of each step of the evaluation, in its order."""
    trust_debt: float = 0.0
    """After this decision."""
    standing: Name = "normal"
    """`normal`, `elevated_monitoring`, `restricted_mode` or `re_tiering_review`."""
    ticket: Ticket | None = None


class Checkpoint(Record):
    """That the agent's side has kept a state to which it can go back."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    safe: bool = True
    """False: the agent's side itself does not vouch for it."""
