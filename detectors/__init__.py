"""What a runaway looks like: one pattern, one file. All of it is pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from haltline.detectors.base import Detector
from haltline.detectors.budget import Budget
from haltline.detectors.context_thrash import ContextThrash
from haltline.detectors.cycle import Cycle
from haltline.detectors.destructive_repeat import DestructiveRepeat
from haltline.detectors.destructive_volume import DestructiveVolume
from haltline.detectors.environment_gone import EnvironmentGone
from haltline.detectors.error_repetition import ErrorRepetition
from haltline.detectors.evasion import Evasion
from haltline.detectors.exploration_wandering import ExplorationWandering
from haltline.detectors.goal_drift import GoalDrift
from haltline.detectors.hallucination import Hallucination
from haltline.detectors.monologue import Monologue
from haltline.detectors.polling import Polling
from haltline.detectors.repetition import Repetition
from haltline.detectors.resource_growth import ResourceGrowth
from haltline.detectors.retry_storm import RetryStorm
from haltline.detectors.scope_creep import ScopeCreep
from haltline.detectors.settings import construct
from haltline.detectors.severe_destruction import SevereDestruction
from haltline.detectors.spend_velocity import SpendVelocity
from haltline.detectors.step_review import StepReview
from haltline.detectors.verify_mismatch import VerifyMismatch
from haltline.schemas.policy import Rule

ALL: tuple[type[Detector[Any]], ...] = (
    Budget,
    ContextThrash,
    Cycle,
    DestructiveRepeat,
    DestructiveVolume,
    EnvironmentGone,
    ErrorRepetition,
    Evasion,
    ExplorationWandering,
    GoalDrift,
    Hallucination,
    Monologue,
    Polling,
    Repetition,
    ResourceGrowth,
    RetryStorm,
    ScopeCreep,
    SevereDestruction,
    SpendVelocity,
    StepReview,
    VerifyMismatch,
)
"""Every detector, in the order in which they look at an event. One that is not listed does not run."""


BY_ID: Mapping[str, type[Detector[Any]]] = {detector.id: detector for detector in ALL}
"""Every detector by the id that policies know it by."""


def build(rules: Mapping[str, Rule]) -> tuple[Detector[Any], ...]:
    """The enabled detectors, set as the rules say; those that are not named have their defaults.

    Raises:
        ValueError: a rule is of no known detector, or a setting is unknown or out of its bounds.

    """
    require_known(rules)
    rules_of = ((detector, rules.get(detector.id, Rule())) for detector in ALL)
    return tuple(construct(detector, rule.settings) for detector, rule in rules_of if rule.enabled)


def require_known(rules: Iterable[str]) -> None:
    """Raises ValueError naming the first rule that is of no known detector."""
    for detector_id in rules:
        if detector_id not in BY_ID:
            raise ValueError(f"rules.{detector_id}: wanted one of {', '.join(BY_ID)}, got {detector_id!r}")
