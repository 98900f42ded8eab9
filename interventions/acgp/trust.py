"""Trust debt: the sum of an agent's interventions, with its decay. Pure, by event time.

It is stored per session: a new session of the same agent starts without debt. It can make a decision stricter, never a
halt; it never changes a tier, but requests a review by a person.
"""

import math
from enum import StrEnum
from typing import Final

from haltline.interventions.acgp.scores import Intervention
from haltline.interventions.levels.strategies import PLACES
from haltline.interventions.state.intervention_history import Trust
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import TrustDebt

_HOUR_MS: Final = 3_600_000


class Standing(StrEnum):
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


def standing_of(debt: float, settings: TrustDebt) -> Standing:
    """Return the status of a debt."""
    if debt >= settings.review:
        return Standing.REVIEW
    if debt >= settings.restricted:
        return Standing.RESTRICTED
    return Standing.ELEVATED if debt >= settings.elevated else Standing.NORMAL


def hardened(intervention: Intervention, standing: Standing) -> Intervention:
    """Return the intervention. In restricted mode, or while a review is due, nudge and escalate are one step up."""
    if standing in (Standing.NORMAL, Standing.ELEVATED) or not Intervention.OK < intervention < Intervention.BLOCK:
        return intervention
    return Intervention.ESCALATE if intervention is Intervention.NUDGE else Intervention.BLOCK


def add(trust: Trust, amount: float, time_ms: int, settings: TrustDebt) -> float:
    """Add to the debt. Returns the new debt."""
    trust.debt = round(debt_at(trust, time_ms, settings) + amount, PLACES)
    trust.at_ms = max(trust.at_ms, time_ms)
    return trust.debt
