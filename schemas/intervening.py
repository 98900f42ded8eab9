"""How a policy chooses and carries out interventions."""

import math
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Severity
from haltline.schemas.payloads import Strength
from haltline.schemas.record import Id, Name, Part, Text

MAX_ENTRIES: Final = 256

Glob = Annotated[str, Field(min_length=1, max_length=512)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Debt = Annotated[float, Field(ge=0, le=1000)]
_Factor = Annotated[float, Field(gt=0, le=1)]


class Vocabulary(StrEnum):
    """The vocabulary of a decision."""

    PIPELINE = "pipeline"
    """soft_correction to emergency_stop; allow, warn, modify, block."""
    ACGP = "acgp"
    """ok to halt, and the flag."""
    AGENT_SENTINEL = "agent_sentinel"
    """Intervention records."""
    TAPPASS = "tappass"
    """allow, deny, session kill."""


class Spoken(Part):
    """The vocabulary of some agents or sessions."""

    agent: Glob = "*"
    """A glob over ids of agents."""
    session: Glob = "*"
    """A glob over ids of sessions."""
    vocabulary: Vocabulary
    """The vocabulary of their decisions."""


class Throttle(Part):
    """How limits are lowered."""

    limits: dict[Name, Annotated[float, Field(ge=1, le=1e15)]] = Field(
        default_factory=lambda: {
            "max_file_operations": 100.0,
            "max_memory_mb": 512.0,
            "max_tokens": 100_000.0,
            "max_execution_time_s": 300.0,
            "batch_size": 32.0,
        }
    )
    """What holds before the first throttling; the names are the agent's side's to understand."""
    moderate: _Factor = 0.85
    """For a growth above 1.2 a step, or a low or medium finding that measures none."""
    aggressive: _Factor = 0.7
    """For a growth above 1.5, or a high finding that measures none."""
    severe: _Factor = 0.5
    """For a growth above 2, or a critical finding that measures none."""


class RollbackLimits(Part):
    """Which checkpoints are safe to go back to."""

    max_depth: Annotated[int, Field(ge=1, le=16)] = 3
    """The most checkpoints that may be taken back at once."""
    retention_s: Annotated[float, Field(ge=1, le=86_400)] = 1800.0
    """Older ones are forgotten."""
    min_success_rate: _Share = 0.8
    """Of the calls before it, as many must have succeeded."""
    no_errors_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """So long before it none may have failed."""


class Modification(Part):
    """How the arguments of a call are changed instead of refusing it."""

    action: Glob
    """A glob over names of tools."""
    rules: Annotated[tuple[Id, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Rules whose findings it answers; none named: all."""
    put: Annotated[dict[Name, Any], Field(max_length=64)] = Field(default_factory=dict)
    """Arguments that get this value."""
    cap: Annotated[dict[Name, float], Field(max_length=64)] = Field(default_factory=dict)
    """Numbers that are at most this."""
    remove: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    """Arguments that are left out."""

    @model_validator(mode="after")
    def _says_something(self) -> "Modification":
        if not (self.put or self.cap or self.remove):
            raise ValueError("expected put, cap or remove, got none of them")
        return self


class Price(Part):
    """What a call of a tool would cost."""

    action: Glob
    """A glob over names of tools."""
    usd: Annotated[float, Field(ge=0, le=1e12)]
    """Of one call."""


class TripwireKind(StrEnum):
    """What a tripwire watches over."""

    FINANCIAL = "financial"
    RATE = "rate"
    SECURITY = "security"
    QUALITY = "quality"


class Hook(Part):
    """Where a tripwire is looked at."""

    hook: Literal["tool_call"] = "tool_call"
    """Before a call is made."""
    tool: Glob = "*"
    """A glob over names of tools."""


class OnFail(Part):
    """What follows when a tripwire is touched."""

    decision: Literal["nudge", "escalate", "block", "halt"] = "block"
    """Only a tripwire can halt."""
    reason: Text = ""
    """For the operator."""


class Tripwire(Part):
    """A condition that no call may meet, looked at before everything else."""

    id: Id
    """Named in decisions."""
    kind: TripwireKind = TripwireKind.SECURITY
    """What it watches over; it changes nothing."""
    when: Hook = Field(default_factory=Hook)
    """Where it is looked at."""
    condition: Annotated[str, Field(min_length=1, max_length=1000)]
    """Such as `args.amount > 500`. One that cannot be evaluated counts as met, and then blocks at most."""
    eval_tier: Annotated[int, Field(ge=0, le=3)] = 0
    """How costly its evaluation is; all are cheap here."""
    on_fail: OnFail = Field(default_factory=OnFail)
    """What follows."""
    flag: Severity | None = None
    """Flags the decision, so that a person looks at it."""


class Thresholds(Part):
    """The highest risk of each intervention; above `escalate` it is `block`."""

    ok: _Share
    """The highest risk that is let pass."""
    nudge: _Share
    """The highest one that is only hinted at."""
    escalate: _Share
    """The highest one that a person may approve."""

    @model_validator(mode="after")
    def _ordered(self) -> "Thresholds":
        if not self.ok <= self.nudge <= self.escalate:
            raise ValueError(f"expected ok <= nudge <= escalate, got {self.ok}, {self.nudge}, {self.escalate}")
        return self


class TrustDebt(Part):
    """What each intervention adds to an agent's debt, and what follows from its height."""

    nudge: _Debt = 0.5
    """Added by a nudge."""
    escalate: _Debt = 1.0
    """Added by an escalation."""
    block: _Debt = 2.0
    """Added by a block."""
    halt: _Debt = 5.0
    """Added by a halt."""
    flag: _Debt = 0.1
    """Added by a flag, times the factor of its severity."""
    flag_factor: dict[Severity, _Debt] = Field(
        default_factory=lambda: {Severity.LOW: 1.0, Severity.MEDIUM: 1.0, Severity.HIGH: 2.0, Severity.CRITICAL: 5.0}
    )
    """By which a flag of a severity is multiplied: ours, the published text names no numbers."""
    decay_per_hour: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """The part of the debt that an hour takes away."""
    elevated: Annotated[float, Field(gt=0)] = 3.0
    """From here on whatever is not ok is flagged."""
    restricted: Annotated[float, Field(gt=0)] = 6.0
    """From here on what is not ok is one step harder, up to block."""
    review: Annotated[float, Field(gt=0)] = 10.0
    """From here on a person is to decide anew in which tier the agent is."""


WEIGHTS: Final[dict[str, float]] = {
    "reasoning": 0.25,
    "grounding": 0.20,
    "ethical": 0.20,
    "tool_safety": 0.20,
    "context": 0.15,
}
"""Of the dimensions of CTQ, as published."""


class Governed(Part):
    """Agents or sessions that are evaluated as ACGP says. Of several entries the first that matches holds."""

    agent: Glob = "*"
    """A glob over ids of agents."""
    session: Glob = "*"
    """A glob over ids of sessions."""
    mode: Mode = Mode.ENFORCE
    """shadow: only record what the evaluation says; warn: a nudge at most; enforce."""
    agent_acl_tier: Annotated[int, Field(ge=0, le=5)] = 2
    """The tier, from minimal to maximum."""
    thresholds: Thresholds | None = None
    """Other ones than the tier's."""
    weights: dict[Literal["reasoning", "grounding", "ethical", "tool_safety", "context"], _Share] = Field(
        default_factory=lambda: dict(WEIGHTS), validate_default=True
    )
    """Of the dimensions; together 1."""
    tripwires: Annotated[tuple[Tripwire, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Looked at in order; the strictest counts."""
    halting_rules: Annotated[tuple[Id, ...], Field(max_length=MAX_ENTRIES)] = (
        "destructive_repeat",
        "destructive_volume",
        "evasion",
    )
    """Rules whose kill is a tripwire too; another rule's kill blocks."""
    flag_from: Severity = Severity.HIGH
    """Findings from this severity on flag the decision."""
    trust_debt: TrustDebt = Field(default_factory=TrustDebt)
    """What each intervention adds, and what follows."""

    @model_validator(mode="after")
    def _whole(self) -> "Governed":
        total = math.fsum(self.weights.values())
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"expected weights that sum to 1, got {total:g}")
        return self


class Interventions(Part):
    """How levels are chosen and what decisions bring along."""

    strategy: Annotated[str, Field(min_length=1, max_length=256)] = "by_rule"
    """by_rule, scored, progressive, pattern_specific, or one of another package by its name."""
    strategies: Annotated[dict[Id, Name], Field(max_length=MAX_ENTRIES)] = Field(default_factory=dict)
    """By detector id: another strategy for this rule. Also softens critical findings, which `strategy` never does."""
    patterns: Annotated[dict[Id, tuple[Level, ...]], Field(max_length=MAX_ENTRIES)] = Field(default_factory=dict)
    """By detector id: other levels, from soft to hard, for pattern_specific."""
    handlers: Annotated[dict[Id, Name], Field(max_length=MAX_ENTRIES)] = Field(default_factory=dict)
    """By detector id: another package's intervention that adds to this rule's decisions."""
    history_s: Annotated[float, Field(ge=1, le=86_400)] = 300.0
    """How far back the recent history of interventions goes."""
    effectiveness: _Share = 0.6
    """An intervention that helped less than this did not help."""
    escalation_delay_s: Annotated[float, Field(ge=0, le=86_400)] = 120.0
    """progressive becomes softer again only so long after the last intervention."""
    escalate_after: Annotated[int, Field(ge=0, le=100)] = 2
    """scored goes one level further after so many recent issues of a rule; 0: never."""
    max_attempts: dict[Level, Annotated[int, Field(ge=1, le=1000)]] = Field(default_factory=lambda: {Level.NUDGE: 3})
    """A level that did not help so often for a rule gives way to the next harder one."""
    max_interventions: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Hints (NUDGE, REINFORCE) that a session receives; then only what is harder is sent."""
    after_warnings: Annotated[int, Field(ge=0, le=1000)] = 5
    """Warnings of one rule that did not help, after which it becomes a stop; 0: never."""
    stop: Level = Level.PAUSE
    """What such a stop is: PAUSE, BLOCK, ROLLBACK or KILL."""
    messages: Annotated[dict[Id, Text], Field(max_length=MAX_ENTRIES)] = Field(default_factory=dict)
    """By detector id or by the finding's code: your own words for the model, below a refusal; {target} is put in."""
    reinforcement: Strength = Strength.MEDIUM
    """How much of the task REINFORCE tells."""
    throttle: Throttle = Field(default_factory=Throttle)
    """How THROTTLE lowers limits."""
    rollback: RollbackLimits = Field(default_factory=RollbackLimits)
    """Which checkpoints ROLLBACK may choose."""
    modifications: Annotated[tuple[Modification, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Changed arguments instead of a hint; the first that matches counts."""
    prices: Annotated[tuple[Price, ...], Field(max_length=MAX_ENTRIES)] = ()
    """What calls cost, for the records of what was prevented; the first that matches counts."""
    vocabularies: Annotated[tuple[Spoken, ...], Field(max_length=MAX_ENTRIES)] = ()
    """The vocabularies of decisions; the first that matches counts."""
    acgp: Annotated[tuple[Governed, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Agents or sessions that are evaluated as ACGP says."""

    @model_validator(mode="after")
    def _stops(self) -> "Interventions":
        if self.stop < Level.PAUSE:
            raise ValueError(f"stop: expected PAUSE or harder, got {self.stop.value}")
        return self


DEFAULT: Final = Interventions()

PARTS: Final = (
    Spoken, Throttle, RollbackLimits, Modification, Price, Hook, OnFail, Tripwire, Thresholds, TrustDebt, Governed,
    Interventions,
)  # fmt: skip
"""Every part of a policy that is described here."""
