"""Conversions of values of recordings, which are untrusted: a value of another type is None, 0 or empty."""

from datetime import UTC, datetime
from typing import Any

from haltline.schemas.record import EARLIEST_MS, LATEST_MS


def moment(value: object) -> int | None:
    """Return whole epoch milliseconds of an ISO text (UTC without a zone) or of epoch seconds; None: not a time."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            value = (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        time_ms = float(value * 1000)
    except (ValueError, OverflowError):
        return None
    return round(time_ms) if EARLIEST_MS <= time_ms < LATEST_MS - 1 else None


def moment_of_ms(value: object) -> int | None:
    """Return whole epoch milliseconds of epoch milliseconds."""
    return moment(value / 1000) if isinstance(value, int | float) and not isinstance(value, bool) else None


def count(value: object) -> int:
    """Return a number of tokens, also from a float such as 3.0; 0: not a number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return min(value, 2**53) if type(value) is int and value > 0 else 0


def text(value: object) -> str | None:
    """Return the value if it is a text."""
    return value if isinstance(value, str) else None


def id_of(value: object) -> str | None:
    """Return a non-empty text, truncated to the length of an id."""
    return value[:200] if isinstance(value, str) and value else None


def objects(values: object) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def inside(value: object, *names: str) -> Any:
    """Return the value at this path of names, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
