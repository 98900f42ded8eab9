"""The rules that an agent's author can set for its calls. The names are those of Agent Sentinel's policy."""

from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar

from pydantic import Discriminator, Field, Tag, model_validator

from haltline.schemas import expressions as re
from haltline.schemas.intervening import Glob, Tripwire
from haltline.schemas.record import Part

RUN_STARTED: Final = "run_started"
"""The action of the heartbeat with which a guard reports that the next run begins."""

_T = TypeVar("_T")
MAX_ENTRIES: Final = 1024


Usd = Annotated[float, Field(ge=0, le=1e12)]
Seconds = Annotated[float, Field(gt=0, le=31_536_000)]
_Percent = Annotated[float, Field(gt=0, lt=100)]


class RateLimit(Part):
    """The maximum number of calls in any window of this length."""

    max_count: Annotated[int, Field(ge=0, le=10_000)]
    """The most calls; 0: none."""
    window_seconds: Seconds
    """The length of the window."""


class Constraint(Part):
    """Constraints of one argument."""

    type: Literal["string", "number", "integer", "boolean", "array", "object", "null"] | None = None
    """Its type, as in JSON Schema."""
    minimum: float | None = None
    """The least number."""
    maximum: float | None = None
    """The greatest number."""
    enum: tuple[Any, ...] | None = None
    """Its possible values."""
    pattern: re.Pattern[str] | None = None
    """A regular expression that must match somewhere in the text."""
    max_length: Annotated[int, Field(ge=0)] | None = None
    """The greatest length of a text or a list."""


class Arguments(Part):
    """Constraints of a tool's arguments."""

    required: tuple[str, ...] = ()
    """Arguments that every call must have."""
    properties: Annotated[dict[str, Constraint], Field(max_length=256)] = Field(default_factory=dict)
    """Constraints by argument."""


class LoopRule(Part):
    """The same call this often in this time is a loop; refused attempts count as well."""

    action: Glob = "*"
    """A glob over names of tools."""
    threshold: Annotated[int, Field(ge=2, le=1000)] = 5
    """This many equal calls are a loop."""
    window_seconds: Seconds = 10.0
    """Within this time."""
    arg_exclude: tuple[str, ...] = ()
    """Arguments to ignore, as they vary."""


_ONE, _SEVERAL = Tag("one"), Tag("several")
_BY_SHAPE = Discriminator(lambda value: "several" if isinstance(value, list | tuple) else "one")
_Several: TypeAlias = Annotated[tuple[_T, ...], Field(max_length=MAX_ENTRIES)]
Prices: TypeAlias = Annotated[dict[Glob, Usd], Field(max_length=MAX_ENTRIES)]


class CallRules(Part):
    """All rules. Names of actions are globs; amounts are US dollars.

    Raises ValueError (pydantic's) for invalid values.
    """

    session_budget: Usd | None = None
    """The maximum cost of the session."""
    run_budget: Usd | None = None
    """The maximum cost of one run; `Guard.begin_run` starts the next."""
    action_budgets: Prices = Field(default_factory=dict)
    """The maximum cost of all matching calls in the session."""
    budget_warning_thresholds: tuple[_Percent, ...] = (80.0,)
    """Percentages of a budget at which the agent gets a hint, once each."""
    prices: Prices = Field(default_factory=dict)
    """The cost of a call that does not report its own."""
    denied_actions: tuple[Glob, ...] = ()
    """Tools that are refused, under any server's prefix."""
    allowed_actions: tuple[Glob, ...] | None = None
    """The only tools that are allowed; left out: all."""
    rate_limits: Annotated[
        dict[Glob, Annotated[Annotated[RateLimit, _ONE] | Annotated[_Several[RateLimit], _SEVERAL], _BY_SHAPE]],
        Field(max_length=MAX_ENTRIES),
    ] = Field(default_factory=dict)
    """The most calls of a tool in a time; one limit or several."""
    argument_constraints: Annotated[
        dict[Glob, Annotated[Annotated[Arguments, _ONE] | Annotated[_Several[Arguments], _SEVERAL], _BY_SHAPE]],
        Field(max_length=MAX_ENTRIES),
    ] = Field(default_factory=dict)
    """What the arguments of a tool may be."""
    evidence_requirements: Annotated[dict[Glob, tuple[Glob, ...]], Field(max_length=MAX_ENTRIES)] = Field(
        default_factory=dict
    )
    """Actions that must have succeeded before in this run."""
    evidence_max_age_seconds: Annotated[dict[Glob, Seconds], Field(max_length=MAX_ENTRIES)] = Field(
        default_factory=dict
    )
    """By the action that requires the evidence."""
    loop_rules: Annotated[tuple[LoopRule, ...], Field(max_length=256)] = ()
    """Repetitions of the same call."""
    strict_mode: bool = True
    """False: refusals are only hints to the agent."""

    @model_validator(mode="after")
    def _ages_of_something(self) -> Self:
        for action in self.evidence_max_age_seconds:
            if action not in self.evidence_requirements:
                raise ValueError(
                    f"evidence_max_age_seconds: {action}: expected one of evidence_requirements, got another"
                )
        return self


def several(value: _T | tuple[_T, ...]) -> tuple[_T, ...]:
    """Return what is written as one value or a list as a tuple."""
    return value if isinstance(value, tuple) else (value,)


class AuthorRules(CallRules):
    """The rules of the agent's author for some agents or sessions; of several that match, the stricter value counts."""

    agent: Glob = "*"
    """A glob over ids of agents."""
    session: Glob = "*"
    """A glob over ids of sessions."""
    tripwires: Annotated[tuple[Tripwire, ...], Field(max_length=256)] = ()
    """Conditions that no call may meet, whatever `strict_mode` says; each is the rule `tripwire_ID`."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        counts = sum(limit.max_count for limits in self.rate_limits.values() for limit in several(limits))
        counts += sum(loop.threshold for loop in self.loop_rules)
        if counts > MAX_TIMES:
            raise ValueError(f"expected rate_limits and loop_rules of at most {MAX_TIMES} calls in all, got {counts}")
        return self


MAX_TIMES: Final = 20_000
"""The most calls whose times the limits of one entry keep in a session's state."""

PARTS: Final = (RateLimit, Constraint, Arguments, LoopRule, AuthorRules)
"""Every part of a policy that this module defines."""
