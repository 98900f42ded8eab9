"""Counting what lies close together: in event time, or in the session's own actions.

Entries are lists of plain JSON values, `[time_ms, index, event_id, offset, ...]`, in the
order in which they came. Event times need not come in order: a window is any stretch of
the given length that holds the newest entry, so the order of arrival does not decide.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from haltline.detectors.features.observation import Observation
from haltline.schemas.findings import Evidence

Entry: TypeAlias = list[int | float | str]
"""`[time_ms, index, event_id, offset, ...]`: when, the how manieth action it was, and where to find it."""

TIME_MS, INDEX, EVENT_ID, OFFSET = range(4)


def entry(act: Observation, *more: float | str) -> Entry:
    """An entry for the act, with values of the detector's own behind the common ones."""
    return [act.time_ms, act.index, act.event.event_id, act.offset, *more]


def deed(act: Observation, *more: float | str) -> Entry:
    """As `entry`, by the count of the session's actions that do more than look: reads in between make no distance."""
    return [act.time_ms, act.calls.deeds + 1, act.event.event_id, act.offset, *more]


def within(entries: Sequence[Entry], span: float, key: int = TIME_MS) -> list[Entry]:
    """The most entries that lie within `span` of each other (exactly `span` apart counts) and hold the newest one.

    The result is in the order of `key`; of two stretches with equally many, the earlier one.
    """
    if not entries:
        return []
    newest = int(entries[-1][key])
    near = sorted((e for e in entries if abs(int(e[key]) - newest) <= span), key=lambda e: int(e[key]))
    best: list[Entry] = []
    first = 0
    for last, end in enumerate(near):
        while int(end[key]) - int(near[first][key]) > span:
            first += 1
        if int(near[first][key]) <= newest <= int(end[key]) and last - first >= len(best):
            best = near[first : last + 1]
    return best


class Window(Protocol):
    """A rule with a window of time, and one of actions for sessions that are slow."""

    @property
    def window_s(self) -> float:
        """Seconds."""

    @property
    def last_actions(self) -> int:
        """Actions."""


def is_near(one: Entry, time_ms: int, index: int, window: Window) -> bool:
    """Whether an entry counts together with one of this moment and action: by either window."""
    if abs(time_ms - int(one[TIME_MS])) <= window.window_s * 1000:
        return True
    return abs(index - int(one[INDEX])) < window.last_actions


def seconds(entries: Sequence[Entry]) -> int:
    """Whole seconds from the earliest to the latest."""
    times = [int(e[TIME_MS]) for e in entries]
    return round((max(times) - min(times)) / 1000) if times else 0


def evidence(act: Observation, entries: Sequence[Entry]) -> tuple[Evidence, ...]:
    """The entries as evidence, oldest first; the act's own event last, since it completed the pattern."""
    rows = sorted(entries, key=lambda e: (e[EVENT_ID] == act.event.event_id, int(e[TIME_MS])))
    found = dict.fromkeys((str(e[EVENT_ID]), int(e[OFFSET])) for e in rows)
    return tuple(act.evidence_of(event_id, offset) for event_id, offset in found)
