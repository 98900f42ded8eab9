"""A Kafka in memory, and a sink on it that goes step by step in the thread of the test.

What happens is a generator: each poll of the consumer runs it up to its next `yield`, so it may do what librdkafka does
within a poll (assign, revoke) and whatever the world does meanwhile. When it has ended and nothing is left to read, the
sink is stopped.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicCollection, TopicPartition

from haltline.streams.audit.observer import SinkObserver
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.sink import AuditSink
from haltline.streams.audit.table import AuditTable
from haltline.streams.audit.writer import Place
from haltline.streams.system import REAL, System
from tests.streams.audit.records import NOW_MS, event

VALUE = event().to_json()
_IDLE_POLLS = 3  # a sink that was displaced reads on some turns later


@dataclass
class Partition:
    """Records by offset, from `first` to before `end`."""

    first: int = 0
    end: int = 0
    values: dict[int, bytes] = field(default_factory=dict)
    fetched: int = 0
    """What is deleted and before this offset was fetched by the consumer in time."""
    lag: tuple[int, float] = (0, 0.0)
    """So many records are missing in the end that it tells, until this time in seconds."""


class FakeKafka:
    """Topics with ids. What it is asked fails with the next of `failures` as long as there are some."""

    def __init__(self) -> None:
        self.partitions: dict[Place, Partition] = {}
        self.ids: dict[str, str] = {}
        self.committed: dict[Place, int] = {}
        self.failures: list[int] = []
        self.now_s = 0.0

    def append(self, place: Place, count: int = 1, *, value: bytes = VALUE) -> None:
        """Adds records to a partition, which is made when it is not there."""
        self.ids.setdefault(place.topic, f"id of {place.topic}")
        partition = self.partitions.setdefault(place, Partition())
        for _ in range(count):
            partition.values[partition.end] = value
            partition.end += 1

    def delete_before(self, place: Place, offset: int) -> None:
        """As retention does."""
        self.partitions[place].first = offset

    def fetched(self, place: Place, count: int) -> None:
        """The consumer has these records in its queue already, whatever happens to them at the broker."""
        self.append(place, count)
        self.partitions[place].fetched = self.partitions[place].end

    def lags(self, place: Place, records: int, *, until_s: float) -> None:
        """The end that it tells is so much less than what it has, as after a restart."""
        self.partitions[place].lag = (records, until_s)

    def recreate(self, topic: str) -> None:
        """The topic is deleted and made again, empty."""
        self.ids[topic] += " again"
        for place in self.partitions:
            if place.topic == topic:
                self.partitions[place] = Partition()

    def answer(self) -> None:
        """Raises KafkaException for each failure that is left."""
        if self.failures:
            raise KafkaException(KafkaError(self.failures.pop(0)))

    def positions(self) -> list[tuple[str, int, int]]:
        """Every record that was ever there."""
        return sorted((*place, offset) for place, one in self.partitions.items() for offset in range(one.end))


Story = Iterator[None]


class SinkOnFake:
    """One sink and its consumer. `run` runs the story to its end."""

    def __init__(
        self,
        kafka: FakeKafka,
        table: AuditTable,
        story: "Callable[[SinkOnFake], Story]",
        *,
        observer: SinkObserver | None = None,
        **settings: object,
    ) -> None:
        self.kafka = kafka
        self.during_consume: Callable[[], object] = lambda: None
        """Called once, when the consumer has taken out what it returns."""
        fields: dict[str, Any] = {"bootstrap": "fake:9092", "flush_s": 1e-9, "answer_within_s": 1.0}
        self.sink = AuditSink(
            AuditSettings(**(fields | settings)), table=table, observer=observer, system=self._system()
        )
        self._story = story(self)
        self._idle = 0
        self.errors: list[KafkaError] = []
        """What the consumer's next polls return."""
        self._positions: dict[Place, int] = {}
        self._callbacks: Mapping[str, Callable[..., object]] = {}
        self.owned: frozenset[Place] = frozenset()

    def run(self) -> "SinkOnFake":
        """Runs the sink until its story has ended and all is read."""
        self.sink.run()
        return self

    # What a story tells.

    def given(self, *places: Place) -> None:
        """A rebalance has ended: these partitions are this sink's."""
        self.owned = frozenset(places)
        self._call("on_assign", places)

    def revoked(self, *places: Place) -> None:
        """A rebalance begins."""
        self._call("on_revoke", places)
        self.owned -= {*places}
        self._positions = {}

    def lost(self, *places: Place) -> None:
        """The group went on without this member."""
        self._call("on_lost", places)
        self.owned -= {*places}
        self._positions = {}

    def _call(self, name: str, places: Iterable[Place]) -> None:
        self._callbacks[name](self, [TopicPartition(*place) for place in places])

    # What the sink uses of a consumer.

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[..., object]) -> None:
        assert topics
        self._callbacks = callbacks

    def poll(self, timeout: float) -> Message | None:
        self.kafka.now_s += max(timeout, 0.001)
        told = next(self._story, self) is None
        if self.errors:
            return Message(error=self.errors.pop(0))
        message = next(self._messages(), None)
        self._idle = 0 if told or message is not None else self._idle + 1
        if self._idle == _IDLE_POLLS:
            self.sink.stop()
        return message

    def consume(self, count: int, *, timeout: float) -> list[Message]:
        assert timeout == 0
        taken = [message for message, _ in zip(self._messages(), range(count), strict=False)]
        happening, self.during_consume = self.during_consume, lambda: None
        happening()
        return taken

    def _messages(self) -> Iterator[Message]:
        for place, position in list(self._positions.items()):
            partition = self.kafka.partitions[place]
            for offset in range(position, partition.end):
                if partition.fetched <= offset < partition.first:
                    break
                self._positions[place] = offset + 1
                yield _message(place, offset, partition.values[offset])
            if not partition.first <= self._positions[place] <= partition.end:
                del self._positions[place]
                reset = KafkaError(KafkaError._AUTO_OFFSET_RESET)
                yield Message(topic=place.topic, partition=place.partition, error=reset)

    def assigned_from(self) -> dict[Place, int]:
        """Where the consumer reads on, by partition."""
        return dict(self._positions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions = {Place(p.topic, p.partition): p.offset for p in partitions}

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = 0.0, *, cached: bool = False
    ) -> tuple[int, int]:
        if not cached:
            self.kafka.now_s += min(timeout, 0.001)
            self.kafka.answer()
        one = self.kafka.partitions[Place(partition.topic, partition.partition)]
        missing, until_s = one.lag
        return one.first, one.end - (missing if self.kafka.now_s < until_s else 0)

    def commit(self, *, offsets: Iterable[TopicPartition], **_: object) -> None:
        self.kafka.committed |= {Place(p.topic, p.partition): p.offset for p in offsets}

    def list_topics(self, *_: str, **__: float) -> Any:
        self.kafka.answer()
        return SimpleNamespace(cluster_id="fake", controller_id=1, brokers={1: None}, topics=dict(self.kafka.ids))

    def describe_topics(self, topics: TopicCollection, **_: float) -> dict[str, Future[Any]]:
        return {name: self._described(name) for name in topics.topic_names}

    def _described(self, name: str) -> "Future[Any]":
        answer: Future[Any] = Future()
        try:
            self.kafka.answer()
            answer.set_result(SimpleNamespace(topic_id=self.kafka.ids[name]))
        except KafkaException as error:
            answer.set_exception(error)
        return answer

    def close(self) -> None:
        if self.owned:
            self.revoked(*self.owned)

    def _system(self) -> System:
        kafka = self.kafka

        def sleep(seconds: float) -> None:
            kafka.now_s += seconds

        def monotonic() -> float:
            kafka.now_s += 1e-6
            return kafka.now_s

        return dataclasses.replace(
            REAL,
            consumer=cast("Any", lambda *_, **__: self),
            admin=cast("Any", lambda *_, **__: self),
            monotonic=monotonic,
            time_ns=lambda: NOW_MS * 1_000_000,
            sleep=sleep,
            event=threading.Event,
        )


def _message(place: Place, offset: int, value: bytes) -> Message:
    return Message(
        topic=place.topic, partition=place.partition, offset=offset, key=b"42", value=value, timestamp=(1, NOW_MS)
    )
