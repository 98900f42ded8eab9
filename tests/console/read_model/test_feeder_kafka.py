"""The read model on a real Kafka, whose topic is given more partitions; recreated ones: `make simulate`."""

import uuid
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]  # its stubs miss them

from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.store import open_store
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.kafka import LocalKafka
from tests.waiting import wait_until


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
