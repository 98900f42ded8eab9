"""The direction in which a setting is stricter, declared in its annotation and used when settings are merged."""

from enum import Enum
from typing import Any, get_args


class Stricter(Enum):
    """How to find the stricter of two values of a setting. Part of the annotation of the setting, or of its items."""

    LOWER = "lower"
    """The lower value, item by item; a limit is stricter than no limit."""
    HIGHER = "higher"
    """The higher value, item by item."""
    MORE = "more"
    """Both values together, such as two lists of protected paths."""
    NEITHER = "neither"
    """No direction: the later value applies."""


def direction_of(annotation: Any) -> Stricter | None:
    """The direction declared in a setting's annotation; None without one."""
    if isinstance(annotation, Stricter):
        return annotation
    inside = (direction_of(part) for part in (*getattr(annotation, "__metadata__", ()), *get_args(annotation)))
    return next((found for found in inside if found is not None), None)


def stricter(direction: Stricter, one: Any, other: Any) -> Any:
    """The stricter of two values of a setting, both of its type; `other` is the later one."""
    if direction is Stricter.NEITHER or one is None:
        return other
    if other is None:
        return one
    if isinstance(one, dict):
        return one | {key: stricter(direction, one.get(key), value) for key, value in other.items()}
    if direction is Stricter.MORE:
        return (*one, *(item for item in other if item not in one))
    if isinstance(one, tuple):
        return tuple(stricter(direction, *pair) for pair in zip(one, other, strict=True))
    return min(one, other) if direction is Stricter.LOWER else max(one, other)
