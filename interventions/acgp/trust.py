"""Trust debt: what an agent's interventions add up to, and how it fades. Pure, by event time.

It is kept for each session: a new session of the same agent begins without debt. It can make a decision harder, never
a halt; and it never changes a tier, but asks a person to.
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
    """What follows from the height of the debt."""

    NORMAL = "normal"
    ELEVATED = "elevated_monitoring"
    RESTRICTED = "restricted_mode"
    REVIEW = "re_tiering_review"


def decayed(debt: float, hours: float, per_hour: float) -> float:
    """What is left of a debt."""
    return debt * math.pow(1.0 - per_hour, max(0.0, hours))


def debt_at(trust: Trust | None, time_ms: int, settings: TrustDebt) -> float:
    """The debt at a moment, rounded so that it can be compared."""
    if trust is None:
        return 0.0
    return round(decayed(trust.debt, (time_ms - trust.at_ms) / _HOUR_MS, settings.decay_per_hour), PLACES)


def added(intervention: Intervention, flag: Severity | None, settings: TrustDebt) -> float:
    """What a decision adds."""
    of: float = 0.0 if intervention is Intervention.OK else getattr(settings, intervention.value)
    return of if flag is None else of + settings.flag * settings.flag_factor.get(flag, 1.0)


def standing_of(debt: float, settings: TrustDebt) -> Standing:
    """What follows from it."""
    if debt >= settings.review:
        return Standing.REVIEW
    if debt >= settings.restricted:
        return Standing.RESTRICTED
    return Standing.ELEVATED if debt >= settings.elevated else Standing.NORMAL


def hardened(intervention: Intervention, standing: Standing) -> Intervention:
    """In restricted mode, and while a review is due, what is not ok is one step harder, up to block."""
    if standing in (Standing.NORMAL, Standing.ELEVATED) or not Intervention.OK < intervention < Intervention.BLOCK:
        return intervention
    return Intervention.ESCALATE if intervention is Intervention.NUDGE else Intervention.BLOCK


def add(trust: Trust, amount: float, time_ms: int, settings: TrustDebt) -> float:
    """Adds to the debt; the debt from then on."""
    trust.debt = round(debt_at(trust, time_ms, settings) + amount, PLACES)
    trust.at_ms = max(trust.at_ms, time_ms)
    return trust.debt
