"""The switches of the mock cluster do what tests elsewhere rely on."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tests.cases import cases
from tests.mock_cluster import ApiKey, MockCluster
from tests.waiting import wait_until


def test_a_topic_has_the_partitions_asked_for(mock_cluster: Callable[..., MockCluster]) -> None:
    cluster = mock_cluster()
    cluster.create_topic("wide", partitions=7)
    there = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
    assert {name: len(topic.partitions) for name, topic in there.items()} == {"wide": 7}


def test_a_topic_that_a_client_was_quicker_to_ask_for_is_taken_as_it_is(
    mock_cluster: Callable[..., MockCluster],
) -> None:
    cluster = mock_cluster()
    client = Producer({"bootstrap.servers": cluster.bootstrap})
    assert len(client.list_topics("early", timeout=10).topics["early"].partitions) == 4
    cluster.create_topic("early", partitions=4)
    with pytest.raises(RuntimeError, match="expected topic early with 7 partitions, got TOPIC_ALREADY_EXISTS"):
        cluster.create_topic("early", partitions=7)


def test_the_first_member_of_a_group_is_assigned_without_the_usual_wait(
    mock_cluster: Callable[..., MockCluster],
) -> None:
    cluster = mock_cluster()
    cluster.create_topic("t", partitions=2)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    consumer.subscribe(["t"])
    wait_until(lambda: consumer.poll(0.05) or consumer.assignment(), "the group is assigned", deadline_s=2.5)
    assert [part.partition for part in consumer.assignment()] == [0, 1]
    consumer.close()


@cases(
    "error, delivered",
    {
        "an error that may pass is retried": (KafkaError.REQUEST_TIMED_OUT, None),
        "a final error is reported": (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED),
    },
)
def test_an_injected_error_reaches_the_producer(
    mock_cluster: Callable[..., MockCluster], error: int, delivered: int | None
) -> None:
    cluster = mock_cluster()
    cluster.create_topic("t", partitions=1)
    cluster.fail_next(ApiKey.PRODUCE, [error])
    assert _deliver(cluster) == [delivered]


def test_errors_that_are_not_used_up_can_be_taken_back(mock_cluster: Callable[..., MockCluster]) -> None:
    cluster = mock_cluster()
    cluster.create_topic("t", partitions=1)
    cluster.fail_next(ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3)
    cluster.stop_failing(ApiKey.PRODUCE)
    assert _deliver(cluster) == [None]


def test_a_broker_that_is_down_delivers_nothing_and_one_that_is_up_again_does(
    mock_cluster: Callable[..., MockCluster],
) -> None:
    cluster = mock_cluster()
    cluster.create_topic("t", partitions=1)
    cluster.set_down()
    assert _deliver(cluster, timeout_ms=300) == [KafkaError._MSG_TIMED_OUT]
    cluster.set_up()
    assert _deliver(cluster) == [None]


def _deliver(cluster: MockCluster, timeout_ms: int = 10_000) -> list[int | None]:
    reports: list[int | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": timeout_ms, "log_level": 2})
    producer.produce("t", b"x", on_delivery=lambda error, _: reports.append(error.code() if error else None))
    assert producer.flush(20) == 0
    return reports
