"""The ends of a range, as texts: a time, how long ago, or offsets of partitions. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from haltline.schemas import expressions as re

_BACK: Final = re.compile(r"\A-(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_OFFSETS: Final = re.compile(r"\A\d+:\d+(,\d+:\d+)*")
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1000)


End = int | Mapping[int, int] | None
"""One end of a range: epoch milliseconds, or offsets of the topic of actions by partition; None: unbounded."""


class BadMoment(ValueError):
    """A text is not a valid end of a range."""


def parse_range(since: str, until: str, now_ms: int) -> tuple[End, End]:
    """Return both ends; offsets as `0:1200,1:1187`.

    Raises:
        BadMoment: one of them is invalid, or the end is not after the beginning.

    """
    start, end = (_offsets(text) or parse_moment(text, now_ms) for text in (since, until))
    if isinstance(start, Mapping) and isinstance(end, Mapping):
        backwards = any(start.get(partition, -1) >= last for partition, last in end.items())
    else:
        backwards = isinstance(start, int) and isinstance(end, int) and start >= end
    if backwards:
        raise BadMoment(f"--from {since}: expected a moment before --to, got --to {until}")
    return start, end


def _offsets(text: str) -> Mapping[int, int] | None:
    if not _OFFSETS.fullmatch(text):
        return None
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


def parse_moment(text: str, now_ms: int) -> int | None:
    """Return the time in epoch milliseconds; without a zone it is in UTC. None for an empty text.

    Raises:
        BadMoment: the text is invalid.

    """
    if not text:
        return None
    back = _BACK.fullmatch(text)
    if back is not None and any(back.groups()):
        ago = sum(float(part) * unit for part, unit in zip(back.groups(), _UNITS_MS, strict=True) if part)
        return now_ms - round(ago)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadMoment(f"{text!r}: expected a time (2026-11-20T10:00:00Z) or how long ago (-90m)") from None
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
