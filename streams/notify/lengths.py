"""Durations in documents: 90s, 15m, 1h30m. Pure."""

from datetime import timedelta
from typing import Final

from haltline.schemas import expressions as re

_PART: Final = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)(d|h|m|s)")
_UNIT: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def length_of_time(value: object) -> timedelta:
    """Return the duration of a text such as `1h30m`. Raises ValueError."""
    if isinstance(value, timedelta):
        return value
    parts = _PART.findall(value) if isinstance(value, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"expected a length of time such as 90s, 30m or 1h30m, got {value!r:.40}")
    try:
        return sum((timedelta(**{_UNIT[unit]: float(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"expected at most 30d, got {value!r:.40}") from None
