"""A second opinion: what a policy says of it, the request in a decision, and the record of a model's answer."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from haltline.schemas.events import Count
from haltline.schemas.findings import Severity
from haltline.schemas.record import EpochMs, Id, Name, Part, Record, Text

_Usd = Annotated[float, Field(ge=0, le=1e6)]
WHY_CHARS: Final = 600
TELL_CHARS: Final = 300
Why = Annotated[str, Field(max_length=WHY_CHARS)]
Tell = Annotated[str, Field(max_length=TELL_CHARS)]


class WithoutAnswer(StrEnum):
    """What a finding leads to that no verdict was given on in time."""

    KEEP = "keep"
    """The level of the rule stands."""
    HINT = "hint"
    """A hint at most, from the beginning: only a verdict leads to more."""
    PAUSE = "pause"
    """The level of the rule stands; when the time is over, the next call is paused, as after `runaway`."""


class OpinionRules(Part):
    """About which findings a second opinion is requested, and what it may cost."""

    rules: Annotated[tuple[Id, ...], Field(max_length=200)] = ()
    """Rules of judgement; none named: all of them."""
    lower: Severity = Severity.MEDIUM
    """The lower threshold: findings of this severity and above are in doubt."""
    upper: Severity = Severity.CRITICAL
    """The upper threshold: findings below it are in doubt. `runaway` leads to its level, and to PAUSE at most."""
    without_answer: WithoutAnswer = WithoutAnswer.KEEP
    """What follows without a verdict in time: keep, hint or pause."""
    timeout_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    """A verdict that is later than this changes nothing; on the clock of the session's events."""
    hold_actions: Annotated[int, Field(ge=1, le=1000)] = 10
    """A verdict holds for so many further calls: no other is requested for the rule, and after `sound` it is silent."""
    max_steps: Annotated[int, Field(ge=4, le=100)] = 30
    """The most steps that the model is shown."""
    max_per_hour: Annotated[int, Field(ge=0, le=10_000)] = 60
    """The most requests to the model."""
    max_usd_per_hour: _Usd = 1.0
    """The most that they may cost in an hour."""
    max_usd_per_day: _Usd = 10.0
    """The most that they may cost in 24 hours."""
    input_usd: _Usd = 0.0
    """The model's price of a million input tokens."""
    output_usd: _Usd = 0.0
    """The same of output tokens."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"upper: expected a severity above lower, got {self.lower.value} and {self.upper.value}")
        return self

    def is_in_doubt(self, severity: Severity) -> bool:
        """Whether a finding is between the thresholds."""
        return self.lower <= severity < self.upper


class OpinionRequest(Record):
    """With a decision: a second opinion is requested on its finding."""

    expires: EpochMs
    """Event time after which a verdict changes nothing."""
    goal: Text = ""
    """The session's task, cut."""


class Verdict(StrEnum):
    """What a model says of a session."""

    RUNAWAY = "runaway"
    """It does not get on, and will not."""
    SOUND = "sound"


class OpinionOutcome(StrEnum):
    """The result of a request."""

    RUNAWAY = "runaway"
    SOUND = "sound"
    TIMEOUT = "timeout"
    ERROR = "error"
    """The model could not be reached, or its server refused."""
    INVALID = "invalid"
    """Its answer was not what was required."""
    SUSPECT = "suspect"
    """`sound`, though a text of the session tells a judge what to answer: it counts as none."""
    OVER_LIMIT = "over_limit"
    """The policy's cost limit is reached: the model was not called."""
    NO_STEPS = "no_steps"
    """The session's events could not be read: the model was not called."""


class Opinion(Record):
    """A model's answer on one finding, or that there is none."""

    v: int = 1
    opinion_id: Id
    decision_id: Id
    """The decision that requested it."""
    event_id: Id
    """As in that decision."""
    session_id: Id
    agent_id: Id = "unknown"
    detector: Id
    time: EpochMs
    outcome: OpinionOutcome
    since: Id | None = None
    """The event since which the session is a runaway."""
    why: Why = ""
    tell: Tell = ""
    """For the agent's model, with a pause."""
    model: Name = ""
    seconds: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: _Usd = 0.0
    detail: Text = ""
    """Why there is no verdict."""

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, where there is one."""
        known = self.outcome.value in (Verdict.RUNAWAY, Verdict.SOUND)
        return Verdict(self.outcome.value) if known else None
