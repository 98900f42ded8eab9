from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from haltline.interventions.agent import Guard
from haltline.interventions.agent.transport.worker_presence import GONE, RECREATED
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import LocalKafka
from tests.conftest import PARTITIONS
from tests.interventions.agent.attempts import KILLED, attempt, attempts, guard_of
from tests.interventions.agent.stand_in import StandIn, standing
from tests.waiting import wait_until

QUICK = {
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "1",
}


def test_of_many_kills_and_resets_the_last_holds_also_when_compacted(kafka: LocalKafka, kafka_topics: Topics) -> None:
    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in QUICK.items()]
    topic = ConfigResource(ConfigResource.Type.TOPIC, kafka_topics.control, incremental_configs=changes)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (number,) = admin.list_topics(timeout=30).brokers
    often = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ConfigResource.Type.BROKER, str(number), incremental_configs=[often])
    for altered in admin.incremental_alter_configs([topic, broker]).values():
        altered.result()
    with StandIn(kafka.bootstrap, topics=kafka_topics) as worker:
        worker.control(standing(scope_id="killed"))
        worker.control(standing(ScopeKind.TOOL, "drop_table"))

        def is_compacted() -> bool:
            # The broker compacts a segment when a later record has closed it.
            for session in range(8):
                worker.control(standing(scope_id=f"s{session}"))
                worker.release(ScopeKind.SESSION, f"s{session}")
            with LogReader(kafka.bootstrap, [kafka_topics.control]) as reader:
                offsets = [(record.partition() or 0, record.offset() or 0) for record in reader.to_end()]
            return len(offsets) < sum(last + 1 for last in dict(sorted(offsets)).values()) / 2

        wait_until(is_compacted, "the broker has compacted the topic", deadline_s=120)
        with guard_of(kafka.bootstrap, "killed", topic_prefix=kafka_topics.prefix, mode="blocking") as again:
            assert attempts(again, 2, "get_asset") == [KILLED, KILLED]
        with guard_of(kafka.bootstrap, "s1", topic_prefix=kafka_topics.prefix, mode="blocking") as other:
            assert attempts(other, 1) == ["executed"]
            assert other.ready
            assert attempt(other, "drop_table") == KILLED


NAMES = (f"s{n}" for n in range(100))
MOVES = next(name for name in NAMES if partition_of(name, PARTITIONS) != partition_of(name, PARTITIONS + 2))


@pytest.fixture
def watched(kafka: LocalKafka, kafka_topics: Topics) -> Iterator[Guard]:
    with guard_of(kafka.bootstrap, MOVES, topic_prefix=kafka_topics.prefix, mode="async") as guard:
        for _ in range(5):
            attempt(guard)
        wait_until(lambda: guard.degraded is None, "all is well")
        yield guard


def test_an_agent_learns_that_nobody_watches_it_while_its_topic_is_gone_or_was_recreated(
    kafka: LocalKafka, kafka_topics: Topics, watched: Guard, caplog: pytest.LogCaptureFixture
) -> None:
    admin, topic = AdminClient({"bootstrap.servers": kafka.bootstrap}), kafka_topics.actions

    def is_made() -> bool:
        try:
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
        except KafkaException:  # its deletion is not over yet
            return False
        return True

    def is_told() -> bool:
        return attempt(watched) == "executed" and watched.degraded == RECREATED

    admin.delete_topics([topic])[topic].result()
    wait_until(lambda: watched.degraded == GONE, "the guard knows that it is gone")
    wait_until(is_made, "it is recreated")
    wait_until(is_told, "the guard knows that it was recreated", deadline_s=90)
    assert watched.dropped == 0
    assert f"haltline: actions of this process are not monitored: {GONE}" in caplog.text
