"""What a runaway looks like: one pattern, one file. All of it is pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from haltline.detectors.combining.agreement import Agreement
from haltline.detectors.combining.combination import Combination
from haltline.detectors.combining.correlation import detector_of
from haltline.detectors.cross_session import ACROSS_BY_ID
from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.detectors.drift.goal_drift import GoalDrift
from haltline.detectors.framework.base import Detector, Pattern
from haltline.detectors.framework.plugins import GROUP, NO_PLUGINS, Plugins
from haltline.detectors.framework.settings import construct
from haltline.detectors.review.step_review import StepReview
from haltline.detectors.session.ask_first import AskFirst
from haltline.detectors.session.budget import Budget
from haltline.detectors.session.cycle import Cycle
from haltline.detectors.session.destructive_repeat import DestructiveRepeat
from haltline.detectors.session.destructive_volume import DestructiveVolume
from haltline.detectors.session.duplicate_acts import DuplicateActs
from haltline.detectors.session.environment_gone import EnvironmentGone
from haltline.detectors.session.error_repetition import ErrorRepetition
from haltline.detectors.session.evasion import Evasion
from haltline.detectors.session.fruitless_search import FruitlessSearch
from haltline.detectors.session.fruitless_waits import FruitlessWaits
from haltline.detectors.session.hallucination import Hallucination
from haltline.detectors.session.invented_data import InventedData
from haltline.detectors.session.monologue import Monologue
from haltline.detectors.session.opaque_execution import OpaqueExecution
from haltline.detectors.session.own_release import OwnRelease
from haltline.detectors.session.polling import Polling
from haltline.detectors.session.repetition import Repetition
from haltline.detectors.session.resource_growth import ResourceGrowth
from haltline.detectors.session.scope_creep import ScopeCreep
from haltline.detectors.session.secret_sent import SecretSent
from haltline.detectors.session.severe_destruction import SevereDestruction
from haltline.detectors.session.silent_shell import SilentShell
from haltline.detectors.session.spend_velocity import SpendVelocity
from haltline.detectors.session.stagnation import Stagnation
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.detectors.session.unread_execution import UnreadExecution
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.removed_rules import REMOVED

ALL: tuple[type[Detector[Any]], ...] = (
    AskFirst,
    Budget,
    Cycle,
    DestructiveRepeat,
    DestructiveVolume,
    DuplicateActs,
    EnvironmentGone,
    ErrorRepetition,
    Evasion,
    FruitlessSearch,
    FruitlessWaits,
    GoalDrift,
    Hallucination,
    InventedData,
    Monologue,
    OpaqueExecution,
    OwnRelease,
    Polling,
    Repetition,
    ResourceGrowth,
    ScopeCreep,
    SecretSent,
    SevereDestruction,
    SilentShell,
    SpendVelocity,
    Stagnation,
    StepReview,
    UnreadExecution,
    Combination,  # of what those before it found
    Agreement,
    StagnationCandidate,  # what is only tried adds to no combination
)
"""Every detector, in the order in which they look at an event. One that is not listed does not run."""


BY_ID: Mapping[str, type[Detector[Any]]] = {detector.id: detector for detector in ALL}
"""Every detector by the id that policies know it by."""

PATTERNS: Mapping[str, type[Pattern[Any]]] = {**BY_ID, **ACROSS_BY_ID}
"""All that is built in: what looks at a session, then what looks across sessions."""


def catalogue(policy: Policy, plugins: Plugins = NO_PLUGINS) -> Mapping[str, type[Pattern[Any]]]:
    """What the rules of a policy can be about, in the order in which they look at an event.

    What is built in, detectors of other packages that the policy names, and its correlation rules.

    Raises:
        ValueError: two have one name, or a detector of another package cannot be used.

    """
    for detector_id in plugins.ids:
        if detector_id in PATTERNS:
            raise ValueError(
                f"entry points {GROUP}: expected another name than that of a built-in detector,"
                f" got {detector_id!r} from {plugins.place(detector_id)}"
            )
    named = {name for rules in (policy.rules, *(o.rules for o in policy.overrides)) for name in rules}
    known: dict[str, type[Pattern[Any]]] = dict(PATTERNS)
    known |= {name: plugins.find(name) for name in plugins.ids if name in named}
    for number, correlation in enumerate(policy.correlations):
        if correlation.rule_id in known or correlation.rule_id in plugins.ids:
            raise ValueError(f"correlations.{number}.name: expected each name once, got {correlation.name!r} again")
        known[correlation.rule_id] = detector_of(correlation)
    return known


def build(
    rules: Mapping[str, Rule],
    known: Mapping[str, type[Pattern[Any]]] = PATTERNS,
    plugins: Plugins = NO_PLUGINS,
) -> tuple[Detector[Any], ...]:
    """The enabled detectors that are not idle, set as the rules say; those that are not named have their defaults.

    Raises:
        ValueError: a rule is of no known detector, or a setting is unknown or out of its bounds.

    """
    require_known(rules, known)
    detectors = []
    for detector_id, detector in known.items():
        rule = rules.get(detector_id) or unnamed(detector)
        if rule.enabled and issubclass(detector, Detector):
            made = construct(detector, rule.settings)
            if detector_id in plugins.ids:
                detectors.append(plugins.contain(made))
            elif not made.idle:  # of another package's detector it may be a setting
                detectors.append(made)
    return tuple(detectors)


def build_across(
    rules: Mapping[str, Rule], known: Mapping[str, type[Pattern[Any]]] = PATTERNS
) -> tuple[CrossSessionPattern[Any], ...]:
    """The enabled patterns across sessions, set as the rules say.

    Raises:
        ValueError: as `build`.

    """
    require_known(rules, known)
    of = {name: rules.get(name) or unnamed(pattern) for name, pattern in known.items()}
    return tuple(
        construct(pattern, of[name].settings)
        for name, pattern in known.items()
        if of[name].enabled and issubclass(pattern, CrossSessionPattern)
    )


def unnamed(pattern: type[Pattern[Any]]) -> Rule:
    """The rule of a detector that the policy does not name: its defaults, and off where it is optional."""
    return Rule(enabled=not pattern.optional)


def require_known(rules: Iterable[str], known: Iterable[str] = PATTERNS) -> None:
    """Raises ValueError naming the first rule that is of no known detector, and of none that earlier releases had."""
    for detector_id in rules:
        if detector_id not in known and detector_id not in REMOVED:
            raise ValueError(f"rules.{detector_id}: expected one of {', '.join(known)}, got {detector_id!r}")
