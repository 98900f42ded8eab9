"""Base class of the patterns across sessions: settings, a state per agent, target or tree, and a signal to observe."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from haltline.detectors.framework.base import Pattern, State, settings
from haltline.detectors.framework.window import TIME_MS, Entry
from haltline.schemas.findings import Evidence, Finding
from haltline.schemas.signals import Signal, SignalKind, SignalScope

MAX_EVIDENCE = 32
"""Maximum number of events in a finding's evidence, the last ones."""

SESSION, WHAT, EVENT_ID, TOPIC, PARTITION, OFFSET = range(1, 7)
"""Positions in an entry, `[time_ms, session, what, event_id, topic, partition, offset]`."""


@settings
class CrossSessionPattern(Pattern[State]):
    """Looks for one pattern in the signals of several sessions.

    Signals come from many partitions, at least once each: late, and in any order between sessions. The engine drops
    duplicates.
    """

    scope: ClassVar[SignalScope]
    """The scope of a State: there is one per agent, target, tree and so on."""
    consumes: ClassVar[frozenset[SignalKind]]

    @abstractmethod
    def observe(self, state: State, signal: Signal) -> Finding | None:
        """Process the next signal; return a finding if it completes a pattern.

        Changes `state` in place. Must not raise for a signal older than the last. Reads no clock, does no I/O.
        """

    def is_over(self, state: State) -> bool:  # noqa: ARG002 - the argument is for those that end
        """Return whether what a finding has restricted ends by itself; by default an operator lifts it."""
        return False


def remembered(signal: Signal, what: str = "") -> Entry:
    """The entry of a signal."""
    at = (signal.topic or "", -1 if signal.partition is None else signal.partition, signal.offset or 0)
    return [signal.time, signal.session_id, what, signal.event_id, *at]


def sessions(entries: Iterable[Entry]) -> int:
    """The number of different sessions in the entries."""
    return len({entry[SESSION] for entry in entries})


def went_on(entries: Iterable[Entry], signal: Signal) -> str | None:
    """The session of the latest entry by event time, whatever the order of arrival; None if it is the signal's own."""
    session = str(max(entries, key=lambda e: (int(e[TIME_MS]), e[EVENT_ID] == signal.event_id))[SESSION])
    return None if session == signal.session_id else session


def evidence(entries: Sequence[Entry], last: Entry) -> tuple[Evidence, ...]:
    """The last events of the entries, each once; that of `last` is at the end, since it completed the pattern."""
    events = {str(e[EVENT_ID]): e for e in entries if e[EVENT_ID] != last[EVENT_ID]}
    return tuple(_event(entry) for entry in (*list(events.values())[1 - MAX_EVIDENCE :], last))


def _event(entry: Entry) -> Evidence:
    topic, event_id = str(entry[TOPIC]), str(entry[EVENT_ID])
    if not topic:
        return Evidence(event_id=event_id)
    return Evidence(event_id=event_id, topic=topic, partition=int(entry[PARTITION]), offset=int(entry[OFFSET]))
