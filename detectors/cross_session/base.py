"""What every pattern across sessions is: settings, a state for each agent, target or tree, and a look at a signal."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from haltline.detectors.framework.base import Pattern, State, settings
from haltline.detectors.framework.window import TIME_MS, Entry
from haltline.schemas.findings import Evidence, Finding
from haltline.schemas.signals import Signal, SignalKind, SignalScope

MAX_EVIDENCE = 32
"""Events that a finding names, the last ones."""

SESSION, WHAT, EVENT_ID, TOPIC, PARTITION, OFFSET = range(1, 7)
"""Where an entry, `[time_ms, session, what, event_id, topic, partition, offset]`, has what."""


@settings
class CrossSessionPattern(Pattern[State]):
    """Looks for one pattern in what several sessions tell.

    Signals come from many partitions: late, in any order between sessions, each at least once; the engine
    passes over those that come again.
    """

    scope: ClassVar[SignalScope]
    """What it looks at: there is one State for each of these."""
    hears: ClassVar[frozenset[SignalKind]]

    @abstractmethod
    def observe(self, state: State, signal: Signal) -> Finding | None:
        """Takes in the next signal; a finding on the one that completes a pattern.

        Changes `state` in place. Never raises for a signal that is older than the last. Reads no clock, does no I/O.
        """


def remembered(signal: Signal, what: str = "") -> Entry:
    """What is remembered of a signal."""
    at = (signal.topic or "", -1 if signal.partition is None else signal.partition, signal.offset or 0)
    return [signal.time, signal.session_id, what, signal.event_id, *at]


def sessions(entries: Iterable[Entry]) -> int:
    """How many different sessions the entries are of."""
    return len({entry[SESSION] for entry in entries})


def went_on(entries: Iterable[Entry], signal: Signal) -> str | None:
    """The session of the latest entry in event time, whatever was heard last; None where it is the signal's."""
    session = str(max(entries, key=lambda e: (int(e[TIME_MS]), e[EVENT_ID] == signal.event_id))[SESSION])
    return None if session == signal.session_id else session


def evidence(entries: Sequence[Entry], last: Entry) -> tuple[Evidence, ...]:
    """The last events of the entries, each once; that of `last` at the end, since it completed the pattern."""
    events = {str(e[EVENT_ID]): e for e in entries if e[EVENT_ID] != last[EVENT_ID]}
    return tuple(_event(entry) for entry in (*list(events.values())[1 - MAX_EVIDENCE :], last))


def _event(entry: Entry) -> Evidence:
    topic, event_id = str(entry[TOPIC]), str(entry[EVENT_ID])
    if not topic:
        return Evidence(event_id=event_id)
    return Evidence(event_id=event_id, topic=topic, partition=int(entry[PARTITION]), offset=int(entry[OFFSET]))
