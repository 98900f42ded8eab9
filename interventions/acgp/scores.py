"""CTQ, the quality of a step's reasoning from 0 to 1, the intervention for its risk in each tier, and trust debt. Pure.

Published: the dimensions and their weights, risk = 1 - CTQ, the thresholds of tier 2, and the tiers for scores of risk
(ARS). Ours: the thresholds of the other tiers (0.05 less for each tier above 2, more below), the dimension of each of
our rules, and that a finding lowers it by base(severity) x confidence.

Trust debt is the sum of a session's interventions, with its decay, by event time: a new session of an agent starts
without debt. It can make a decision stricter, never a halt; it never changes a tier, but requests a review by a person.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import fsum
from typing import Any, Final

from haltline.interventions.levels.strategies import PLACES, severity_score
from haltline.interventions.state.intervention_history import Trust
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.intervening import WEIGHTS, Thresholds, TrustDebt
from haltline.schemas.ordered import OrderedName


class Intervention(OrderedName):
    """The primary interventions, from soft to hard."""

    OK = "ok"
    NUDGE = "nudge"
    ESCALATE = "escalate"
    BLOCK = "block"
    HALT = "halt"


class Dimension(StrEnum):
    """The dimensions of CTQ."""

    REASONING = "reasoning"
    GROUNDING = "grounding"
    ETHICAL = "ethical"
    TOOL_SAFETY = "tool_safety"
    CONTEXT = "context"


TIERS: Final[Mapping[int, Thresholds]] = {
    tier: Thresholds(ok=round(0.35 - less, 2), nudge=round(0.50 - less, 2), escalate=round(0.65 - less, 2))
    for tier, less in enumerate((0.0, 0.05, 0.10, 0.15, 0.20, 0.25))
}
"""By `agent_acl_tier`; only tier 2 is published."""

_DIMENSION: Final[Mapping[str, Dimension]] = {
    **dict.fromkeys(("hallucination", "environment_gone", "invented_data"), Dimension.GROUNDING),
    **dict.fromkeys(("evasion", "respawn"), Dimension.ETHICAL),
    **dict.fromkeys(
        (
            "destructive_repeat", "destructive_volume", "severe_destruction", "step_review", "resource_growth",
            "budget", "spend_velocity", "ask_first",
        ),
        Dimension.TOOL_SAFETY,
    ),
    **dict.fromkeys(("goal_drift", "scope_creep"), Dimension.CONTEXT),
}  # fmt: skip
"""By rule; all others affect the reasoning."""


def scores_of(findings: Iterable[Finding], given: object) -> dict[str, float]:
    """Return each dimension's score from 0 to 1.

    `given`: scores reported by the agent's side (`ctq` of the event); they can lower a score, never raise it.
    """
    scores = {dimension.value: 1.0 for dimension in Dimension}
    if isinstance(given, Mapping):
        for name, value in given.items():
            if name in scores and isinstance(value, (int, float)) and not isinstance(value, bool):
                scores[name] = min(1.0, max(0.0, float(value))) if value == value else 0.0  # noqa: PLR0124 - NaN
    for finding in findings:
        name = _DIMENSION.get(finding.detector, Dimension.REASONING).value
        scores[name] = min(scores[name], 1 - severity_score(finding.severity, finding.confidence))
    return {name: round(score, PLACES) for name, score in scores.items()}


def ctq(scores: Mapping[str, float], weights: Mapping[Any, float] = WEIGHTS) -> float:
    """Return the weighted sum, rounded for comparisons; a missing dimension counts as 1."""
    return round(fsum(weight * scores.get(name, 1.0) for name, weight in weights.items()), PLACES)


def by_risk(risk: float, thresholds: Thresholds) -> Intervention:
    """Return the intervention for a risk: each threshold is the highest risk of its intervention. Never a halt."""
    if risk <= thresholds.ok:
        return Intervention.OK
    if risk <= thresholds.nudge:
        return Intervention.NUDGE
    return Intervention.ESCALATE if risk <= thresholds.escalate else Intervention.BLOCK


_HOUR_MS: Final = 3_600_000


class TrustLevel(StrEnum):
    """The status for an amount of debt."""

    NORMAL = "normal"
    ELEVATED = "elevated_monitoring"
    RESTRICTED = "restricted_mode"
    REVIEW = "re_tiering_review"


def decayed(debt: float, hours: float, per_hour: float) -> float:
    """Return the rest of a debt after some hours."""
    return debt * math.pow(1.0 - per_hour, max(0.0, hours))


def debt_at(trust: Trust | None, time_ms: int, settings: TrustDebt) -> float:
    """Return the debt at a time, rounded for comparisons."""
    if trust is None:
        return 0.0
    return round(decayed(trust.debt, (time_ms - trust.at_ms) / _HOUR_MS, settings.decay_per_hour), PLACES)


def added(intervention: Intervention, flag: Severity | None, settings: TrustDebt) -> float:
    """Return the amount that a decision adds."""
    of: float = 0.0 if intervention is Intervention.OK else getattr(settings, intervention.value)
    return of if flag is None else of + settings.flag * settings.flag_factor.get(flag, 1.0)


def trust_level(debt: float, settings: TrustDebt) -> TrustLevel:
    """Return the status of a debt."""
    if debt >= settings.review:
        return TrustLevel.REVIEW
    if debt >= settings.restricted:
        return TrustLevel.RESTRICTED
    return TrustLevel.ELEVATED if debt >= settings.elevated else TrustLevel.NORMAL


def hardened(intervention: Intervention, trust: TrustLevel) -> Intervention:
    """Return the intervention. In restricted mode, or while a review is due, nudge and escalate are one step up."""
    if trust in (TrustLevel.NORMAL, TrustLevel.ELEVATED) or not Intervention.OK < intervention < Intervention.BLOCK:
        return intervention
    return Intervention.ESCALATE if intervention is Intervention.NUDGE else Intervention.BLOCK


def add(trust: Trust, amount: float, time_ms: int, settings: TrustDebt) -> float:
    """Add to the debt. Returns the new debt."""
    trust.debt = round(debt_at(trust, time_ms, settings) + amount, PLACES)
    trust.at_ms = max(trust.at_ms, time_ms)
    return trust.debt
