"""The read model on a real Kafka whose topic is deleted and recreated, with the console running and without it."""

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]  # its stubs miss them
from sqlalchemy import Engine, select

from haltline.console.read_model import tables
from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.store import open_store
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.kafka import LocalKafka
from tests.waiting import wait_until


class Place:
    """Topics of a test's own, and a read model of them."""

    def __init__(self, kafka: LocalKafka, folder: Path) -> None:
        self.bootstrap = kafka.bootstrap
        self.topics = Topics(f"t{uuid.uuid4().hex[:8]}.")
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self.engine: Engine = open_store(f"sqlite:///{folder}/tables.db")
        for name in self.topics.all:
            self.make(name)

    def make(self, name: str) -> None:
        def made() -> bool:
            try:
                for future in self.admin.create_topics([NewTopic(name, 1, 1)]).values():
                    future.result()
            except KafkaException:  # its deletion is not over yet
                return False
            return True

        wait_until(made, f"{name} is made")
        wait_until(lambda: name in self.admin.list_topics(timeout=10).topics, f"{name} is there")

    def make_anew(self, name: str) -> None:
        for future in self.admin.delete_topics([name]).values():
            future.result()
        wait_until(lambda: name not in self.admin.list_topics(timeout=10).topics, f"{name} is gone")
        self.make(name)

    def send(self, *data: bytes) -> None:
        for value in data:
            produce_confirmed(self.bootstrap, self.topics.actions, key=b"s1", value=value)

    def feeder(self) -> Feeder:
        return Feeder(self.engine, self.bootstrap, topics=self.topics, group="g", look_every_s=0.2)

    def bodies(self) -> list[str]:
        with self.engine.connect() as connection:
            rows = connection.execute(select(tables.records.c.body).order_by(tables.records.c.offset))
            return [str(body) for (body,) in rows]

    def close(self) -> None:
        self.engine.dispose()
        for future in self.admin.delete_topics([*self.topics.all]).values():
            future.result()


@pytest.fixture
def place(kafka: LocalKafka, tmp_path: Path) -> Iterator[Place]:
    place = Place(kafka, tmp_path)
    yield place
    place.close()


def test_a_topic_that_is_recreated_makes_the_read_model_begin_anew_and_partitions_that_it_is_given_are_read(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    topic = place.topics.actions
    place.send(b'{"old": 1}', b'{"old": 2}')
    feeder = place.feeder()
    feeder.start()
    wait_until(lambda: len(place.bodies()) == 2, "both are taken in")
    place.make_anew(topic)
    place.send(b'{"new": 1}', b'{"new": 2}', b'{"new": 3}')  # beyond the offsets of before
    new = [f'{{"new": {number}}}' for number in (1, 2, 3)]
    wait_until(lambda: place.bodies() == new, "only what the new one holds is there", deadline_s=60)
    feeder.close()
    assert feeder.failure is None
    (result,) = [message for message in caplog.messages if f"topic {topic} was recreated" in message]
    assert "the read model begins anew" in result
    place.make_anew(topic)  # while it is away
    place.send(b'{"newer": 1}')
    feeder = place.feeder()
    feeder.start()
    wait_until(lambda: place.bodies() == ['{"newer": 1}'], "only what the newest one holds is there", deadline_s=60)
    for future in place.admin.create_partitions([NewPartitions(place.topics.actions, 2)]).values():
        future.result()
    sent: list[TopicPartition] = []

    def is_in_the_new_one() -> bool:
        key = str(len(sent)).encode()
        sent.append(produce_confirmed(place.bootstrap, place.topics.actions, key=key, value=b"{}"))
        return sent[-1].partition == 1

    wait_until(is_in_the_new_one, "a record is in the new partition")
    assert feeder.wait_for(sent[-1], 60)
    feeder.close()
    assert feeder.failure is None
