"""A range of a running Kafka, read beside the workers: without joining a group or committing."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import ANSWER_WITHIN_S, Gone, Unreachable, bounds, open_consumer, partitions_of
from haltline.streams.kafka.log_record import LogRecord, record_of
from haltline.streams.replay.records import FrozenRange, Missing, Span, in_order
from haltline.streams.replay.time_range import OPEN, BadMoment, Moment

_MAX_WAITING: Final = 5_000
_BATCH: Final = 500
_POLL_S: Final = 0.2
_SILENT_S: Final = 60.0

_End = int | None
"""The time at which a partition is cut; None: not cut."""


class KafkaRange(FrozenRange, AbstractContextManager["KafkaRange", None]):
    """Topics between two ends. Use it in a `with` block.

    Both ends are offsets before the first record is read. A time means the first offset whose record is not older, as
    reported by the broker; the embedded broker cannot do that, and its partitions are read instead. Offsets refer to
    the topic of actions: other topics of the partition are cut at the time of the record at that offset, and partitions
    that are not named are left out. Of each policy's documents, only the last one is certain to exist.

    The constructor raises Unreachable or NoSuchTopic, and BadMoment for an offset that does not exist.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Topics,
        start: Moment = OPEN,
        end: Moment = OPEN,
        *,
        client: Mapping[str, ClientSetting] | None = None,
    ) -> None:
        self.name = f"kafka {bootstrap}"
        self.topics = topics
        self._open = partial(open_consumer, bootstrap, client=client)
        self._consumer = self._open()
        try:
            self.partitions = len(partitions_of(self._consumer, topics.actions))
            self._begins, self._ends = self._moments(start, end)
            self.spans: Sequence[Span] = [span for topic in topics.session_sources for span in self.freeze(topic)]
            self.decided_spans = list(self.freeze(topics.interventions, to_now=True))
            self.incident_spans = list(self.freeze(topics.incidents, to_now=True))
            self.policy_spans = list(self.freeze(topics.policies, whole=True))
        except BaseException:
            self._consumer.close()
            raise

    def within(self, timestamp: int) -> bool:
        """Return whether a time is before the end of the range."""
        latest = max((ms for ms in self._ends.values() if ms is not None), default=None)
        return latest is None or timestamp < latest

    def spans_of(self, topic: str) -> list[Span]:
        """Return the parts of a topic's partitions in the range, frozen now. Raises NoSuchTopic."""
        return list(self.freeze(topic))

    def missing(self, spans: Sequence[Span]) -> Missing:  # noqa: ARG002  # what retention took away ends the range
        """Return that nothing is known to be missing."""
        return Missing()

    def read(self, spans: Sequence[Span]) -> Iterator[LogRecord]:
        """Yield the records of frozen parts of partitions, in the order of `in_order`."""
        with _Streams(self._open(), [span for span in spans if span.count]) as streams:
            yield from in_order(streams.all(), self.topics)

    def freeze(self, topic: str, *, to_now: bool = False, whole: bool = False) -> Iterator[Span]:
        """Yield the parts of a topic's partitions in the range; `to_now`: without its end; `whole`: all of it."""
        for tp in partitions_of(self._consumer, topic):
            low, high = bounds(self._consumer, tp)
            first, last = low, high
            if not whole:
                if tp.partition not in self._begins:
                    continue
                fixed_first, fixed_last = self._fixed if topic == self.topics.actions else ({}, {})
                first = fixed_first.get(tp.partition, self._offset(tp, self._begins[tp.partition], low, high, low))
                if not to_now:
                    last = fixed_last.get(tp.partition, self._offset(tp, self._ends[tp.partition], low, high, high))
            yield Span(topic, tp.partition, max(first, low), max(first, low, min(last, high)))

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _moments(self, start: Moment, end: Moment) -> tuple[dict[int, _End], dict[int, _End]]:
        """Return, by partition, the times at which other topics are cut; None: not cut."""
        named = start.offsets.keys() | end.offsets.keys()
        if missing := [partition for partition in named if partition >= self.partitions]:
            raise BadMoment(f"partition {min(missing)}: expected one of {self.partitions} of {self.topics.actions}")
        self._fixed = (start.offsets, end.offsets)
        every = sorted(named) if named else range(self.partitions)
        begins = {p: self._time_at(p, start.offsets[p]) if p in start.offsets else start.time_ms for p in every}
        ends = {p: self._time_at(p, end.offsets[p]) if p in end.offsets else end.time_ms for p in every}
        return begins, ends

    def _time_at(self, partition: int, offset: int) -> _End:
        """Return the time of the actions record at an offset; None at the end of the partition."""
        tp = TopicPartition(self.topics.actions, partition)
        low, high = bounds(self._consumer, tp)
        if not low <= offset <= high:
            raise BadMoment(
                f"{self.topics.actions}[{partition}]: expected an offset from {low} to {high}, got {offset}"
            )
        found = next(self.read([Span(tp.topic, partition, offset, high)]), None) if offset < high else None
        return None if found is None else found.timestamp

    def _offset(self, tp: TopicPartition, moment: _End, low: int, high: int, otherwise: int) -> int:
        if moment is None or low == high:
            return otherwise
        found = self._by_time(tp, moment)
        if found is None:
            read = self.read([Span(tp.topic, tp.partition, low, high)])
            found = next((record.offset for record in read if record.timestamp >= moment), -1)
        return high if found < 0 else found

    def _by_time(self, tp: TopicPartition, moment: int) -> int | None:
        """Return the first offset that is not older, -1 if all are older; None if the broker cannot tell."""
        metadata = self._consumer.list_topics(timeout=ANSWER_WITHIN_S)
        if metadata.controller_id not in metadata.brokers:  # the embedded one
            return None
        try:
            (found,) = self._consumer.offsets_for_times(
                [TopicPartition(tp.topic, tp.partition, moment)], timeout=ANSWER_WITHIN_S
            )
        except KafkaException as failed:
            raise Unreachable(
                f"topic {tp.topic}, partition {tp.partition}: expected its offset at {moment}, got {failed}"
            ) from None
        return found.offset


