"""Hours of the week in a time zone: whether a time is within them, and when they end. Pure."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")
_MAX_TURNS: Final = 64
"""The most consecutive hours: more than a week of them never end."""


def _clock_time(text: str) -> str:
    if not _TIME.fullmatch(text):
        raise ValueError(f"expected a time of day from 00:00 to 24:00, got {text!r:.40}")
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ValueError(f"expected a time zone such as Europe/Berlin or UTC, got {name!r:.80}") from None
    return name


ClockTime = Annotated[str, AfterValidator(_clock_time)]
Zone = Annotated[str, AfterValidator(_zone)]


class Hours(BaseModel):
    """Hours between two times of day on some days. If `to` is not after `from`, they end on the next day."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    days: Annotated[tuple[Day, ...], Field(min_length=1)] = DAYS
    """The days on which they start."""
    begin: Annotated[ClockTime, Field(alias="from")] = "00:00"
    end: Annotated[ClockTime, Field(alias="to")] = "24:00"
    time_zone: Zone = "UTC"

    @cached_property
    def _span(self) -> tuple[int, int]:
        return _minutes(self.begin), _minutes(self.end)

    def ends(self, at_ms: int) -> int | None:
        """Return when the hours around a time end, in epoch milliseconds; None: it is outside."""
        zone = ZoneInfo(self.time_zone)
        local = datetime.fromtimestamp(at_ms / 1000, zone)
        begin, end = self._span
        minute = local.hour * 60 + local.minute
        overnight = end <= begin
        if DAYS[local.weekday()] in self.days and minute >= begin and (overnight or minute < end):
            later = 1 if overnight else 0
        elif overnight and DAYS[local.weekday() - 1] in self.days and minute < end:
            later = 0
        else:
            return None
        midnight = datetime(local.year, local.month, local.day) + timedelta(days=later, minutes=end)  # noqa: DTZ001  # wall clock
        moment = midnight.replace(tzinfo=zone)
        # When clocks go back, a time of day occurs twice: the first may be over.
        for one in (moment, moment.replace(fold=1)):
            if (ends_ms := round(one.astimezone(UTC).timestamp() * 1000)) > at_ms:
                return ends_ms
        return at_ms + 1


def within(hours: Sequence[Hours], at_ms: int) -> bool:
    """Return whether a time is in any of the hours."""
    return any(one.ends(at_ms) is not None for one in hours)


def over_at(hours: Sequence[Hours], at_ms: int) -> int:
    """Return the first time from `at_ms` on that is in none of the hours.

    Raises ValueError if they never end.
    """
    moment = at_ms
    for _ in range(_MAX_TURNS):
        ends = [end for one in hours if (end := one.ends(moment)) is not None]
        if not ends:
            return moment
        moment = max(ends)
    raise ValueError("expected hours that end, got every hour of the week")


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
