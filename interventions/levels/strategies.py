"""The strategies for the level of a finding, from which a policy can choose, and the chosen level. Pure.

Sources: the published intervention system (severity score, progression, lists by pattern). Ours, as it leaves them
undefined: the impact (`IMPACT`), similarity (a finding of the same rule), the escalation level (interventions of the
rule within the recent history that did not help), the effect of an intervention (`history`), and a list for patterns
without one. Also ours: a critical finding gets the last entry of its list, and no other severity does if the list is
long enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from haltline.schemas.decisions import Arm, Level, Mode
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.payloads import Choice

PLACES: Final = 9
"""Sums are rounded before they are compared: 0.3 + 2 * 0.3 is a little below 0.9."""

LADDER: Final = (Level.NUDGE, Level.REINFORCE, Level.THROTTLE, Level.ROLLBACK, Level.KILL)
"""In the source: soft_correction, context_reinforcement, resource_throttling, checkpoint_rollback, emergency_stop."""

IMPACT: Final[Mapping[Effect, float]] = {
    Effect.READ: 0.0,
    Effect.POLL: 0.0,
    Effect.WRITE: 0.25,
    Effect.NETWORK: 0.25,
    Effect.EXEC: 0.25,
    Effect.MUTATE: 0.5,
    Effect.DESTRUCTIVE: 1.0,
}
"""0 to 1, by the action's effect."""

_BASE: Final[Mapping[Severity, float]] = {
    Severity.LOW: 0.2,
    Severity.MEDIUM: 0.5,
    Severity.HIGH: 0.8,
    Severity.CRITICAL: 1.0,
}
_ESCALATION: Final = 0.3
_CUTS: Final = ((0.9, Level.KILL), (0.7, Level.ROLLBACK), (0.5, Level.THROTTLE), (0.3, Level.REINFORCE))

_N, _R, _T, _B, _K = LADDER
PATTERNS: Final[Mapping[str, tuple[Level, ...]]] = {
    "error_repetition": (_N, _R, _B),
    "scope_creep": (_R, _T, _K),
    "resource_growth": (_T, _B, _K),
    "goal_drift": (_N, _R, _B),
    "hallucination": (_R, _B, _K),
}
"""By rule, from soft to hard."""
DEFAULT_PATTERN: Final = (_N, _R, _T, _K)
"""For every other rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One finding and the history: the only input of a strategy."""

    finding: Finding
    by_rule: Level
    """The level of the rule."""
    impact: float = 0.0
    """0 to 1: the impact of the action."""
    escalation: int = 0
    """Interventions of the rule in the recent history that did not help."""
    issues: int = 0
    """Findings of the rule in the recent history, without this one."""
    last: Level | None = None
    """The rule's last intervention in the recent history."""
    since_s: float = 0.0
    """Seconds since then, in event time."""
    effectiveness: float | None = None
    """How far the recent interventions helped, 0 to 1; None: unknown."""


class Strategy(Protocol):
    """Chooses a level. It may use its arguments only, so that a replay gives the same result."""

    def choose(self, case: Case) -> Level:
        """Return the level for the finding."""


def severity_score(severity: Severity, confidence: float, impact: float = 0.0) -> float:
    """Return base score of the severity x confidence x (1 + impact)."""
    return _BASE[severity] * confidence * (1 + impact)


def combined_score(severity: Severity, confidence: float, impact: float = 0.0, escalation: int = 0) -> float:
    """Return the severity score plus 0.3 for each intervention that did not help, rounded for comparisons."""
    return round(severity_score(severity, confidence, impact) + _ESCALATION * escalation, PLACES)


def level_of(score: float) -> Level:
    """Return the intervention of a combined score."""
    return next((level for cut, level in _CUTS if score >= cut), Level.NUDGE)


def harder(level: Level) -> Level:
    """Return the next level of the ladder; PAUSE and BLOCK are not on it, and are unchanged."""
    return LADDER[min(LADDER.index(level) + 1, len(LADDER) - 1)] if level in LADDER else level


def softer(level: Level) -> Level:
    """Return the previous level of the ladder."""
    return LADDER[max(LADDER.index(level) - 1, 0)] if level in LADDER else level


