"""The reader of the console's read model while it has to wait."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]  # its stubs miss them
from sqlalchemy import Engine, insert
from sqlalchemy.exc import OperationalError

from haltline.console.read_model import tables
from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.store import open_store
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.runtime.topic_watch import TopicRecreated
from tests.mock_cluster import ApiKey, MockCluster
from tests.waiting import wait_until

TOPICS = Topics()


@pytest.fixture
def cluster(mock_cluster: Callable[[], MockCluster]) -> MockCluster:
    cluster = mock_cluster()
    for name in TOPICS.all:
        cluster.create_topic(name, 1)
    return cluster


class Trying(Feeder):
    """Counts how often it began to read."""

    tries = 0

    def _assign(self, consumer: Consumer) -> None:
        self.tries += 1
        super()._assign(consumer)


def test_a_topic_that_was_recreated_is_reported_with_what_to_do_and_not_each_second(
    cluster: MockCluster, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.begin() as connection:
        connection.execute(insert(tables.offsets), [{"topic": "actions", "partition": 0, "next": 500}])
    produce_confirmed(cluster.bootstrap, TOPICS.actions, key=b"s1", value=b"{}")
    with Trying(engine, cluster.bootstrap, topics=TOPICS, group="g") as feeder:
        feeder.start()
        wait_until(lambda: feeder.tries > 2, "it has tried again")
    result = [message for message in caplog.messages if "recreated" in message]
    (line,) = result
    assert line.startswith(
        f"the read model waits: {TOPICS.actions}[0]: expected a partition that goes on at offset 500"
    )
    assert "haltline console --rebuild" in line


def test_where_the_next_records_are_gone_it_asks_where_to_go_on(cluster: MockCluster, engine: Engine) -> None:
    with Trying(engine, cluster.bootstrap, topics=TOPICS, group="g") as feeder:
        feeder.start()
        assert feeder.caught_up.wait(30)
        cluster.fail_next(ApiKey.FETCH, [KafkaError.OFFSET_OUT_OF_RANGE])
        wait_until(lambda: feeder.tries == 2, "it asks again")
        place = produce_confirmed(cluster.bootstrap, TOPICS.actions, key=b"s1", value=b"{}")
        assert feeder.wait_for(place, 30)
        assert feeder.mismatches() == []


class BeginsAnew(Feeder):
    """Its topic is another one until the database was emptied, and the database is unavailable at first."""

    tries = 0

    def _assign(self, consumer: Consumer) -> None:
        if self.tries < 2:
            raise TopicRecreated("topic actions was recreated")
        super()._assign(consumer)

    def _rebuild(self, recreated: TopicRecreated) -> None:
        self.tries += 1
        if self.tries == 1:
            raise OperationalError("DELETE", None, OSError("the database is unavailable"))
        super()._rebuild(recreated)


def test_a_database_that_is_away_when_the_read_model_begins_anew_is_waited_for(
    cluster: MockCluster, engine: Engine
) -> None:
    with BeginsAnew(engine, cluster.bootstrap, topics=TOPICS, group="g") as feeder:
        feeder.start()
        assert feeder.caught_up.wait(30)
        assert feeder.failure is None
        assert feeder.tries == 2


def test_partitions_that_a_topic_is_given_are_read(kafka: LocalKafka, tmp_path: Path) -> None:
    topics = Topics(f"t{uuid.uuid4().hex[:8]}.")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    engine = open_store(f"sqlite:///{tmp_path}/tables.db")
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in topics.all]).values():
        future.result()
    sent: list[TopicPartition] = []

    def is_in_the_new_one() -> bool:
        key = str(len(sent)).encode()
        sent.append(produce_confirmed(kafka.bootstrap, topics.actions, key=key, value=b"{}"))
        return sent[-1].partition == 1

    with Feeder(engine, kafka.bootstrap, topics=topics, group="g", look_every_s=0.2) as feeder:
        feeder.start()
        assert feeder.caught_up.wait(60)
        for future in admin.create_partitions([NewPartitions(topics.actions, 2)]).values():
            future.result()
        wait_until(is_in_the_new_one, "a record is in the new partition")
        assert feeder.wait_for(sent[-1], 60)
    assert feeder.failure is None
    engine.dispose()
    for future in admin.delete_topics([*topics.all]).values():
        future.result()
