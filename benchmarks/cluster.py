"""A local Kafka for benchmarks: creates and fills topics, and watches groups and sizes from outside."""

import logging
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    NewTopic,
)

from benchmarks.load import Sent
from haltline.schemas.topics import Topics
from haltline.streams.kafka import broker_retry
from haltline.streams.kafka.topics import create_topics
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.kafka_jars import LocalKafkaError, fetch
from haltline.streams.local.subprocesses import Children, interruptible

PARTITIONS: Final = 4

# librdkafka logs its own retries; the caller gets an exception if they fail.
QUIET: Final = logging.getLogger("benchmarks.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

_ASK_WITHIN_S = 10.0
_DELIVER_WITHIN_S = 120.0
_COME_BACK_WITHIN_S = 60.0

answered = partial(broker_retry.answered, within_s=_COME_BACK_WITHIN_S, also=broker_retry.AWAY)
"""Retry a call, even while the broker restarts."""


class Cluster:
    """One local Kafka under measurement."""

    def __init__(self, kafka: LocalKafka) -> None:
        self.kafka = kafka
        self.bootstrap = kafka.bootstrap
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=QUIET)

    def make_topics(self, topics: Topics, *changelogs: str) -> None:
        """Create every topic of haltline under a prefix, and the workers' changelogs."""
        create_topics(self._admin, topics, PARTITIONS, 1, changelogs=changelogs)

    def make_topic(self, name: str, *, compacted: bool = False) -> None:
        """Create a topic for a peer; return once clients can use it."""
        settings = {"cleanup.policy": "compact"} if compacted else {}
        for made in self._admin.create_topics([NewTopic(name, PARTITIONS, 1, config=settings)]).values():
            made.result()
        deadline = time.monotonic() + _ASK_WITHIN_S
        while not self._can_be_used(name):
            if time.monotonic() > deadline:
                raise RuntimeError(f"topic {name}: expected it to be visible in {_ASK_WITHIN_S:.0f} s, got nothing")
            time.sleep(0.05)

    def _can_be_used(self, name: str) -> bool:
        found = self._admin.list_topics(timeout=_ASK_WITHIN_S).topics.get(name)
        return found is not None and len([p for p in found.partitions.values() if p.leader >= 0]) == PARTITIONS

    def fill(self, topic: str, events: Iterable[Sent]) -> int:
        """Produce events in order; return the total size of their values in bytes. Raises RuntimeError if one fails."""
        sender = Sender(self.bootstrap, topic, {"linger.ms": 20, "queue.buffering.max.messages": 200_000})
        size = 0
        for sent in events:
            size += len(sent.value)
            sender.send(sent.session_id, sent.value)
        sender.finish()
        return size

    def log_bytes(self, topic: str) -> int:
        """The bytes of the topic on the broker's disk now: all partitions, without indexes."""
        folder = Path(self.kafka.data_dir, "log")
        names = [f"{topic}-{partition}" for partition in range(PARTITIONS)]
        return sum(segment.stat().st_size for name in names for segment in (folder / name).glob("*.log"))


@contextmanager
def started(name: str, logs: str | None = None) -> Iterator[tuple[Cluster, Children, Path]]:
    """A Kafka, processes that end with it, and their temporary folder. `logs`: a folder in which logs are kept.

    Ends the program if this machine lacks what Kafka needs.
    """
    try:
        jars = fetch()
    except LocalKafkaError as error:
        sys.exit(f"benchmarks: {error}")
    with interruptible(), tempfile.TemporaryDirectory(prefix=f"haltline-{name}-") as scratch:
        folder = Path(scratch)
        with LocalKafka(folder / "kafka", jars=jars) as kafka, Children(Path(logs or scratch, "logs")) as children:
            yield Cluster(kafka), children, folder


class Sender:
    """An idempotent producer of records of one topic."""

    def __init__(self, bootstrap: str, topic: str, settings: Mapping[str, Any] | None = None) -> None:
        """`settings` of the producer, in addition to or instead of the default ones."""
        self._topic = topic
        self._failed: list[str] = []
        defaults = {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "enable.idempotence": True}
        self._producer = Producer(defaults | dict(settings or {}), logger=QUIET)

    def send(self, key: str, value: bytes, **place: Any) -> None:
        """Produce a record, once the queue has room for it; `place`: partition and headers, if not the default ones."""
        while True:
            try:
                self._producer.produce(self._topic, key=key.encode(), value=value, on_delivery=self._delivered, **place)
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def finish(self) -> None:
        """Wait for the delivery of all records. Raises RuntimeError if one is not delivered."""
        if self._producer.flush(_DELIVER_WITHIN_S) or self._failed:
            got = self._failed[:3] or "no answer"
            raise RuntimeError(f"topic {self._topic}: expected every record delivered, got {got}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed.append(str(error))


def reader_from_end(bootstrap: str, topic: str, group: str) -> Consumer:
    """A consumer of all partitions of a topic, from their current ends."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}, logger=QUIET)
    ends = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    for end in ends:
        end.offset = _end_of(consumer, end)
    consumer.assign(ends)
    return consumer


def _end_of(consumer: Consumer, partition: TopicPartition) -> int:
    bounds = answered(partial(consumer.get_watermark_offsets, partition, timeout=_ASK_WITHIN_S))
    if bounds is None:
        raise RuntimeError(f"{partition.topic}: expected the end of partition {partition.partition}, got none")
    return bounds[1]


class Group:
    """The offsets of a consumer group on some topics, read without joining it."""

    def __init__(self, bootstrap: str, group: str, topics: Iterable[str]) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}, logger=QUIET
        )
        self._partitions = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in answered(partial(self._consumer.list_topics, topic, timeout=_ASK_WITHIN_S))
            .topics[topic]
            .partitions
        ]

    def committed(self) -> int:
        """The sum of the committed offsets."""
        found = answered(lambda: self._consumer.committed(self._partitions, timeout=_ASK_WITHIN_S))
        return sum(0 if one.offset == OFFSET_INVALID else one.offset for one in found)

    def end(self) -> int:
        """The sum of the ends of the partitions."""
        return sum(_end_of(self._consumer, partition) for partition in self._partitions)

    def close(self) -> None:
        """Close the clients."""
        self._consumer.close()
