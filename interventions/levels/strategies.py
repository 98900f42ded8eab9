"""How hard the answer to a finding is: the strategies that a policy can choose from. Pure.

Sources: the published intervention system (severity score, progression, lists by pattern). Ours, since it leaves them
undefined: the impact (`IMPACT`), what is similar (a finding of the same rule), the escalation level (interventions
of the rule within the recent history that did not help), what an intervention did (`history`), a list for patterns
without one, and that a critical finding is the last of its list and no other severity is, where there are enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from haltline.schemas.decisions import Level
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding, Severity

PLACES: Final = 9
"""Sums are rounded before they are compared: 0.3 + 2 * 0.3 is a little below 0.9."""

LADDER: Final = (Level.NUDGE, Level.REINFORCE, Level.THROTTLE, Level.ROLLBACK, Level.KILL)
"""soft_correction, context_reinforcement, resource_throttling, checkpoint_rollback, emergency_stop."""

IMPACT: Final[Mapping[Effect, float]] = {
    Effect.READ: 0.0,
    Effect.POLL: 0.0,
    Effect.WRITE: 0.25,
    Effect.NETWORK: 0.25,
    Effect.EXEC: 0.25,
    Effect.MUTATE: 0.5,
    Effect.DESTRUCTIVE: 1.0,
}
"""0 to 1, by what the action does."""

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
"""Of every other rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One finding, and what went before: all that a strategy may look at."""

    finding: Finding
    by_rule: Level
    """What the rule's levels say."""
    impact: float = 0.0
    """0 to 1: what the action does to the world."""
    escalation: int = 0
    """Interventions of the rule in the recent history that did not help."""
    issues: int = 0
    """Findings of the rule in the recent history, without this one."""
    last: Level | None = None
    """The rule's last intervention in the recent history."""
    since_s: float = 0.0
    """How long ago that was, event time."""
    effectiveness: float | None = None
    """How far the interventions of the recent history helped, 0 to 1; None: it is not known of any."""


class Strategy(Protocol):
    """Chooses a level; what it is given is all that it may use, so that a replay chooses the same."""

    def choose(self, case: Case) -> Level:
        """The level that answers the finding."""


def severity_score(severity: Severity, confidence: float, impact: float = 0.0) -> float:
    """Base score of the severity, times the confidence, times 1 + impact."""
    return _BASE[severity] * confidence * (1 + impact)


def combined_score(severity: Severity, confidence: float, impact: float = 0.0, escalation: int = 0) -> float:
    """The severity score and 0.3 for each intervention that did not help, rounded so that it can be compared."""
    return round(severity_score(severity, confidence, impact) + _ESCALATION * escalation, PLACES)


def level_of(score: float) -> Level:
    """The intervention of a combined score."""
    return next((level for cut, level in _CUTS if score >= cut), Level.NUDGE)


def harder(level: Level) -> Level:
    """One step up the ladder; PAUSE and BLOCK are beside it, and stay."""
    return LADDER[min(LADDER.index(level) + 1, len(LADDER) - 1)] if level in LADDER else level


def softer(level: Level) -> Level:
    """One step down the ladder."""
    return LADDER[max(LADDER.index(level) - 1, 0)] if level in LADDER else level


@dataclass(frozen=True, slots=True)
class ByRule:
    """What the rule's levels say of the severity: the default."""

    def choose(self, case: Case) -> Level:
        """The rule's own level."""
        return case.by_rule


@dataclass(frozen=True, slots=True)
class Scored:
    """By the combined score; the level is chosen once, with all escalation in it."""

    escalate_after: int = 2

    def choose(self, case: Case) -> Level:
        """The level of the score, or the next one when the issue persists."""
        level = level_of(score_of(case))
        return harder(level) if self.escalate_after and case.issues >= self.escalate_after else level


def score_of(case: Case) -> float:
    """The combined score of a case."""
    return combined_score(case.finding.severity, case.finding.confidence, case.impact, case.escalation)


@dataclass(frozen=True, slots=True)
class Progressive:
    """Step by step: harder when the last steps did not help, softer again when they did."""

    effective: float = 0.6
    escalation_delay_s: float = 120.0

    def choose(self, case: Case) -> Level:
        """The first step, the next one, the same, or the one before."""
        if case.last is None:
            return LADDER[0]
        # A level that is no step of the ladder (a pause by another strategy) is where it goes on from.
        current = case.last if case.last in LADDER else max(step for step in LADDER if step < case.last)
        return next_step(
            current,
            case.effectiveness,
            effective=self.effective,
            may_soften=case.since_s >= self.escalation_delay_s,
        )


def next_step(current: Level, effectiveness: float | None, *, effective: float, may_soften: bool) -> Level:
    """The step after `current` when that helped less than `effective`; None: it is not known whether it did."""
    if effectiveness is None:
        return current
    if effectiveness < effective:
        return harder(current)
    return softer(current) if may_soften else current


@dataclass(frozen=True, slots=True)
class PatternSpecific:
    """By a list of each rule's own, from soft to hard."""

    patterns: Mapping[str, Sequence[Level]]

    def choose(self, case: Case) -> Level:
        """The entry of the severity."""
        own = self.patterns.get(case.finding.detector) or PATTERNS.get(case.finding.detector, DEFAULT_PATTERN)
        return by_severity(own, case.finding.severity)


def by_severity(levels: Sequence[Level], severity: Severity) -> Level:
    """The entry of a list from soft to hard: the first for low, the second for medium, the last for critical."""
    return levels[-1] if severity is Severity.CRITICAL else levels[min(severity.rank, len(levels) - 1)]
