"""Which way a setting is stricter: said where the setting is, so that nothing has to be guessed when settings meet."""

from enum import Enum
from typing import Any, get_args


class Stricter(Enum):
    """What of two values of one setting finds more. Stands in the annotation of the setting, or of its items."""

    LOWER = "lower"
    """The lower one, item by item; of limits, one is stricter than none."""
    HIGHER = "higher"
    """The higher one, item by item."""
    MORE = "more"
    """Both together, such as two lists of what must not be touched."""
    NEITHER = "neither"
    """There is no such direction: the last one that is said holds."""


def direction_of(annotation: Any) -> Stricter | None:
    """What the annotation of a setting declares; None when it declares nothing."""
    if isinstance(annotation, Stricter):
        return annotation
    inside = (direction_of(part) for part in (*getattr(annotation, "__metadata__", ()), *get_args(annotation)))
    return next((found for found in inside if found is not None), None)


def stricter(direction: Stricter, one: Any, other: Any) -> Any:
    """The stricter of two values of a setting, both of its type; `other` was said later."""
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
