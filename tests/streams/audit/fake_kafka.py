"""A Kafka in memory, and a sink on it that goes step by step in the thread of the test.

What happens is a generator: each poll of the consumer runs it up to its next `yield`, so it may do what librdkafka does
within a poll (assign, revoke) and whatever the world does meanwhile. When it has ended and nothing is left to read, the
sink is stopped.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError, Message, TopicCollection, TopicPartition

from benchmarks.simulator.memory_table import MemoryAuditTable
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.sink import AuditSink
from haltline.streams.audit.writer import Place
from haltline.streams.system import REAL, System
from tests.streams.audit.records import NOW_MS
from tests.streams.audit.tables import VALUE

Story = Iterator[None]
_IDLE_POLLS = 3  # a sink that was displaced reads on some turns later


@dataclass
class Partition:
    """Records with offsets from `first` to before `end`."""

    first: int = 0
    end: int = 0
    fetched: int = 0
    """What is before this offset the consumer has fetched, even if it is deleted."""
    lag: tuple[int, float] = (0, 0.0)
    """So many records are missing in the end that it tells, until this time in seconds."""


@dataclass
class FakeKafka:
    """Topics with ids, and the table that they are audited in."""

    table: MemoryAuditTable = field(default_factory=MemoryAuditTable)
    partitions: dict[Place, Partition] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    now_s: float = 0.0
    cluster_id: str = "fake"

    def append(self, place: Place, count: int = 1, *, fetched: bool = False) -> None:
        """Adds records to a partition, which is made when it is not there."""
        self.ids.setdefault(place.topic, f"id of {place.topic}")
        partition = self.partitions.setdefault(place, Partition())
        partition.end += count
        partition.fetched = partition.end if fetched else partition.fetched

    def written(self) -> list[tuple[str, int, int]]:
        """Every row of the table."""
        return sorted((row["topic"], row["partition"], row["offset"]) for row in self.table.rows)

    def sink(self, story: "Callable[[FakeConsumer], Story]", **settings: Any) -> "FakeConsumer":
        """A sink to be run."""
        return FakeConsumer(self, story, **settings)

    def run(self, story: "Callable[[FakeConsumer], Story]", **settings: Any) -> None:
        """Runs a sink until its story has ended and all is read."""
        self.sink(story, **settings).run()


class FakeConsumer:
    """The one consumer of a sink, which makes it instead of a real one. Also its admin client."""

    def __init__(self, kafka: FakeKafka, story: "Callable[[FakeConsumer], Story]", **settings: Any) -> None:
        self.kafka = kafka
        self.owned: frozenset[Place] = frozenset()
        fields: dict[str, Any] = {"bootstrap": "fake:9092", "flush_s": 1e-9, "answer_within_s": 1.0}
        self.sink = AuditSink(AuditSettings(**fields | settings), table=kafka.table, system=self._system())
        self.run = self.sink.run
        self.positions: dict[Place, int] = {}
        self._story = story(self)
        self._idle = 0
        self._callbacks: Mapping[str, Callable[..., object]] = {}

    # What a story tells.

    def given(self, *places: Place) -> None:
        """A rebalance has ended: these partitions are this sink's."""
        self.owned = frozenset(places)
        self._callbacks["on_assign"](self, [TopicPartition(*place) for place in places])

    # What the sink calls.

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[..., object]) -> None:
        assert topics
        self._callbacks = callbacks

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions = {Place(p.topic, p.partition): p.offset for p in partitions}

    def poll(self, timeout: float) -> Message | None:
        self.kafka.now_s += max(timeout, 0.001)
        ended = next(self._story, self) is self
        message = next(self._messages(), None)
        self._idle = self._idle + 1 if ended and message is None else 0
        if self._idle == _IDLE_POLLS:
            self.sink.stop()
        return message

    def consume(self, count: int, *, timeout: float) -> list[Message]:
        assert timeout == 0
        return [message for message, _ in zip(self._messages(), range(count), strict=False)]

    def _messages(self) -> Iterator[Message]:
        for place, position in list(self.positions.items()):
            partition = self.kafka.partitions[place]
            about: dict[str, Any] = {"topic": place.topic, "partition": place.partition}
            for offset in range(position, partition.end):
                if partition.fetched <= offset < partition.first:
                    break
                self.positions[place] = offset + 1
                yield Message(**about, offset=offset, key=b"42", value=VALUE, timestamp=(1, NOW_MS))
            if not partition.first <= self.positions[place] <= partition.end:
                del self.positions[place]
                yield Message(**about, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))

    def get_watermark_offsets(self, place: TopicPartition, **_: float) -> tuple[int, int]:
        one = self.kafka.partitions[Place(place.topic, place.partition)]
        missing, until_s = one.lag
        return one.first, one.end - (missing if self.kafka.now_s < until_s else 0)

    def commit(self, **_: object) -> None:
        """Nobody reads what is committed."""

    def list_topics(self, *_: str, **__: float) -> Any:
        topics = {name: SimpleNamespace(error=None, partitions={0: None}) for name in self.kafka.ids}
        return SimpleNamespace(cluster_id=self.kafka.cluster_id, controller_id=1, brokers={1: None}, topics=topics)

    def describe_topics(self, topics: TopicCollection, **_: float) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {name: Future() for name in topics.topic_names}
        for name, answer in answers.items():
            answer.set_result(SimpleNamespace(topic_id=self.kafka.ids[name]))
        return answers

    def close(self) -> None:
        self._callbacks["on_revoke"](self, [TopicPartition(*place) for place in self.owned])

    def _system(self) -> System:
        def passes(seconds: float) -> float:
            self.kafka.now_s += seconds
            return self.kafka.now_s

        made = cast("Any", lambda *_, **__: self)
        time_ns = NOW_MS * 1_000_000
        return dataclasses.replace(
            REAL, consumer=made, admin=made, monotonic=lambda: passes(1e-6), time_ns=lambda: time_ns, sleep=passes
        )
