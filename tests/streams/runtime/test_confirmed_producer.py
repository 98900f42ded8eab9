"""The outbox: sends at once, to the right partition, and confirms only acknowledged records."""

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer, DeliveryFailed
from tests.mock_cluster import MockCluster

MakeCluster = Callable[[], MockCluster]


@pytest.fixture
def cluster(mock_cluster: MakeCluster) -> MockCluster:
    cluster = mock_cluster()
    cluster.create_topic("out", 12)
    return cluster


def there(cluster: MockCluster, topic: str = "out") -> list[Message]:
    with LogReader(cluster.bootstrap, [topic]) as reader:
        return list(reader.to_end())


def test_a_broker_that_is_away_loses_nothing_and_is_named(cluster: MockCluster) -> None:
    outbox = ConfirmedProducer(cluster.bootstrap)
    outbox.send("out", key=b"k", value=b"1", partition=0)
    outbox.flush(30)
    cluster.set_down()
    outbox.send("out", key=b"k", value=b"2", partition=0)
    with pytest.raises(DeliveryFailed, match="no report for 1 of them"):
        outbox.flush(0.2)
    cluster.set_up()
    outbox.flush(30)
    assert [message.value() for message in there(cluster)] == [b"1", b"2"]
    outbox = ConfirmedProducer(cluster.bootstrap)
    assert outbox.partitions("out") == 12
    cluster.set_down()
    with pytest.raises(RuntimeError, match=r"topic out: expected its metadata within 0 s, got "):
        outbox.partitions("out", within_s=0.2)


def test_a_queue_that_stays_full_is_an_error_and_never_a_loss(cluster: MockCluster) -> None:
    outbox = ConfirmedProducer(cluster.bootstrap, delivery_timeout_s=1, settings={"queue.buffering.max.messages": 3})
    outbox.partitions("out")
    cluster.set_down()

    def fill() -> None:
        for _ in range(4):
            outbox.send("out", key=b"k", value=b"v")

    with pytest.raises(DeliveryFailed):
        fill()
    with pytest.raises(DeliveryFailed):
        outbox.flush(30)  # those that had room are told of as well


def test_a_dead_letter_of_13_mib_is_carried_and_what_is_larger_than_any_topic_takes_is_refused_at_once(
    cluster: MockCluster,
) -> None:
    cluster.create_topic("dead", 1)
    outbox = ConfirmedProducer(cluster.bootstrap)
    outbox.send("dead", key=b"k", value=bytes(13 * 1024 * 1024), headers=(("reason", b"too large"),))
    outbox.flush(60)
    assert len(there(cluster, "dead")) == 1
    with pytest.raises(DeliveryFailed, match="topic out, partition None: expected a record of 15728640 bytes sent"):
        outbox.send("out", key=b"k", value=bytes(15 * 1024 * 1024))
