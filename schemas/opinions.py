"""Second opinions: the policy's rules, the request in a decision, and the record of a model's answer."""

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
    """The effect of a finding when no verdict arrives in time."""

    KEEP = "keep"
    """The level of the rule stands."""
    HINT = "hint"
    """A hint at most, from the beginning: only a verdict allows more."""
    PAUSE = "pause"
    """The level of the rule stands; after the timeout the next call is paused, as after `runaway`."""


class OpinionRules(Part):
    """The findings for which a second opinion is requested, and its cost limits."""

    rules: Annotated[tuple[Id, ...], Field(max_length=200)] = ()
    """Rules of judgement; empty: all of them."""
    lower: Severity = Severity.MEDIUM
    """The lower threshold: findings of at least this severity are in doubt."""
    upper: Severity = Severity.CRITICAL
    """The upper threshold: findings below it are in doubt. `runaway` leads to the rule's level, PAUSE at most."""
    without_answer: WithoutAnswer = WithoutAnswer.KEEP
    """The effect without a verdict in time: keep, hint or pause."""
    timeout_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    """A later verdict has no effect; by the clock of the session's events."""
    hold_actions: Annotated[int, Field(ge=1, le=1000)] = 10
    """How many further calls a verdict covers: the rule makes no other request, and after `sound` no finding."""
    max_steps: Annotated[int, Field(ge=4, le=100)] = 30
    """The most steps that the model is shown."""
    max_per_hour: Annotated[int, Field(ge=0, le=10_000)] = 60
    """The most requests to the model."""
    max_usd_per_hour: _Usd = 1.0
    """The highest cost in an hour."""
    max_usd_per_day: _Usd = 10.0
    """The highest cost in 24 hours."""
    input_usd: _Usd = 0.0
    """The model's price per million input tokens."""
    output_usd: _Usd = 0.0
    """The model's price per million output tokens."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"upper: expected a severity above lower, got {self.lower.value} and {self.upper.value}")
        return self

    def is_in_doubt(self, severity: Severity) -> bool:
        """Return whether a finding is between the thresholds."""
        return self.lower <= severity < self.upper


class OpinionRequest(Record):
    """With a decision: a second opinion is requested on its finding."""

    expires: EpochMs
    """Event time after which a verdict has no effect."""
    goal: Text = ""
    """The session's task, truncated."""


class Verdict(StrEnum):
    """A model's judgement of a session."""

    RUNAWAY = "runaway"
    """It makes no progress, and will not make any."""
    SOUND = "sound"


class OpinionOutcome(StrEnum):
    """The result of a request."""

    RUNAWAY = "runaway"
    SOUND = "sound"
    TIMEOUT = "timeout"
    ERROR = "error"
    """The model could not be reached, or its server returned an error."""
    INVALID = "invalid"
    """The answer did not have the required form."""
    SUSPECT = "suspect"
    """`sound`, but a text of the session instructs the judge; it does not count as a verdict."""
    OVER_LIMIT = "over_limit"
    """The policy's cost limit is reached: the model was not called."""
    NO_STEPS = "no_steps"
    """The session's events could not be read: the model was not called."""


class Opinion(Record):
    """A model's answer on one finding, or why there is none."""

    v: int = 1
    opinion_id: Id
    decision_id: Id
    """The decision that requested it."""
    event_id: Id
    """The same as in that decision."""
    session_id: Id
    agent_id: Id = "unknown"
    detector: Id
    time: EpochMs
    outcome: OpinionOutcome
    since: Id | None = None
    """The event at which the runaway behaviour began."""
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
        """The verdict, if there is one."""
        known = self.outcome.value in (Verdict.RUNAWAY, Verdict.SOUND)
        return Verdict(self.outcome.value) if known else None
