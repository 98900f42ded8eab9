"""A range of a running Kafka, read beside the workers: without joining a group or committing."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import Gone, Unreachable, bounds, offsets_since, open_consumer, partitions_of
from haltline.streams.kafka.log_record import LogRecord, record_of
from haltline.streams.replay.records import FrozenRange, Span, in_order
from haltline.streams.replay.time_range import BadMoment, End

_MAX_WAITING: Final = 5_000
_BATCH: Final = 500
_POLL_S: Final = 0.2
_SILENT_S: Final = 60.0


class KafkaRange(FrozenRange, AbstractContextManager["KafkaRange", None]):
    """Topics between two ends. Use it in a `with` block.

    Both ends are offsets before the first record is read: of a time, the first offset whose record is not older, as
    reported by the broker; the embedded broker cannot do that, and its partitions are read instead. Given offsets refer
    to the topic of actions: other topics of the partition are cut at the time of the record at that offset, and
    partitions that are not named are left out. Of each policy's documents, only the last one is certain to exist.

    The constructor raises Unreachable or NoSuchTopic, and BadMoment for an offset that does not exist.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Topics,
        start: End = None,
        end: End = None,
        *,
        client: Mapping[str, ClientSetting] | None = None,
    ) -> None:
        self.name = f"kafka {bootstrap}"
        self.topics = topics
        self._open = partial(open_consumer, bootstrap, client=client)
        self._consumer = self._open()
        try:
            self.partitions = len(partitions_of(self._consumer, topics.actions))
            offsets = [place for one in (start, end) if isinstance(one, Mapping) for place in one.items()]
            self._named = {partition for partition, _ in offsets} or set(range(self.partitions))
            self._times = {place: self._time_at(*place) for place in offsets}
            self._freeze_all(start, end, self._end_of(end))
        except BaseException:
            self._consumer.close()
            raise

    def read(self, spans: Sequence[Span]) -> Iterator[LogRecord]:
        """Yield the records of frozen parts of partitions, in the order of `in_order`."""
        with closing(self._open()) as consumer:
            yield from in_order(_Streams(consumer, [span for span in spans if span.count]).all(), self.topics)

    def freeze(self, topic: str, start: End = None, end: End = None) -> Iterator[Span]:
        """Yield the parts of a topic's partitions between two ends. Raises Unreachable, NoSuchTopic."""
        for tp in partitions_of(self._consumer, topic):
            if tp.partition not in self._named and topic != self.topics.policies:
                continue
            low, high = bounds(self._consumer, tp)
            first = self._offset(tp, start, low, high, low)
            last = self._offset(tp, end, low, high, high)
            yield Span(topic, tp.partition, max(first, low), max(first, low, min(last, high)))

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _time_at(self, partition: int, offset: int) -> int | None:
        """Return the time of the actions record at an offset; None at the end of the partition."""
        if partition >= self.partitions:
            raise BadMoment(f"partition {partition}: expected one of {self.partitions} of {self.topics.actions}")
        low, high = bounds(self._consumer, TopicPartition(self.topics.actions, partition))
        if not low <= offset <= high:
            expected = f"expected an offset from {low} to {high}, got {offset}"
            raise BadMoment(f"{self.topics.actions}[{partition}]: {expected}")
        found = next(self.read([Span(self.topics.actions, partition, offset, high)]), None)
        return None if found is None else found.timestamp

    def _end_of(self, end: End) -> int | None:
        """Return the time of an end; of offsets, the latest one."""
        if not isinstance(end, Mapping):
            return end
        return max((ms for place in end.items() if (ms := self._times[place]) is not None), default=None)

    def _offset(self, tp: TopicPartition, end: End, low: int, high: int, otherwise: int) -> int:
        """Return the offset of an end: of a time, the first one that is not older, or `high` if all are older."""
        if isinstance(end, Mapping):
            if tp.partition not in end:
                return otherwise
            if tp.topic == self.topics.actions:
                return end[tp.partition]
            end = self._times[tp.partition, end[tp.partition]]
        if end is None or low == high:
            return otherwise
        time_ms = end
        offsets = offsets_since(self._consumer, [tp], time_ms)
        if offsets:
            found = offsets[tp.topic, tp.partition]
        else:
            read = self.read([Span(tp.topic, tp.partition, low, high)])
            found = next((record.offset for record in read if record.timestamp >= time_ms), -1)
        return high if found < 0 else found


@dataclass
class _Stream:
    """One partition that is being read."""

    next: int
    """The next expected offset."""
    end: int
    waiting: deque[LogRecord] = field(default_factory=deque)
    done: bool = False
    paused: bool = False


class _Streams:
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
