"""Records as they stood in the log, and the one order in which several partitions are read. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from heapq import merge
from typing import Any, Final, NamedTuple, Protocol

import orjson

from haltline.schemas import wire
from haltline.schemas.events import Kind
from haltline.schemas.topics import LAYOUT, Topics
from haltline.streams.audit.reading import KafkaRecord


class LogRecord(NamedTuple):
    """A record of the log, as the worker takes it (`RawRecord`)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Epoch milliseconds, as the record itself says; 0 where it says none."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    """All that it had, also those without a value, which say nothing to the worker."""

    @classmethod
    def of(cls, record: KafkaRecord) -> "LogRecord":
        """The same record."""
        return cls(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms or 0,
            record.key,
            record.value,
            record.headers,
        )


def passing(topics: Topics, partition: int, timestamp: int) -> LogRecord:
    """Stands for a record of actions of another session, of which only the time is known."""
    return LogRecord(topics.actions, partition, -1, timestamp, None, None)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of one partition, frozen before it is read: from `start`, up to and without `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many offsets it has; compaction may have left fewer records."""
        return max(0, self.end - self.start)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


class Missing(NamedTuple):
    """How many records were in a range and are not in its source."""

    erased: int = 0
    """Their content was erased."""
    lost: int = 0
    """The broker had deleted them before the audit read them."""

    def __str__(self) -> str:
        """As `12 whose content was erased, 3 that were lost before the audit read them`; empty where none is."""
        what = ("whose content was erased", "that were lost before the audit read them")
        return ", ".join(f"{count} {how}" for count, how in zip(self, what, strict=True) if count)


class Source(Protocol):
    """A recorded part of a log, of which both ends are known before anything of it is read."""

    @property
    def name(self) -> str:
        """What it is, for people."""

    @property
    def topics(self) -> Topics:
        """The topics that its records were on."""

    @property
    def partitions(self) -> int:
        """How many each topic has."""

    @property
    def spans(self) -> Sequence[Span]:
        """Of the topics that a worker reads."""

    def within(self, timestamp: int) -> bool:
        """Whether a time is before the end of the range."""

    def inputs(self) -> Iterable[LogRecord]:
        """What a worker read, in the order of `in_order`."""

    def decided(self) -> Iterable[LogRecord]:
        """What workers wrote to the topic of interventions, from the beginning of the range up to now."""

    def incidents(self) -> Iterable[LogRecord]:
        """What workers wrote to the topic of incidents, as `decided`."""

    def policies(self) -> Iterable[LogRecord]:
        """What is known of the topic of policies, in the order of its partitions."""


class FrozenRange(ABC):
    """The reading of a Source whose parts of partitions were frozen when it was made."""

    spans: Sequence[Span]
    decided_spans: Sequence[Span] = ()
    incident_spans: Sequence[Span] = ()
    """Of interventions and incidents: up to the newest when the range was frozen."""
    policy_spans: Sequence[Span] = ()

    @abstractmethod
    def read(self, spans: Sequence[Span]) -> Iterator[LogRecord]:
        """The records of frozen parts of partitions, in the order of `in_order`."""

    def inputs(self) -> Iterator[LogRecord]:
        """What a worker read, in the order of `in_order`."""
        return self.read(self.spans)

    def decided(self) -> Iterator[LogRecord]:
        """What workers wrote to the topic of interventions."""
        return self.read(self.decided_spans)

    def incidents(self) -> Iterator[LogRecord]:
        """What workers wrote to the topic of incidents."""
        return self.read(self.incident_spans)

    def policies(self) -> Iterator[LogRecord]:
        """The documents of the topic of policies."""
        return self.read(self.policy_spans)


_RANK: Final = {layout.name: rank for rank, layout in enumerate(LAYOUT)}


def in_order(streams: Iterable[Iterable[LogRecord]], topics: Topics) -> Iterator[LogRecord]:
    """Partitions as one stream: each in the order of its offsets, between them by time.

    Records of the same millisecond are in the order of the layout (actions before what answers them), then of
    their partitions, so that the order is always the same.
    """
    ranks = {topics.prefix + name: rank for name, rank in _RANK.items()}

    def place(record: LogRecord) -> tuple[int, int, int]:
        return record.timestamp, ranks.get(record.topic, len(ranks)), record.partition

    return merge(*streams, key=place)


class Cause(NamedTuple):
    """What a decision can answer."""

    id: str | None
    """By which the decision names it; None: the record says none."""
    begins: bool = True
    """Whether nothing of its session was before it, as far as an event tells."""


def cause_of(record: LogRecord, topics: Topics) -> Cause:
    """What of a record a decision can name."""
    try:
        if record.topic == topics.actions and record.headers:
            event = wire.decode_event(record.value, record.headers)
            return Cause(event.event_id, event.kind is Kind.SESSION_STARTED or not event.seq)
        fields = orjson.loads(record.value or b"null")
    except (wire.InvalidRecord, orjson.JSONDecodeError):
        return Cause(None)
    if not isinstance(fields, dict):
        return Cause(None)
    found = fields.get("command_id" if record.topic == topics.commands else "event_id")
    begins = fields.get("kind") == Kind.SESSION_STARTED.value or not fields.get("seq")
    return Cause(found if isinstance(found, str) else None, begins)
