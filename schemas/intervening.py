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
    """The vocabulary in which decisions are named.

    Pipeline: soft_correction to emergency_stop; allow, warn, modify, block. ACGP: ok to halt, and the flag. Agent
    Sentinel: intervention records. TapPass: allow, deny, session kill.
    """

    PIPELINE = "pipeline"
    ACGP = "acgp"
    AGENT_SENTINEL = "agent_sentinel"
    TAPPASS = "tappass"


class Spoken(Part):
    """The vocabulary for some agents or sessions."""

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
    """The limits before the first throttling; the agent's side interprets their names."""
    moderate: _Factor = 0.85
    """For growth above 1.2 a step, or a low or medium finding without a measured growth."""
    aggressive: _Factor = 0.7
    """For growth above 1.5, or a high finding without a measured growth."""
    severe: _Factor = 0.5
    """For growth above 2, or a critical finding without a measured growth."""


class RollbackLimits(Part):
    """Conditions for a checkpoint to be safe for a rollback."""

    max_depth: Annotated[int, Field(ge=1, le=16)] = 3
    """The most checkpoints that one rollback may undo."""
    retention_s: Annotated[float, Field(ge=1, le=86_400)] = 1800.0
    """Older checkpoints are dropped."""
    min_success_rate: _Share = 0.8
    """The share of the calls before the checkpoint that must have succeeded."""
    no_errors_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """No call may have failed within this time before the checkpoint."""


