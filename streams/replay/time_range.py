"""The ends of a range: a time, or an offset of each partition. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

_BACK: Final = re.compile(r"-(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_OFFSETS: Final = re.compile(r"\d+:\d+(,\d+:\d+)*")
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1000)
_FORMS: Final = "a time (2026-11-20T10:00:00Z), how long ago (-90m), or offsets of partitions (0:1200,1:1187)"


class BadMoment(ValueError):
    """A text is not a valid end of a range."""


@dataclass(frozen=True)
class Moment:
    """One end of a range: a time, or offsets of the topic of actions; neither: unbounded."""

    time_ms: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)


OPEN: Final = Moment()


def parse_range(since: str, until: str, now_ms: int) -> tuple[Moment, Moment]:
    """Return both ends.

    Raises:
        BadMoment: one of them is invalid, or the end is not after the beginning.

    """
    start, end = parse_moment(since, now_ms), parse_moment(until, now_ms)
    backwards = start.time_ms is not None and end.time_ms is not None and start.time_ms >= end.time_ms
    if backwards or any(start.offsets.get(number, -1) >= last for number, last in end.offsets.items()):
        raise BadMoment(f"--from {since}: expected a moment before --to, got --to {until}")
    return start, end


def parse_moment(text: str, now_ms: int) -> Moment:
    """Return the end given by a text; a time without a zone is in UTC.

    Raises:
        BadMoment: the text is invalid.

    """
    if not text:
        return OPEN
    if _OFFSETS.fullmatch(text):
        pairs = (pair.split(":") for pair in text.split(","))
        return Moment(offsets={int(partition): int(offset) for partition, offset in pairs})
    back = _BACK.fullmatch(text)
    if back is not None and any(back.groups()):
        ago = sum(float(part) * unit for part, unit in zip(back.groups(), _UNITS_MS, strict=True) if part)
        return Moment(now_ms - round(ago))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadMoment(f"{text!r}: expected {_FORMS}") from None
    return Moment(round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000))
