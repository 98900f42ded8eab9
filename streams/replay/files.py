"""A file of events as a source: one partition, in time order, without recorded decisions."""

from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path

from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core
from haltline.streams.replay.live_play import LivePlay
from haltline.streams.replay.records import FrozenRange, LogRecord, Span
from haltline.streams.replay.time_range import End
from haltline.streams.replay.traces import read_traces


class FileRange(FrozenRange):
    """The events of a file of JSON lines (ActionEvents, or recorded traces; .gz too). Raises as `read_traces`."""

    def __init__(self, path: Path, topics: Topics) -> None:
        self.name = str(path)
        self.topics = topics
        self.partitions = 1
        sessions = [[event for _, event in session.events] for session in read_traces(path)]
        self._events = list(merge(*sessions, key=lambda event: event.time))
        self._freeze_all(None, None, None)

    def play(self, core: Core) -> None:
        """Let happen only what guards would have let happen under the core's policy: nothing of it was decided on."""
        events, self._events = self._events, []
        play = LivePlay(core, self._events.append)
        for event in events:
            play.event(event)
        self._freeze_all(None, None, None)

    def freeze(self, topic: str, start: End = None, end: End = None) -> Iterator[Span]:  # noqa: ARG002  # no ends
        """Yield all of it; a file has actions only."""
        if topic == self.topics.actions:
            yield Span(topic, 0, 0, len(self._events))

    def read(self, spans: Sequence[Span]) -> Iterator[LogRecord]:
        """Yield the events of a part of it, as records of the topic of actions."""
        for span in spans:
            for offset, event in enumerate(self._events[span.start : span.end], span.start):
                key = event.session_id.encode()
                yield LogRecord(self.topics.actions, 0, offset, event.time, key, event.to_json())