class Modification(Part):
    """How the arguments of a call are changed instead of refusing it."""

    action: Glob
    """A glob over names of tools."""
    rules: Annotated[tuple[Id, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Rules whose findings it applies to; empty: all."""
    put: Annotated[dict[Name, Any], Field(max_length=64)] = Field(default_factory=dict)
    """Arguments and their new values."""
    cap: Annotated[dict[Name, float], Field(max_length=64)] = Field(default_factory=dict)
    """Upper bounds of numeric arguments."""
    remove: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    """Arguments to remove."""

    @model_validator(mode="after")
    def _says_something(self) -> "Modification":
        if not (self.put or self.cap or self.remove):
            raise ValueError("expected put, cap or remove, got none of them")
        return self


class Price(Part):
    """The cost of a call of a tool."""

    action: Glob
    """A glob over names of tools."""
    usd: Annotated[float, Field(ge=0, le=1e12)]
    """For one call."""


class TripwireKind(StrEnum):
    """The subject of a tripwire."""

    FINANCIAL = "financial"
    RATE = "rate"
    SECURITY = "security"
    QUALITY = "quality"


class Hook(Part):
    """When a tripwire is evaluated."""

    hook: Literal["tool_call"] = "tool_call"
    """Before a call is made."""
    tool: Glob = "*"
    """A glob over names of tools."""


class OnFail(Part):
    """The result of a tripwire whose condition is met."""

    decision: Literal["nudge", "escalate", "block", "halt"] = "block"
    """A hint, a person's approval, a refusal, or a kill of the session."""
    reason: Text = ""
    """For the operator."""


class Tripwire(Part):
    """A condition that no call may meet."""

    id: Id
    """Named in decisions."""
    kind: TripwireKind = TripwireKind.SECURITY
    """The tripwire's subject, for information only."""
    when: Hook = Field(default_factory=Hook)
    """When it is evaluated."""
    condition: Annotated[str, Field(min_length=1, max_length=1000)]
    """Such as `args.amount > 500`. One that cannot be evaluated counts as met, and then leads to a block at most."""
    eval_tier: Annotated[int, Field(ge=0, le=3)] = 0
    """The cost of its evaluation; here, all are cheap."""
    on_fail: OnFail = Field(default_factory=OnFail)
    """The result when it is met."""
    flag: Severity | None = None
    """Where ACGP governs the session: flags the decision for review by a person."""


class Thresholds(Part):
    """The highest risk of each intervention; above `escalate` it is `block`."""

    ok: _Share
    """The highest risk that is allowed."""
    nudge: _Share
    """The highest risk that leads to a nudge only."""
    escalate: _Share
    """The highest risk that a person may approve."""

    @model_validator(mode="after")
    def _ordered(self) -> "Thresholds":
        if not self.ok <= self.nudge <= self.escalate:
            raise ValueError(f"expected ok <= nudge <= escalate, got {self.ok}, {self.nudge}, {self.escalate}")
        return self


class TrustDebt(Part):
    """What each intervention adds to an agent's debt, and the effects of its thresholds."""

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
    """The multipliers of a flag by severity. The published text names no numbers; these are ours."""
    decay_per_hour: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """The share of the debt that decays in an hour."""
    elevated: Annotated[float, Field(gt=0)] = 3.0
    """From this debt on, all results but ok are flagged."""
    restricted: Annotated[float, Field(gt=0)] = 6.0
    """From this debt on, all results but ok are one step stricter, up to block."""
    review: Annotated[float, Field(gt=0)] = 10.0
    """From this debt on, a person must review the agent's tier."""


WEIGHTS: Final[dict[str, float]] = {
    "reasoning": 0.25,
    "grounding": 0.20,
    "ethical": 0.20,
    "tool_safety": 0.20,
    "context": 0.15,
}
"""The weights of the CTQ dimensions, as published."""


class Governed(Part):
    """Agents or sessions that ACGP's rules evaluate. The first matching entry applies."""

    agent: Glob = "*"
    """A glob over ids of agents."""
    session: Glob = "*"
    """A glob over ids of sessions."""
    mode: Mode = Mode.ENFORCE
    """shadow: only record the evaluation; warn: a nudge at most; enforce."""
    agent_acl_tier: Annotated[int, Field(ge=0, le=5)] = 2
    """The tier, from minimal to maximum."""
    thresholds: Thresholds | None = None
    """Replaces the tier's thresholds."""
    weights: dict[Literal["reasoning", "grounding", "ethical", "tool_safety", "context"], _Share] = Field(
        default_factory=lambda: dict(WEIGHTS), validate_default=True
    )
    """The weights of the dimensions; their sum is 1."""
    tripwires: Annotated[tuple[Tripwire, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Like those of `author_rules`, for these agents, in the mode of this entry. Each may halt."""
    halting_rules: Annotated[tuple[Id, ...], Field(max_length=MAX_ENTRIES)] = (
        "destructive_repeat",
        "destructive_volume",
        "evasion",
        "tripwire_*",
    )
    """Globs over rules whose kill halts; a kill by another rule blocks."""
    flag_from: Severity = Severity.HIGH
    """Findings of at least this severity flag the decision."""
    trust_debt: TrustDebt = Field(default_factory=TrustDebt)
    """What each intervention adds, and the effects."""

    @model_validator(mode="after")
    def _whole(self) -> "Governed":
        total = math.fsum(self.weights.values())
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"expected weights that sum to 1, got {total:g}")
        return self


class Interventions(Part):
    """How levels are chosen and what decisions contain besides."""

    strategy: Annotated[str, Field(min_length=1, max_length=256)] = "by_rule"
    """by_rule, scored, progressive, pattern_specific, or the name of another package's strategy."""
    strategies: Annotated[dict[Id, Name], Field(max_length=MAX_ENTRIES)] = Field(default_factory=dict)
    """By detector id: another strategy for this rule. It also softens critical findings; `strategy` never does."""
    patterns: Annotated[dict[Id, tuple[Level, ...]], Field(max_length=MAX_ENTRIES)] = Field(default_factory=dict)
    """By detector id: other levels for pattern_specific, from soft to hard."""
    handlers: Annotated[dict[Id, Name], Field(max_length=MAX_ENTRIES)] = Field(default_factory=dict)
    """By detector id: another package's intervention that extends this rule's decisions."""
    history_s: Annotated[float, Field(ge=1, le=86_400)] = 300.0
    """The length of the recent history of interventions."""
    effectiveness: _Share = 0.6
    """An intervention with an effectiveness below this counts as unsuccessful."""
    escalation_delay_s: Annotated[float, Field(ge=0, le=86_400)] = 120.0
    """progressive becomes softer only after this time without an intervention."""
    escalate_after: Annotated[int, Field(ge=0, le=100)] = 2
    """scored escalates by one level after this many recent issues of a rule; 0: never."""
    max_attempts: dict[Level, Annotated[int, Field(ge=1, le=1000)]] = Field(default_factory=lambda: {Level.NUDGE: 3})
    """How often a level may fail for a rule before the next harder level is used."""
    max_interventions: Annotated[int, Field(ge=1, le=10_000)] = 10
    """The most hints (NUDGE, REINFORCE) per session; afterwards only harder levels are sent."""
    after_warnings: Annotated[int, Field(ge=0, le=1000)] = 5
    """The number of unsuccessful warnings of one rule that leads to a stop; 0: never."""
    stop: Level = Level.PAUSE
    """The level of such a stop: PAUSE, BLOCK, ROLLBACK or KILL."""
    messages: Annotated[dict[Id, Text], Field(max_length=MAX_ENTRIES)] = Field(default_factory=dict)
    """By detector id or by the finding's code: your own text for the model, unless it is a refusal; {target} is
    replaced."""
    reinforcement: Strength = Strength.MEDIUM
    """How much of the task REINFORCE repeats."""
    throttle: Throttle = Field(default_factory=Throttle)
    """How THROTTLE lowers limits."""
    rollback: RollbackLimits = Field(default_factory=RollbackLimits)
    """Which checkpoints ROLLBACK may choose."""
    modifications: Annotated[tuple[Modification, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Changed arguments instead of a hint; the first match counts."""
    prices: Annotated[tuple[Price, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Costs of calls, for the records of prevented costs; the first match counts."""
    vocabularies: Annotated[tuple[Spoken, ...], Field(max_length=MAX_ENTRIES)] = ()
    """The vocabularies of decisions; the first match counts."""
    acgp: Annotated[tuple[Governed, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Agents or sessions that ACGP's rules evaluate."""

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
"""Every part of a policy that this module defines."""