@dataclass
class _Stream:
    """One partition that is being read."""

    next: int
    """The next expected offset."""
    end: int
    waiting: deque[LogRecord] = field(default_factory=deque)
    done: bool = False
    paused: bool = False


class _Streams(AbstractContextManager["_Streams", None]):
    """Several partitions of one consumer, each with its own iterator. Memory is bounded."""

    def __init__(self, consumer: Consumer, spans: Sequence[Span]) -> None:
        self._consumer = consumer
        self._streams = {(span.topic, span.partition): _Stream(span.start, span.end) for span in spans}
        if spans:
            consumer.assign([TopicPartition(span.topic, span.partition, span.start) for span in spans])

    def all(self) -> list[Iterator[LogRecord]]:
        """Return an iterator for each partition, in offset order."""
        return [self._of(place, stream) for place, stream in self._streams.items()]

    def _of(self, place: tuple[str, int], stream: _Stream) -> Iterator[LogRecord]:
        while True:
            if stream.waiting:
                yield stream.waiting.popleft()
                if stream.paused and len(stream.waiting) < _BATCH:
                    self._consumer.resume([TopicPartition(*place, -1)])
                    stream.paused = False
            elif stream.done:
                return
            else:
                self._wait_for(place, stream)

    def _wait_for(self, place: tuple[str, int], stream: _Stream) -> None:
        last_message_s = time.monotonic()
        while not stream.waiting and not stream.done:
            for message in self._consumer.consume(_BATCH, _POLL_S):
                last_message_s = time.monotonic()
                self._take(message)
            if time.monotonic() - last_message_s > _SILENT_S:
                raise Unreachable(
                    f"topic {place[0]}, partition {place[1]}: expected every record up to offset {stream.end}, "
                    f"got none for {_SILENT_S:g} s"
                )

    def _take(self, message: Message) -> None:
        place = (str(message.topic()), int(message.partition() or 0))
        stream = self._streams.get(place)
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if stream is not None:
                    self._require_kept(place, stream, stream.end)
                    stream.done = True
            elif error.fatal() or not (
                error.retriable() or error.code() in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
            ):
                raise KafkaException(error)
            return
        if stream is None or stream.done:
            return
        record = record_of(message)
        self._require_kept(place, stream, min(record.offset, stream.end))
        stream.next = record.offset + 1
        if record.offset < stream.end:
            stream.waiting.append(record)
        if record.offset + 1 >= stream.end:
            stream.done = True
            self._consumer.pause([TopicPartition(*place)])
        elif len(stream.waiting) > _MAX_WAITING and not stream.paused:
            self._consumer.pause([TopicPartition(*place)])
            stream.paused = True

    def _require_kept(self, place: tuple[str, int], stream: _Stream, until: int) -> None:
        """Check a gap: transactions and compaction cause some; raises Gone if retention deleted records."""
        if stream.next >= until:
            return
        low, _ = bounds(self._consumer, TopicPartition(*place))
        if low > stream.next:
            raise Gone(
                f"topic {place[0]}, partition {place[1]}: expected offsets {stream.next} to {stream.end - 1}, got a "
                f"broker that has deleted those before {low}; the audit has them: replay audit"
            )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
