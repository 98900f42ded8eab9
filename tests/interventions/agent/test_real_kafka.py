"""The compacted control topic on a real Kafka: tombstones, compaction, and the end of each partition."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from haltline.interventions.agent import Guard, Refused
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.local.kafka import LocalKafka
from tests.interventions.agent.stand_in import PARTITIONS, StandIn, standing, third_delete_kills
from tests.interventions.agent.test_over_kafka import attempts, in_a_process
from tests.waiting import wait_until


def guard_of(kafka: LocalKafka, topics: Topics, session_id: str, **options: object) -> Guard:
    settings: dict[str, object] = {"mode": "blocking", "budget_s": 20.0, "start_budget_s": 20.0} | options
    return Guard(session_id=session_id, bootstrap=kafka.bootstrap, topic_prefix=topics.prefix, **settings)  # type: ignore[arg-type]  # options of each test


def test_the_third_delete_is_refused_also_in_a_new_process(kafka: LocalKafka, kafka_topics: Topics) -> None:
    with StandIn(kafka.bootstrap, third_delete_kills(), topics=kafka_topics) as worker:
        actual = in_a_process(kafka.bootstrap, "s1", "delete_asset", 3, kafka_topics.prefix)
        assert actual[-2:] == ["session_killed_loop_guard", "executed 2"]
        worker.control(standing())
    again = in_a_process(kafka.bootstrap, "s1", "get_asset", 2, kafka_topics.prefix)
    assert again == ["session_killed_loop_guard", "session_killed_loop_guard", "executed 0"]


def test_of_many_kills_and_resets_the_last_word_holds(kafka: LocalKafka, kafka_topics: Topics) -> None:
    with StandIn(kafka.bootstrap, topics=kafka_topics) as worker:
        for _ in range(3):
            for session in range(20):
                worker.control(standing(scope_id=f"s{session}"))
                worker.release(ScopeKind.SESSION, f"s{session}")
        worker.control(standing(scope_id="s7"))
        worker.control(standing(ScopeKind.TOOL, "drop_table"))
        for session in (0, 7, 19):
            with guard_of(kafka, kafka_topics, f"s{session}") as guard:
                expected = "session_killed_loop_guard" if session == 7 else "executed"
                assert attempts(guard, 1) == [expected]
                assert guard.ready
        with guard_of(kafka, kafka_topics, "s0") as guard, pytest.raises(Refused), guard.action("drop_table"):
            pytest.fail("it was executed")


def test_a_topic_that_was_compacted_down_to_tombstones_is_read_to_its_end(
    kafka: LocalKafka, kafka_topics: Topics
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topic = ConfigResource(
        ConfigResource.Type.TOPIC,
        kafka_topics.control,
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in {
                "segment.ms": "100",
                "min.cleanable.dirty.ratio": "0.01",
                "max.compaction.lag.ms": "100",
                "delete.retention.ms": "1",
            }.items()
        ],
    )
    for future in admin.incremental_alter_configs([topic]).values():
        future.result()
    with StandIn(kafka.bootstrap, topics=kafka_topics) as worker:
        worker.control(standing(scope_id="killed"))

        def is_compacted() -> bool:
            # The broker compacts a segment when a later record has closed it.
            for session in range(8):
                worker.control(standing(scope_id=f"s{session}"))
                worker.release(ScopeKind.SESSION, f"s{session}")
            read, span = _records_and_offsets(kafka, kafka_topics.control)
            return read < span / 2

        wait_until(is_compacted, "the broker has compacted the topic", deadline_s=120)
        with guard_of(kafka, kafka_topics, "killed") as killed, guard_of(kafka, kafka_topics, "s1") as other:
            assert attempts(killed, 1) == ["session_killed_loop_guard"]
            assert attempts(other, 1) == ["executed"]


def _records_and_offsets(kafka: LocalKafka, topic: str) -> tuple[int, int]:
    """How many records the topic has, and how many offsets were given out."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "count",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        ends = [consumer.get_watermark_offsets(place, timeout=10) for place in places]
        consumer.assign(places)
        read, open_partitions = 0, PARTITIONS
        while open_partitions:
            message = consumer.poll(10)
            assert message is not None
            if message.error() is None:
                read += 1
            else:
                open_partitions -= 1
        return read, sum(high for _, high in ends)
    finally:
        consumer.close()
