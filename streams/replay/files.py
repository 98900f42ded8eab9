"""A file of events as a source: one partition, in time order, without recorded decisions."""

from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path

from haltline.schemas.topics import Topics
from haltline.streams.replay.records import FrozenRange, LogRecord, Missing, Span
from haltline.streams.replay.traces import read_traces


class FileRange(FrozenRange):
    """The events of a file of JSON lines (ActionEvents, or recorded traces; .gz too). Raises as `read_traces`."""

    def __init__(self, path: Path, topics: Topics) -> None:
        self.name = str(path)
        self.topics = topics
        self.partitions = 1
        sessions = [[event for _, event in session.events] for session in read_traces(path)]
        self._events = list(merge(*sessions, key=lambda event: event.time))
        self.spans = [Span(topics.actions, 0, 0, len(self._events))]

    def within(self, timestamp: int) -> bool:  # noqa: ARG002  # a file has no end
        """Return whether a time is before the end of the range."""
        return True

    def spans_of(self, topic: str) -> list[Span]:
        """Return all of it; a file has actions only."""
        return [span for span in self.spans if span.topic == topic]

    def missing(self, spans: Sequence[Span]) -> Missing:  # noqa: ARG002  # a file has all that it has
        """Return that nothing is known to be missing."""
        return Missing()

    def read(self, spans: Sequence[Span]) -> Iterator[LogRecord]:
        """Yield the events of a part of it, as records of the topic of actions."""
        for span in spans:
            for offset, event in enumerate(self._events[span.start : span.end], span.start):
                key = event.session_id.encode()
                yield LogRecord(self.topics.actions, 0, offset, event.time, key, event.to_json())
