"""Values of recordings, which may hold anything: what is not of the expected kind is none, or nothing."""

from datetime import UTC, datetime
from typing import Any

from haltline.schemas.record import EARLIEST_MS, LATEST_MS


def instant(value: object) -> float | None:
    """Epoch milliseconds of an ISO text (UTC where it names no zone) or of seconds; None for what is no time."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            value = (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        time_ms = float(value * 1000)
    except (ValueError, OverflowError):
        return None
    return time_ms if EARLIEST_MS <= time_ms < LATEST_MS - 1 else None


def moment(value: object) -> int | None:
    """As `instant`, in whole milliseconds."""
    time_ms = instant(value)
    return None if time_ms is None else round(time_ms)


def moment_of_ms(value: object) -> int | None:
    """Of epoch milliseconds."""
    return moment(value / 1000) if isinstance(value, int | float) and not isinstance(value, bool) else None


def count(value: object) -> int:
    """A number of tokens, also where a table has made a float of it; 0 for what is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return min(value, 2**53) if type(value) is int and value > 0 else 0


def text(value: object) -> str | None:
    """The text itself."""
    return value if isinstance(value, str) else None


def id_of(value: object) -> str | None:
    """A text that is not empty, cut where it is long for an id."""
    return value[:200] if isinstance(value, str) and value else None


def objects(values: object) -> list[dict[str, Any]]:
    """Those of a list that are objects."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def inside(value: object, *names: str) -> Any:
    """What lies at this path of names, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
