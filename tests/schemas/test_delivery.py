"""A record that the broker refused, and that librdkafka reports as delivered because a later one was."""

import asyncio
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.kafka_transport import KafkaTransport
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer, DeliveryFailed
from tests.mock_cluster import ApiKey, MockCluster

MakeCluster = Callable[[], MockCluster]
TOPIC = "haltline.actions"
TRIES = 50
"""Two records may travel in one request, and are then refused together."""
APART_S = 0.02
RESPONSE_MS = 200


@pytest.fixture
def cluster(mock_cluster: MakeCluster) -> MockCluster:
    cluster = mock_cluster()
    cluster.create_topic(TOPIC, 1)
    return cluster


def in_topic(cluster: MockCluster) -> list[bytes | None]:
    cluster.respond_after(0)
    with LogReader(cluster.bootstrap, [TOPIC]) as reader:
        return [message.value() for message in reader.to_end()]


def refuse_the_next(cluster: MockCluster) -> None:
    """Refuse one request, and accept what is sent before its response."""
    cluster.respond_after(RESPONSE_MS)
    cluster.fail_next(ApiKey.PRODUCE, [KafkaError.NOT_LEADER_FOR_PARTITION])


def test_a_worker_s_producer_raises_for_it(cluster: MockCluster) -> None:
    def send() -> None:
        outbox = ConfirmedProducer(cluster.bootstrap)
        for value in (b"begin", b"a", b"b"):
            outbox.send(TOPIC, key=b"k", value=value)
            if value == b"begin":
                outbox.flush(30)
                refuse_the_next(cluster)
            time.sleep(APART_S)
        asyncio.run(outbox.confirmed(outbox.cut()))

    def send_until_one_is_lost() -> None:
        for _ in range(TRIES):
            send()

    with pytest.raises(
        DeliveryFailed,
        match=r"topic haltline.actions, partition 0: expected a record of 1 bytes "
        "delivered, got _FAIL: the broker confirmed a later record of the partition, but not this one",
    ):
        send_until_one_is_lost()


def test_a_guard_sends_it_again(cluster: MockCluster) -> None:
    link = KafkaTransport(GuardSettings(bootstrap=cluster.bootstrap, mode="blocking"))
    sent = [b"begin"]
    link.publish(TOPIC, b"begin")
    link.hub.outbox.producer.flush()
    for number in range(TRIES):
        refuse_the_next(cluster)
        for part in "ab":
            sent.append(f"{number}{part}".encode())
            link.publish(TOPIC, sent[-1])
            time.sleep(APART_S)
        link.hub.outbox.producer.flush()
        if in_topic(cluster) != sent:
            break
    assert sorted(filter(None, in_topic(cluster))) == sorted(sent)
    assert in_topic(cluster)[-2:] == [sent[-1], sent[-2]], "the second one overtook the first"
    assert (link.undelivered, link.close(10.0)) == (0, 0)
