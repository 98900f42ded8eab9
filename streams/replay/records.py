"""Log records, and the fixed order in which several partitions are read. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final, NamedTuple, Protocol

import orjson

from haltline.schemas import wire
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.events import Kind
from haltline.schemas.topics import LAYOUT, Topics
from haltline.streams.kafka.log_record import LogRecord as LogRecord  # noqa: PLC0414  # importers of this module's ranges read records, too
from haltline.streams.replay.time_range import End


@dataclass(frozen=True, slots=True)
class Span:
    """A part of one partition, frozen before it is read: from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of its offsets; compaction may have left fewer records."""
        return max(0, self.end - self.start)


class Missing(NamedTuple):
    """The numbers of records in a range that its source no longer has."""

    erased: int = 0
    """Records whose content was erased."""
    lost: int = 0
    """Records that the broker deleted before the audit read them."""

    def __str__(self) -> str:
        """`12 whose content was erased, 3 that were lost before the audit read them`; empty if there are none."""
        what = ("whose content was erased", "that were lost before the audit read them")
        return ", ".join(f"{count} {how}" for count, how in zip(self, what, strict=True) if count)


class Source(Protocol):
    """A recorded part of a log; both ends are known before anything is read."""

    name: str
    """A human-readable name."""
    topics: Topics
    """The topics of its records."""
    partitions: int
    """The number of partitions of each topic."""

    @property
    def spans(self) -> Sequence[Span]:
        """The parts of the topics that a worker reads."""

    def within(self, timestamp: int) -> bool:
        """Return whether a time is before the end of the range."""

    def inputs(self) -> Iterable[LogRecord]:
        """Yield what a worker read, in the order of `in_order`."""

    def decided(self) -> Iterable[LogRecord]:
        """Yield what workers wrote to the topic of interventions, from the beginning of the range up to now."""

    def policies(self) -> Iterable[LogRecord]:
        """Yield the known records of the topic of policies, in the order of its partitions."""


class FrozenRange(ABC):
    """The common part of a range of a running Kafka and one of the audit table. All of it is frozen before reading."""

    name: str
    topics: Topics
    partitions: int
    spans: Sequence[Span]

    def _freeze_all(self, start: End, end: End, end_ms: int | None) -> None:
        """Freeze the inputs between two ends, outputs from the first up to now, and all policies.

        `end_ms` is the time of the end; None: unbounded.
        """
        topics, self._end_ms = self.topics, end_ms
        self.spans = [span for topic in topics.session_sources for span in self.freeze(topic, start, end)]
        self._decided = list(self.freeze(topics.interventions, start))
        self._letters = list(self.freeze(topics.dead_letter, start))
        self._policies = list(self.freeze(topics.policies))

    @abstractmethod
    def freeze(self, topic: str, start: End = None, end: End = None) -> Iterator[Span]:
        """Yield the parts of a topic's partitions between two ends: of a time, the first offsets that are not older."""

    @abstractmethod
    def read(self, spans: Sequence[Span]) -> Iterator[LogRecord]:
        """Yield the records of frozen parts of partitions, in the order of `in_order`."""

    def missing(self, spans: Sequence[Span]) -> Missing:  # noqa: ARG002  # of a running Kafka, reading would raise
        """Return the numbers of records in frozen parts of partitions that cannot be read."""
        return Missing()

    def within(self, timestamp: int) -> bool:
        """Return whether a time is before the end of the range."""
        return self._end_ms is None or timestamp < self._end_ms

    def inputs(self) -> Iterator[LogRecord]:
        """Yield what a worker read, in the order of `in_order`, without what ended workers: it would end a replay."""
        ended = set(map(_ended_worker, self.read(self._letters)))
        for record in self.read(self.spans):
            if (record.topic, record.partition, record.offset, record.timestamp) not in ended:
                yield record

    def decided(self) -> Iterator[LogRecord]:
        """Yield what workers wrote to the topic of interventions."""
        return self.read(self._decided)

    def policies(self) -> Iterator[LogRecord]:
        """Yield the documents of the topic of policies."""
        return self.read(self._policies)


def _ended_worker(record: LogRecord) -> tuple[str, int, int, int] | None:
    """Return place and time of the record that a dead letter reports to have ended workers."""
    try:
        letter = DeadLetter.from_record(record.key, record.value, record.headers)
    except (KeyError, ValueError):  # of another program, or a later release
        return None
    is_it = letter.reason is BadRecord.ENDED_WORKER
    return (letter.topic, letter.partition, letter.offset, letter.timestamp_ms) if is_it else None


_RANK: Final = {layout.name: rank for rank, layout in enumerate(LAYOUT)}


def in_order(streams: Iterable[Iterable[LogRecord]], topics: Topics) -> Iterator[LogRecord]:
    """Merge partitions into one stream: each in offset order, between them by time.

    Records of the same millisecond are in the order of the layout (actions before their answers), then of their
    partitions, so that the order is always the same.
    """
    ranks = {topics.prefix + name: rank for name, rank in _RANK.items()}

    def place(record: LogRecord) -> tuple[int, int, int]:
        return record.timestamp, ranks.get(record.topic, len(ranks)), record.partition

    return merge(*streams, key=place)


class Cause(NamedTuple):
    """A possible cause of a decision."""

    id: str | None
    """The id by which the decision names it; None: the record has none."""
    begins: bool = True
    """Whether nothing precedes it in its session, as far as an event shows."""


def cause_of(record: LogRecord, topics: Topics) -> Cause:
    """Return the cause in a record."""
    try:
        if record.topic == topics.actions:
            event = wire.decode_event(record.value, record.headers)
            return Cause(event.event_id, event.kind is Kind.SESSION_STARTED or not event.seq)
        fields = orjson.loads(record.value or b"null")
    except (wire.InvalidRecord, orjson.JSONDecodeError):
        return Cause(None)
    name = "command_id" if record.topic == topics.commands else "event_id"
    found = fields.get(name) if isinstance(fields, dict) else None
    return Cause(found if isinstance(found, str) else None)
