"""The outbox: at once, to the right partition, and never without proof."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Message

from haltline.streams.runtime.confirmed_producer import ConfirmedProducer, DeliveryFailed
from tests.mock_cluster import ApiKey, MockCluster
from tests.streams.counting import Log

MakeCluster = Callable[[], MockCluster]


@pytest.fixture
def cluster(mock_cluster: MakeCluster) -> MockCluster:
    cluster = mock_cluster()
    cluster.create_topic("out", 12)
    return cluster


def there(cluster: MockCluster, topic: str = "out") -> list[Message]:
    log = Log(cluster.bootstrap)
    found = log.records(topic)
    log.close()
    return found


def test_what_was_flushed_is_there_with_key_value_and_headers_and_its_offsets_are_reported(
    cluster: MockCluster,
) -> None:
    outbox = ConfirmedProducer(cluster.bootstrap)
    offsets: list[int] = []
    outbox.send("out", key=b"k", value=b"v", headers=(("a", b"1"), ("a", b"2")), partition=7, on_offset=offsets.append)
    for _ in range(50):
        outbox.send("out", key=b"k", value=None, partition=7, on_offset=offsets.append)
    outbox.flush(30)

    first, second, *_ = there(cluster)
    assert (first.partition(), first.key(), first.value()) == (7, b"k", b"v")
    assert (first.headers(), second.value()) == ([("a", b"1"), ("a", b"2")], None)
    assert offsets == list(range(51))


def test_keys_go_where_java_s_client_sends_them(cluster: MockCluster) -> None:
    hashes = {  # murmur2, as Java's client computes it
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
    }
    outbox = ConfirmedProducer(cluster.bootstrap)
    for key in hashes:
        outbox.send("out", key=key, value=b"v")
    outbox.flush(30)
    placed = {message.key(): message.partition() for message in there(cluster)}
    assert placed == {key: (number & 0x7FFFFFFF) % 12 for key, number in hashes.items()}


def test_a_receipt_is_complete_when_its_own_records_are_confirmed(cluster: MockCluster) -> None:
    outbox = ConfirmedProducer(cluster.bootstrap)
    for number in range(100):
        outbox.send("out", key=b"%d" % number, value=b"v")
    first = outbox.cut()
    outbox.send("out", key=b"later", value=b"v")
    assert (first.sent, first.complete) == (100, False)
    asyncio.run(outbox.confirmed(first))

    assert first.confirmed == 100
    second = outbox.cut()
    asyncio.run(outbox.confirmed(second))
    assert second.confirmed == 1
    assert outbox.cut().complete, "nothing sent is confirmed"


def test_a_record_that_the_broker_refuses_is_named_and_whoever_waits_for_it_hears_it(cluster: MockCluster) -> None:
    outbox = ConfirmedProducer(cluster.bootstrap)
    cluster.fail_next(ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 10)
    outbox.send("out", key=b"k", value=b"v", partition=5)

    with pytest.raises(DeliveryFailed, match=r"partition 5: expected .* delivered, got TOPIC_AUTHORIZATION_"):
        asyncio.run(outbox.confirmed(outbox.cut()))
    with pytest.raises(DeliveryFailed, match="topic out"):
        outbox.flush(30)
    with pytest.raises(DeliveryFailed):
        outbox.poll()  # and it stays so


def test_a_broker_that_is_away_for_a_while_loses_nothing(cluster: MockCluster) -> None:
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


def test_a_queue_that_is_full_for_a_moment_is_waited_for(cluster: MockCluster) -> None:
    outbox = ConfirmedProducer(cluster.bootstrap, settings={"queue.buffering.max.messages": 10})
    for number in range(1000):
        outbox.send("out", key=b"%d" % number, value=b"v")
    outbox.flush(30)
    assert len(there(cluster)) == 1000


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


def test_partitions_are_counted_and_a_broker_that_is_away_is_named(cluster: MockCluster) -> None:
    outbox = ConfirmedProducer(cluster.bootstrap)
    assert outbox.partitions("out") == 12
    cluster.set_down()

    with pytest.raises(RuntimeError, match=r"topic out: expected its metadata within 0 s, got "):
        outbox.partitions("out", within_s=0.2)
