"""The rules that an agent's author can set. The names are those of Agent Sentinel's policy."""

import os
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from haltline.schemas import expressions as re


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled expression."""
    return re.compile_given(pattern)


def _valid(pattern: str) -> str:
    try:
        compiled(pattern)
    except re.error as error:
        raise ValueError(f"expected a regular expression, got {pattern!r}: {error}") from error
    return pattern


Pattern = Annotated[str, Field(max_length=4096), AfterValidator(_valid)]
"""The text of a regular expression."""


RULES_VARIABLE: Final = "HALTLINE_AGENT_RULES"
"""The environment variable with the paths of rule files, JSON or TOML."""

Glob = Annotated[str, Field(min_length=1, max_length=512)]
Usd = Annotated[float, Field(ge=0, le=1e12)]
Seconds = Annotated[float, Field(gt=0, le=31_536_000)]
Percent = Annotated[float, Field(gt=0, lt=100)]


def _one_or_many(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: names if isinstance(names, list | tuple) else (names,) for name, names in value.items()}
    return value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RateLimit(_Part):
    """The maximum number of calls in any window of this length."""

    max_count: Annotated[int, Field(ge=0, le=10_000)]
    window_seconds: Seconds


class Constraint(_Part):
    """Constraints of one argument."""

    type: Literal["string", "number", "integer", "boolean", "array", "object", "null"] | None = None
    minimum: float | None = None
    maximum: float | None = None
    enum: tuple[Any, ...] | None = None
    pattern: Pattern | None = None
    """A regular expression that must match somewhere in the text."""
    max_length: Annotated[int, Field(ge=0)] | None = None
    """Of a text or a list."""


class Arguments(_Part):
    """Constraints of a tool's arguments."""

    required: tuple[str, ...] = ()
    properties: Annotated[dict[str, Constraint], Field(max_length=256)] = Field(default_factory=dict)


class LoopRule(_Part):
    """The same call this often in this time is a loop; refused attempts count as well."""

    action: Glob = "*"
    threshold: Annotated[int, Field(ge=2, le=1000)] = 5
    window_seconds: Seconds = 10.0
    arg_exclude: tuple[str, ...] = ()
    """Arguments to ignore, as they vary."""


Rates: TypeAlias = Annotated[dict[Glob, tuple[RateLimit, ...]], BeforeValidator(_one_or_many), Field(max_length=1024)]
Constraints: TypeAlias = Annotated[
    dict[Glob, tuple[Arguments, ...]], BeforeValidator(_one_or_many), Field(max_length=1024)
]
Prices: TypeAlias = Annotated[dict[Glob, Usd], Field(max_length=1024)]


class ClientRules(_Part):
    """All rules. Names of actions are globs; amounts are US dollars.

    Raises ValueError (pydantic's) for invalid values.
    """

    session_budget: Usd | None = None
    """The maximum cost of the session."""
    run_budget: Usd | None = None
    """The maximum cost of one run; `Guard.begin_run` starts the next."""
    action_budgets: Prices = Field(default_factory=dict)
    """The maximum cost of all matching calls in the session."""
    budget_warning_thresholds: tuple[Percent, ...] = (80.0,)
    """Percentages of a budget at which the agent gets a hint, once each."""
    prices: Prices = Field(default_factory=dict)
    """The cost of a call that does not report its own."""
    denied_actions: tuple[Glob, ...] = ()
    allowed_actions: tuple[Glob, ...] | None = None
    """None: all."""
    also_allowed: tuple[tuple[Glob, ...], ...] = ()
    """Further lists, each of which must contain an action: the result of merging several."""
    rate_limits: Rates = Field(default_factory=dict)
    argument_constraints: Constraints = Field(default_factory=dict)
    evidence_requirements: Annotated[dict[Glob, tuple[Glob, ...]], Field(max_length=1024)] = Field(default_factory=dict)
    """Actions that must have succeeded before in this run."""
    evidence_max_age_seconds: Annotated[dict[Glob, Seconds], Field(max_length=1024)] = Field(default_factory=dict)
    """By the action that requires the evidence."""
    loop_rules: Annotated[tuple[LoopRule, ...], Field(max_length=256)] = ()
    idempotency_ttl_seconds: Seconds = 3600.0
    """How long a result is returned again for the same key."""
    strict_mode: bool = True
    """False: refusals are only hints to the agent."""

    @model_validator(mode="after")
    def _ages_of_something(self) -> "ClientRules":
        for action in self.evidence_max_age_seconds:
            if action not in self.evidence_requirements:
                raise ValueError(
                    f"evidence_max_age_seconds: {action}: expected one of evidence_requirements, got another"
                )
        return self

    def merged(self, other: "ClientRules") -> "ClientRules":
        """Return the stricter of both: lowest budgets, all denials, only what both allow, highest prices."""
        lists = [*self.also_allowed, *other.also_allowed]
        lists += [rules.allowed_actions for rules in (self, other) if rules.allowed_actions is not None]
        values = {name: both(getattr(self, name), getattr(other, name)) for name, both in _STRICTER.items()}
        return ClientRules(**values, allowed_actions=lists[0] if lists else None, also_allowed=tuple(lists[1:]))

    @classmethod
    def from_file(cls, file: str | os.PathLike[str]) -> "ClientRules":
        """Read the rules of a JSON file, or of a TOML file (`*.toml`).

        Raises ValueError with the file's name for invalid rules, and OSError if it cannot be read.
        """
        path = Path(file)
        data = path.read_bytes()
        try:
            document = tomllib.loads(data.decode()) if path.suffix == ".toml" else orjson.loads(data)
            return cls.model_validate(document)
        except ValueError as error:
            raise ValueError(f"{path}: expected rules as JSON or TOML: {error}") from error

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "ClientRules | None":
        """Read and merge the files that `HALTLINE_AGENT_RULES` names; None if it is not set."""
        files = (os.environ if environ is None else environ).get(RULES_VARIABLE, "")
        rules = [cls.from_file(file) for file in files.split(os.pathsep) if file]
        return reduce(cls.merged, rules) if rules else None


def _least(one: float | None, other: float | None) -> float | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _all(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _by_key(both: Callable[[Any, Any], Any]) -> Callable[[Any, Any], dict[str, Any]]:
    return lambda one, other: {
        **one,
        **other,
        **{name: both(one[name], other[name]) for name in one.keys() & other.keys()},
    }


_STRICTER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "session_budget": _least,
    "run_budget": _least,
    "action_budgets": _by_key(min),
    "budget_warning_thresholds": _all,
    "prices": _by_key(max),
    "denied_actions": _all,
    "rate_limits": _by_key(_all),
    "argument_constraints": _by_key(add),
    "evidence_requirements": _by_key(_all),
    "evidence_max_age_seconds": _by_key(min),
    "loop_rules": _all,
    "idempotency_ttl_seconds": min,
    "strict_mode": max,
}
"""By rule: the stricter of two values; lists of allowed actions apply side by side."""