@dataclass(frozen=True, slots=True)
class ByRule:
    """The rule's level for the severity: the default."""

    def choose(self, case: Case) -> Level:
        """Return the rule's own level."""
        return case.by_rule


@dataclass(frozen=True, slots=True)
class Scored:
    """The level of the combined score; chosen once, with all escalation in it."""

    escalate_after: int = 2

    def choose(self, case: Case) -> Level:
        """Return the level of the score, or the next one if the issue persists."""
        level = level_of(score_of(case))
        return harder(level) if self.escalate_after and case.issues >= self.escalate_after else level


def score_of(case: Case) -> float:
    """Return the combined score of a case."""
    return combined_score(case.finding.severity, case.finding.confidence, case.impact, case.escalation)


@dataclass(frozen=True, slots=True)
class Progressive:
    """Step by step: stricter if the last steps did not help, softer again if they did."""

    effective: float = 0.6
    escalation_delay_s: float = 120.0

    def choose(self, case: Case) -> Level:
        """Return the first step, the next one, the same, or the previous one."""
        if case.last is None:
            return LADDER[0]
        # From a level outside of the ladder (a pause by another strategy), continue at the step below it.
        current = case.last if case.last in LADDER else max(step for step in LADDER if step < case.last)
        return next_step(
            current,
            case.effectiveness,
            effective=self.effective,
            may_soften=case.since_s >= self.escalation_delay_s,
        )


def next_step(current: Level, effectiveness: float | None, *, effective: float, may_soften: bool) -> Level:
    """Return the step after `current` if it helped less than `effective`; the effectiveness is None if unknown."""
    if effectiveness is None:
        return current
    if effectiveness < effective:
        return harder(current)
    return softer(current) if may_soften else current


@dataclass(frozen=True, slots=True)
class PatternSpecific:
    """A separate list for each rule, from soft to hard."""

    patterns: Mapping[str, Sequence[Level]]

    def choose(self, case: Case) -> Level:
        """Return the entry of the severity."""
        own = self.patterns.get(case.finding.detector) or PATTERNS.get(case.finding.detector, DEFAULT_PATTERN)
        return by_severity(own, case.finding.severity)


def by_severity(levels: Sequence[Level], severity: Severity) -> Level:
    """Return the entry of a list from soft to hard: the first for low, the second for medium, the last for critical."""
    return levels[-1] if severity is Severity.CRITICAL else levels[min(severity.rank, len(levels) - 1)]


@dataclass(slots=True)
class Chosen:
    """The chosen finding and its effect."""

    finding: Finding
    mode: Mode
    meant: Level
    """The level under `enforce`."""
    strategy: str = "by_rule"
    why: list[str] = field(default_factory=list)
    """Each change of the rule's own level; empty: unchanged."""
    case: Case | None = None
    attempts: int = 0
    last_hint: bool = False
    """The session gets no more hints after this one."""
    holds: bool = False
    """It holds the whole session."""
    says: str = ""
    """The text for the model; empty: that of the level."""
    arm: Arm | None = None
    """For a hint of the policy's experiment: the session's group."""

    def becomes(self, level: Level, why: str, *, says: str = "", holds: bool = False) -> None:
        """Change the level, with the reason and, if it is not the level's own, the text for the model."""
        self.meant, self.says, self.holds = level, says, holds
        self.why.append(why)

    @property
    def level(self) -> Level:
        """The level under the rule's mode, and the policy's experiment."""
        return Level.ALLOW if self.arm is Arm.SILENT else self.told

    @property
    def told(self) -> Level:
        """The level under the rule's mode, also if the experiment holds the hint back."""
        return held_back(self.meant, self.mode)

    @property
    def choice(self) -> Choice | None:
        """The record of the choice; None: the rule's own level."""
        if not self.why or self.case is None:
            return None
        return Choice(
            strategy=self.strategy,
            why="; ".join(self.why),
            score=score_of(self.case) if self.strategy == "scored" else None,
            escalation=self.case.escalation,
            attempts=self.attempts,
            effectiveness=self.case.effectiveness,
        )


def held_back(level: Level, mode: Mode) -> Level:
    """Return the level under a mode."""
    if mode is Mode.ENFORCE:
        return level
    return Level.ALLOW if mode is Mode.SHADOW else min(level, Level.NUDGE)
