"""A log to be audited: fills topics, and says which records a complete audit holds."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from haltline.schemas.topics import Topics
from haltline.streams.audit.query import QueryFailed, open_query
from haltline.streams.audit.settings import AuditSettings
from tests.streams.audit import records
from tests.streams.audit.tables import proof_of
from tests.waiting import wait_until

Position = tuple[str, int, int]
QUIET = logging.getLogger("tests.brokers")  # for clients of brokers that come and go
QUIET.setLevel(logging.CRITICAL)

ANSWER_WITHIN_S = 10.0
WRITTEN_WITHIN_S = 60.0


class Log:
    """The topics of one test, on any broker, until the end of the block."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        self.bootstrap = bootstrap
        self.topics = topics
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "message.max.bytes": 3 * 1024 * 1024}
        self._producer = Producer(settings, logger=QUIET)

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *exception: object) -> None:
        self._producer.close()

    def settings(self, table: Path, **more: Any) -> AuditSettings:
        fields: dict[str, Any] = {"bootstrap": self.bootstrap, "topics": self.topics, "table": str(table)}
        quick = {"flush_s": 0.1, "fetch_wait_ms": 10, "session_timeout_s": 4.0}
        return AuditSettings(**fields | quick | more)

    def send(self, topic: str, value: bytes | None, *, partition: int = 0, **more: object) -> None:
        self._producer.produce(topic, value, partition=partition, on_delivery=_must_arrive, **more)  # type: ignore[arg-type]  # by name
        self._producer.poll(0)

    def send_one_of_each(self) -> None:
        for record in records.one_of_each():
            topic = self.topics.prefix + record.topic.removeprefix(records.TOPICS.prefix)
            self.send(topic, record.value, key=record.key, headers=list(record.headers))
        self.flush()

    def send_events(self, count: int, *, first: int = 0) -> None:
        """So many events of 50 sessions, and for every 50th a decision."""
        for number in range(first, first + count):
            event = records.event(event_id=f"e{number}", session_id=f"s{number % 50}", seq=number)
            self.send(self.topics.actions, event.to_json(), partition=number % 4, key=event.session_id)
            if number % 50 == 0:
                decision = records.decision(decision_id=f"d{number}", session_id=event.session_id)
                self.send(self.topics.interventions, decision.to_json(), partition=number % 4, key=event.session_id)
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def consumer(self, group: str = "test") -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": group}, logger=QUIET)

    def places(self) -> list[TopicPartition]:
        with self.consumer() as consumer:
            found = consumer.list_topics(timeout=ANSWER_WITHIN_S).topics
        return [
            TopicPartition(topic, number) for topic in self.topics.all for number in sorted(found[topic].partitions)
        ]

    def positions(self) -> list[Position]:
        """Every offset of every topic, where offsets have no gaps."""
        every: list[Position] = []
        with self.consumer() as consumer:
            for place in self.places():
                first, end = consumer.get_watermark_offsets(place, timeout=ANSWER_WITHIN_S)
                every += [(place.topic, place.partition, offset) for offset in range(first, end)]
        return sorted(every)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The group's offsets, of partitions where it has any."""
        with self.consumer(group) as consumer:
            found = consumer.committed(self.places(), timeout=ANSWER_WITHIN_S)
        return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}


def _must_arrive(error: KafkaError | None, message: Message) -> None:
    assert error is None, f"{message.topic()}: {error}"


def audited(table: Path) -> list[Position]:
    """The position of every record, sorted, repeated ones repeated; none while there is no table."""
    try:
        rows = open_query(table).rows('SELECT "topic", "partition", "offset" FROM audit')
    except QueryFailed:
        return []
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


def wait_for_rows(table: Path, count: int) -> None:
    wait_until(lambda: len(audited(table)) >= count, f"{count} rows are in the table", deadline_s=WRITTEN_WITHIN_S)


def assert_each_once(table: Path, expected: list[Position]) -> None:
    """Each record once, and the chains proved over them."""
    actual = audited(table)
    assert [position for position, times in Counter(actual).items() if times > 1] == [], "written more than once"
    assert sorted(set(expected) - set(actual)) == [], "not written"
    assert sorted(set(actual) - set(expected)) == [], "never sent"
    found = proof_of(table)
    assert (found.problems, found.rows) == ([], len(actual))
