"""Windows that count entries close together: in event time, or in the number of the session's actions.

Entries are lists of plain JSON values, `[time_ms, index, event_id, offset, ...]`, in order of arrival. Event times may
be out of order: a window is any interval of the given length that holds the newest entry, so the order of arrival does
not affect the result.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from haltline.detectors.features.observation import Observation
from haltline.schemas.findings import Evidence

Entry: TypeAlias = list[int | float | str]
"""`[time_ms, index, event_id, offset, ...]`: event time, number of the action, and the event's id and offset."""

TIME_MS, INDEX, EVENT_ID, OFFSET = range(4)


def entry(act: Observation, *more: float | str) -> Entry:
    """Create an entry for an event, with the detector's own values appended."""
    return [act.time_ms, act.index, act.event.event_id, act.offset, *more]


def deed(act: Observation, *more: float | str) -> Entry:
    """Like `entry`, but `index` counts only the session's actions that do more than read."""
    return [act.time_ms, act.calls.deeds + 1, act.event.event_id, act.offset, *more]


def within(entries: Sequence[Entry], span: float, key: int = TIME_MS) -> list[Entry]:
    """The largest set of entries within `span` of each other (inclusive) that holds the newest one.

    Sorted by `key`; of two intervals with equally many entries, the earlier one.
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
    """A rule with a window of time, and one of actions for slow sessions."""

    @property
    def window_s(self) -> float:
        """Length in seconds."""

    @property
    def last_actions(self) -> int:
        """Length in actions."""


def is_near(one: Entry, time_ms: int, index: int, window: Window) -> bool:
    """Return whether an entry is in the same window as this time and action; either window suffices."""
    if abs(time_ms - int(one[TIME_MS])) <= window.window_s * 1000:
        return True
    return abs(index - int(one[INDEX])) < window.last_actions


def seconds(entries: Sequence[Entry]) -> int:
    """Whole seconds from the earliest to the latest entry."""
    times = [int(e[TIME_MS]) for e in entries]
    return round((max(times) - min(times)) / 1000) if times else 0


def evidence(act: Observation, entries: Sequence[Entry]) -> tuple[Evidence, ...]:
    """The entries as evidence, oldest first; the event's own is last, since it completed the pattern."""
    rows = sorted(entries, key=lambda e: (e[EVENT_ID] == act.event.event_id, int(e[TIME_MS])))
    found = dict.fromkeys((str(e[EVENT_ID]), int(e[OFFSET])) for e in rows)
    return tuple(act.evidence_of(event_id, offset) for event_id, offset in found)
