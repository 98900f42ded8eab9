"""Correlation rules of a policy, modelled on Sigma: conditions on several events of one session."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import Effect, Kind, Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.record import Name, Part, Text

MAX_ENTRIES: Final = 128
"""The most matches that a rule keeps per session, and so the highest count."""
MAX_TIMESPAN_S: Final = 30 * 86_400

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Glob = Annotated[str, Field(min_length=1, max_length=512)]
FieldName = Annotated[
    str,
    Field(
        max_length=128,
        pattern=r"^(kind|action|agent_id|mission_id|target|effect|outcome|error|duration_ms|output_bytes|output_digest"
        r"|detector|code|severity|args\.[\w.-]+"
        r"|usage\.(input_tokens|output_tokens|cache_read_tokens|cost_usd|memory_bytes|cpu_ms|file_ops))$",
    ),
]


class CorrelationType(StrEnum):
    """The statistic that a rule computes over the matches of one group within the timespan."""

    EVENT_COUNT = "event_count"
    """The number of matches."""
    VALUE_COUNT = "value_count"
    """The number of different values of a field."""
    VALUE_SUM = "value_sum"
    VALUE_AVG = "value_avg"
    TEMPORAL = "temporal"
    """Every selection has a match."""
    TEMPORAL_ORDERED = "temporal_ordered"
    """Every selection has a match, in the order in which they are written."""


class Status(StrEnum):
    """The maturity of a rule, which limits its mode."""

    EXPERIMENTAL = "experimental"
    TEST = "test"
    STABLE = "stable"

    @property
    def mode(self) -> Mode:
        """The strictest mode that the status allows: shadow, warn or enforce."""
        return {Status.EXPERIMENTAL: Mode.SHADOW, Status.TEST: Mode.WARN, Status.STABLE: Mode.ENFORCE}[self]


class Selection(Part):
    """The events, or the findings of other rules, that match. All given conditions must hold; texts are globs."""

    on: Literal["attempt", "result", "event"] | None = None
    """The part of a call that counts. Left out: the result if `outcome` or `error` is given, every event if `kind`
    or a finding is, else the attempt."""
    kind: Kind | None = None
    action: Glob | None = None
    target: Glob | None = None
    agent_id: Glob | None = None
    effect: Effect | None = None
    """This effect or a more harmful one."""
    outcome: Outcome | None = None
    error: Glob | None = None
    args: Annotated[dict[Name, Glob], Field(max_length=16)] = Field(default_factory=dict)
    reads_secret: Literal[True] | None = None
    """The call accesses a file of secrets: `.env`, a key, credentials, `/etc/shadow`. The task does not matter."""
    finding: Glob | None = None
    """The id of the rule that has a finding on the event."""
    code: Glob | None = None
    severity: Severity | None = None
    """This severity of the finding or a higher one."""

    @property
    def of_findings(self) -> bool:
        """Return whether it selects findings."""
        return self.finding is not None or self.code is not None or self.severity is not None

    @property
    def part(self) -> str:
        """The part of a call that counts."""
        if self.on is not None:
            return self.on
        if self.of_findings or self.kind is not None:
            return "event"
        return "result" if self.outcome is not None or self.error is not None else "attempt"


class Condition(Part):
    """The bounds of the count, sum or mean; all given conditions must hold."""

    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None
    eq: float | None = None
    neq: float | None = None
    field: FieldName | None = None
    """The field whose values count, for the types `value_...`."""

    def holds(self, value: float) -> bool:
        """Return whether a value meets all conditions."""
        return (
            (self.gt is None or value > self.gt)
            and (self.gte is None or value >= self.gte)
            and (self.lt is None or value < self.lt)
            and (self.lte is None or value <= self.lte)
            and (self.eq is None or value == self.eq)
            and (self.neq is None or value != self.neq)
        )

    @property
    def limits(self) -> dict[str, float]:
        """The conditions by name."""
        return {name: value for name in _LIMITS if (value := getattr(self, name)) is not None}


_LIMITS: Final = ("gt", "gte", "lt", "lte", "eq", "neq")
_ORDER: Final = (CorrelationType.TEMPORAL, CorrelationType.TEMPORAL_ORDERED)
_COUNTS: Final = (CorrelationType.EVENT_COUNT, CorrelationType.VALUE_COUNT)


class Correlation(Part):
    """One rule. Its id, in `rules` and in decisions, is `correlation_<name>`."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    title: Text = ""
    """Human-readable: the meaning of a finding."""
    status: Status = Status.EXPERIMENTAL
    type: CorrelationType
    select: Annotated[dict[Name, Selection], Field(min_length=1, max_length=8)]
    """The selections by name."""
    group_by: Annotated[tuple[FieldName, ...], Field(max_length=4)] = ()
    """Fields that must be equal for matches to count together; an event without one of them does not count."""
    timespan: Annotated[str, Field(pattern=r"^[1-9]\d{0,6}[smhd]$")]
    """A duration such as `90s`, `10m`, `2h`, `1d`."""
    last_actions: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Matches within this many actions of the session count too, however long they took."""
    condition: Condition | None = None
    severity: Severity = Severity.MEDIUM
    level: Level | None = None
    """The level of a finding's decision; left out: the severity's default."""

    @property
    def rule_id(self) -> str:
        """The rule's id, like a detector's."""
        return f"correlation_{self.name}"

    @property
    def timespan_ms(self) -> int:
        """The timespan in milliseconds."""
        return int(self.timespan[:-1]) * _SECONDS[self.timespan[-1]] * 1000

    @model_validator(mode="after")
    def _fits(self) -> "Correlation":
        if self.timespan_ms > MAX_TIMESPAN_S * 1000:
            raise ValueError(f"expected a timespan of at most 30d, got {self.timespan}")
        if self.type in _ORDER:
            if self.condition is not None or len(self.select) < 2:
                raise ValueError(f"expected two selections or more and no condition for {self.type.value}")
            return self
        if self.condition is None or not self.condition.limits:
            raise ValueError(f"expected a condition with one of {', '.join(_LIMITS)} for {self.type.value}")
        if (self.condition.field is None) != (self.type is CorrelationType.EVENT_COUNT):
            raise ValueError("expected condition.field for value_count, value_sum and value_avg, and for no other type")
        if self.type in _COUNTS:
            least = [limit for name, limit in self.condition.limits.items() if name in ("gt", "gte", "eq")]
            if not least or not 0 < max(least) <= MAX_ENTRIES - 1:
                raise ValueError(
                    f"expected a count to reach: gt, gte or eq, above 0 and at most {MAX_ENTRIES - 1},"
                    f" for {self.type.value}"
                )
        return self
