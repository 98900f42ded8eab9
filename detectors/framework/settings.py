"""The settings of a detector: checked, with the place of what is wrong, and merged when several hold at once."""

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
"""Detectors of which what checks their settings is kept: a policy's own ones come and go with it."""


def construct(detector: type[_P], settings: Mapping[str, Any]) -> _P:
    """A detector with these settings; what is left out has its default.

    Raises:
        ValueError: one is not known, or out of its bounds, or they contradict each other; begins with the place,
            `rules.<id>.settings.<name>`, and says what was expected and what was given.

    """
    try:
        return detector(**settings)
    except ValidationError as error:
        raise ValueError("; ".join(_located(detector, (), problem) for problem in error.errors())) from None


def check(detector: type[Pattern[Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as values of their types, each checked for itself.

    Raises:
        ValueError: as `construct`, but for contradictions.

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
    """`settings`, and of those that are in `others` too the stricter one; where none is stricter, that of `others`.

    Raises:
        ValueError: as `construct` for `settings`, as `check` for `others`.

    """
    in_force = construct(detector, settings)
    merged = dict(settings)
    for name, value in check(detector, others).items():
        merged[name] = stricter(_directions(detector)[name], getattr(in_force, name), value)
    return merged


@lru_cache(maxsize=_CACHED)
def adapters(detector: type[Pattern[Any]]) -> dict[str, TypeAdapter[Any]]:
    """By name: what checks each setting for itself."""
    return {name: TypeAdapter(annotation) for name, annotation in annotations_of(detector).items()}


@lru_cache(maxsize=_CACHED)
def _directions(detector: type[Pattern[Any]]) -> dict[str, Stricter]:
    # One that says nothing has no direction: the contract tests ask each to declare it.
    return {name: direction_of(annotation) or Stricter.NEITHER for name, annotation in annotations_of(detector).items()}


def annotations_of(detector: type[Pattern[Any]]) -> dict[str, Any]:
    """By name: the type of each setting, with its bounds and which way it is stricter."""
    return {field.name: field.type for field in fields(detector)}


def _unknown(detector: type[Pattern[Any]], name: str) -> str:
    known = ", ".join(field.name for field in fields(detector)) or "none, as there are no settings"
    return f"rules.{detector.id}.settings.{name}: expected one of {known}, got {name!r}"


def _located(detector: type[Pattern[Any]], within: tuple[str, ...], problem: Any) -> str:
    """Where in the policy it was, what was expected, and what was received."""
    steps = [*within, *(str(step) for step in problem["loc"] if step != "[key]")]
    if steps and steps[0] not in adapters(detector):
        return _unknown(detector, steps[0])
    place = ".".join(("rules", detector.id, "settings", *steps))
    got = problem["input"].kwargs if isinstance(problem["input"], ArgsKwargs) else problem["input"]
    return f"{place}: expected {_expectation(problem['msg'])}, got {got!r:.120}"


def _expectation(message: str) -> str:
    """What pydantic asks for, as the rest of a sentence that begins with "wanted"."""
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message
