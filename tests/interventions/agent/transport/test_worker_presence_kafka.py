"""An agent in mode async on a real Kafka whose topic of actions is deleted, recreated, or given more partitions."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]  # its stubs miss them

from haltline.interventions.agent import Guard
from haltline.interventions.agent.transport.worker_presence import GONE, MADE_ANEW, MOVED
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.local.kafka import LocalKafka
from tests.conftest import PARTITIONS
from tests.waiting import wait_until

MOVES = next(
    name
    for name in (f"s{n}" for n in range(100))
    if partition_of(name, PARTITIONS) != partition_of(name, PARTITIONS + 2)
)


def guard_of(kafka: LocalKafka, topics: Topics) -> Guard:
    return Guard(session_id=MOVES, agent_id="a", bootstrap=kafka.bootstrap, topic_prefix=topics.prefix, mode="async")


def act(guard: Guard) -> None:
    with guard.action("get_asset"):
        pass


def test_an_agent_learns_that_nobody_watches_it_while_its_topic_is_gone_or_was_recreated(
    kafka: LocalKafka, kafka_topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def made() -> bool:
        try:
            admin.create_topics([NewTopic(kafka_topics.actions, PARTITIONS, 1)])[kafka_topics.actions].result()
        except KafkaException:  # its deletion is not over yet
            return False
        return True

    with guard_of(kafka, kafka_topics) as guard:
        for _ in range(5):
            act(guard)
        wait_until(lambda: guard.degraded is None, "all is well")
        admin.delete_topics([kafka_topics.actions])[kafka_topics.actions].result()
        wait_until(lambda: guard.degraded == GONE, "the guard knows that it is gone")
        wait_until(made, "it is recreated")

        def is_told() -> bool:
            act(guard)
            return guard.degraded == MADE_ANEW

        wait_until(is_told, "the guard knows that it was recreated", deadline_s=90)
        assert guard.dropped == 0
    assert f"haltline: what this process does goes unwatched: {GONE}" in caplog.text


def test_an_agent_learns_that_its_session_is_in_a_partition_that_nobody_reads(
    kafka: LocalKafka, kafka_topics: Topics
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    with guard_of(kafka, kafka_topics) as guard:
        act(guard)
        wait_until(lambda: guard.degraded is None, "all is well")
        added = admin.create_partitions([NewPartitions(kafka_topics.actions, PARTITIONS + 2)])
        added[kafka_topics.actions].result()
        wait_until(lambda: guard.degraded == MOVED, "the guard knows that its session has moved")
