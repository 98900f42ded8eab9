"""Validation of a detector's settings, with the place of each error, and the merge of settings of several policies."""

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs

from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.strictness import Stricter, direction_of, stricter

_P = TypeVar("_P", bound=Pattern[Any])
_CACHED = 1024
"""Size of the caches by detector class; the classes of a policy's own rules come and go with it."""


def construct(detector: type[_P], settings: Mapping[str, Any]) -> _P:
    """Construct a detector with these settings; omitted ones have their defaults.

    Raises:
        ValueError: a setting is unknown or out of bounds, or settings contradict each other; begins with the place,
            `rules.<id>.settings.<name>`, and says what was expected and what was received.

    """
    try:
        return detector(**settings)
    except ValidationError as error:
        raise ValueError("; ".join(_located(detector, (), problem) for problem in error.errors())) from None


def check(detector: type[Pattern[Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the settings to their types, each validated on its own.

    Raises:
        ValueError: as for `construct`, except contradictions.

    """
    checked = {}
    known = adapters(detector)
    for name, value in settings.items():
        if name not in known:
            raise ValueError(_unknown(detector, name))
        try:
            checked[name] = known[name].validate_python(value)
        except ValidationError as error:
            raise ValueError("; ".join(_located(detector, (name,), problem) for problem in error.errors())) from None
    return checked


def restrict(detector: type[Pattern[Any]], settings: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `others` into `settings`: the stricter value of each; where neither is stricter, that of `others`.

    Raises:
        ValueError: as for `construct` for `settings`, as for `check` for `others`.

    """
    in_force = construct(detector, settings)
    merged = dict(settings)
    for name, value in check(detector, others).items():
        merged[name] = stricter(_directions(detector)[name], getattr(in_force, name), value)
    return merged


@lru_cache(maxsize=_CACHED)
def adapters(detector: type[Pattern[Any]]) -> dict[str, TypeAdapter[Any]]:
    """By name: the validator of each single setting."""
    return {name: TypeAdapter(annotation) for name, annotation in annotations_of(detector).items()}


@lru_cache(maxsize=_CACHED)
def _directions(detector: type[Pattern[Any]]) -> dict[str, Stricter]:
    # A setting without an annotation has no direction; the contract tests require one for each.
    return {name: direction_of(annotation) or Stricter.NEITHER for name, annotation in annotations_of(detector).items()}


def annotations_of(detector: type[Pattern[Any]]) -> dict[str, Any]:
    """By name: the type annotation of each setting, with its bounds and its stricter direction."""
    return {field.name: field.type for field in fields(detector)}


def _unknown(detector: type[Pattern[Any]], name: str) -> str:
    known = ", ".join(field.name for field in fields(detector)) or "none, as there are no settings"
    return f"rules.{detector.id}.settings.{name}: expected one of {known}, got {name!r}"


def _located(detector: type[Pattern[Any]], within: tuple[str, ...], problem: Any) -> str:
    """Format an error: the place in the policy, what was expected, and what was received."""
    steps = [*within, *(str(step) for step in problem["loc"] if step != "[key]")]
    if steps and steps[0] not in adapters(detector):
        return _unknown(detector, steps[0])
    place = ".".join(("rules", detector.id, "settings", *steps))
    got = problem["input"].kwargs if isinstance(problem["input"], ArgsKwargs) else problem["input"]
    return f"{place}: expected {_expectation(problem['msg'])}, got {got!r:.120}"


def _expectation(message: str) -> str:
    """The expectation in pydantic's message, to follow the word "expected"."""
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message
