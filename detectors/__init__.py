"""What a runaway looks like: one pattern, one file. All of it is pure."""

from dataclasses import fields
from typing import Any

from pydantic import ValidationError
from pydantic_core import ArgsKwargs

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
from haltline.detectors.severe_destruction import SevereDestruction
from haltline.detectors.spend_velocity import SpendVelocity
from haltline.detectors.verify_mismatch import VerifyMismatch
from haltline.schemas.policy import Override, Policy

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
    VerifyMismatch,
)
"""Every detector, in the order in which they look at an event. One that is not listed does not run."""


def build(policy: Policy, overrides: tuple[Override, ...] = ()) -> tuple[Detector[Any], ...]:
    """The enabled detectors as a policy sets them, under the overrides that hold for a session.

    Raises:
        ValueError: a rule is of no known detector, or a setting is unknown or out of its bounds.

    """
    known = [detector.id for detector in ALL]
    for rules in (policy.rules, *(override.rules for override in policy.overrides)):
        for detector_id in rules:
            if detector_id not in known:
                raise ValueError(f"rules.{detector_id}: wanted one of {', '.join(known)}, got {detector_id!r}")
    rules_of = ((detector, policy.rule(detector.id, overrides)) for detector in ALL)
    return tuple(_construct(detector, rule.settings) for detector, rule in rules_of if rule.enabled)


def _construct(detector: type[Detector[Any]], settings: dict[str, Any]) -> Detector[Any]:
    try:
        return detector(**settings)
    except ValidationError as error:
        raise ValueError("; ".join(_located(detector, problem) for problem in error.errors())) from None


def _located(detector: type[Detector[Any]], problem: Any) -> str:
    """Where in the policy it was, what was wanted, and what came."""
    steps = [str(step) for step in problem["loc"] if step != "[key]"]
    place = ".".join(("rules", detector.id, "settings", *steps))
    known = [field.name for field in fields(detector)]
    if steps and steps[0] not in known:
        return f"{place}: wanted one of {', '.join(known)}, got {steps[0]!r}"
    came = problem["input"].kwargs if isinstance(problem["input"], ArgsKwargs) else problem["input"]
    return f"{place}: wanted {_wanted(problem['msg'])}, got {came!r:.120}"


def _wanted(message: str) -> str:
    """What pydantic asks for, as the rest of a sentence that begins with "wanted"."""
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message
