"""The thresholds of rules of judgement that a calibration tries: as they are set, and looser in steps. Pure."""

from collections.abc import Callable
from math import ceil
from typing import Any, Final

from haltline.detectors import BY_ID, unnamed
from haltline.detectors.framework.base import Detector
from haltline.detectors.framework.settings import annotations_of, check, construct, restrict
from haltline.detectors.framework.strictness import Stricter, direction_of
from haltline.interventions.levels.default_levels import JUDGEMENT, default_mode
from haltline.schemas.decisions import Mode
from haltline.schemas.policy import Policy, Rule

_FACTORS: Final = ((1.25, False), (1.5, False), (2.0, False), (3.0, False), (3.0, True))
"""By how much the thresholds of each step are looser, and whether those of hints are too."""
_NOT_OF_STOPS: Final = frozenset(
    {"medium", "high", "fast_medium", "fast_high", "hint_at", "firm_at", "hint_steps", "pause_steps", "least_steps"}
)
"""Settings that lead to hints, or that another one decides with: they are moved in the last step only."""


def calibrated_rules(policy: Policy) -> list[str]:
    """The rules of judgement that may stop a session, were it not for `judgement` of the policy."""
    found = []
    for name in sorted(JUDGEMENT & BY_ID.keys()):
        rule = policy.rules.get(name) or unnamed(BY_ID[name])
        mode = rule.mode if "mode" in rule.model_fields_set else default_mode(name)
        if rule.enabled and mode is Mode.ENFORCE:
            found.append(name)
    return found


def settings_of(policy: Policy, rule: str) -> tuple[list[dict[str, Any]], int]:
    """The settings of a rule in each step, from the strictest, and the number of the step that the policy has.

    The first is as shipped where the policy has looser thresholds: an earlier calibration may have set them.
    """
    detector = BY_ID[rule]
    given = policy.rules.get(rule, Rule()).settings
    shipped = thresholds_of(rule, {})
    steps = [dict(given)]
    for factor, hints in _FACTORS:
        settings = dict(steps[-1])  # a value that cannot be looser stays as it was
        for name, value in thresholds_of(rule, given).items():
            if name in _NOT_OF_STOPS and not hints:
                continue
            looser = _looser(value, factor, hints=hints)
            if _passes(check, rule, {name: looser}):
                settings[name] = looser
        if settings not in steps and _passes(construct, rule, settings):
            steps.append(settings)
    strictest = restrict(detector, given, shipped)
    if thresholds_of(rule, strictest) == thresholds_of(rule, given):
        return steps, 0
    return [strictest, *steps], 1


def thresholds_of(rule: str, settings: dict[str, Any]) -> dict[str, Any]:
    """By name: the rule's settings of which a lower value is stricter, as they hold."""
    detector = construct(BY_ID[rule], settings)
    return {
        name: getattr(detector, name)
        for name, annotation in annotations_of(BY_ID[rule]).items()
        if direction_of(annotation) is Stricter.LOWER and isinstance(getattr(detector, name), (int, float, tuple))
    }


def _looser(value: Any, factor: float, *, hints: bool) -> Any:
    """Of several, which are those of a hint, a firm word and a stop, the last or all."""
    if not isinstance(value, tuple):
        return _raised(value, factor)
    last = len(value) - 1
    return tuple(_raised(one, factor) if hints or n == last else one for n, one in enumerate(value))


def _raised(value: float, factor: float) -> float:
    """Return a value raised by a factor, negative ones too; an integer by at least one."""
    raised = value * factor if value >= 0 else value / factor
    return max(value + 1, ceil(raised)) if isinstance(value, int) else round(raised, 6)


def _passes(test: Callable[[type[Detector[Any]], dict[str, Any]], object], rule: str, settings: dict[str, Any]) -> bool:
    try:
        test(BY_ID[rule], settings)
    except ValueError:
        return False
    return True
