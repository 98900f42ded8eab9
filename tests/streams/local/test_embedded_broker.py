import socket
import subprocess
import sys
import textwrap

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from haltline.schemas.topics import Topics
from haltline.streams.kafka.topics import DEFAULT_CHANGELOGS
from haltline.streams.local.embedded_broker import FETCH_WAIT_MS, PARTITIONS, EmbeddedBroker
from tests.waiting import wait_until

OTHER_PROCESS = """
    import sys
    from confluent_kafka import Consumer, Producer

    bootstrap, topic = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "other", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    record = consumer.poll(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, key=record.key(), value=b"seen " + record.value())
    sys.exit(producer.flush(30))
"""


def test_listens_on_loopback_only(product_broker: EmbeddedBroker) -> None:
    host, port = product_broker.bootstrap.split(":")
    assert host == "127.0.0.1"
    socket.create_connection((host, int(port)), timeout=5).close()


def test_every_topic_and_the_changelogs_appear_with_the_same_number_of_partitions(
    product_broker: EmbeddedBroker,
) -> None:
    there = AdminClient({"bootstrap.servers": product_broker.bootstrap}).list_topics(timeout=10).topics
    assert {name: len(topic.partitions) for name, topic in there.items()} == dict.fromkeys(
        (*Topics().all, *DEFAULT_CHANGELOGS), PARTITIONS
    )


def test_topics_that_are_there_keep_their_records(product_broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": product_broker.bootstrap})
    producer.produce(Topics().actions, b"a record", partition=0)
    assert producer.flush(10) == 0
    product_broker.ensure_topics(Topics())
    assert _consume_one(product_broker.bootstrap, Topics().actions) == b"a record"


def test_a_client_in_another_process_reads_and_writes(product_broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": product_broker.bootstrap})
    producer.produce(Topics().actions, b"from here", key=b"s-1")
    assert producer.flush(10) == 0

    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OTHER_PROCESS), product_broker.bootstrap, Topics().actions],
        check=True,
        timeout=90,
    )

    seen: list[bytes | None] = []
    consumer = _consumer(product_broker.bootstrap, Topics().actions)
    wait_until(lambda: len(_poll_into(seen, consumer)) == 2, "both records arrive")
    consumer.close()
    assert seen == [b"from here", b"seen from here"]


def test_ends_when_the_block_ends() -> None:
    with EmbeddedBroker() as broker:
        host, port = broker.bootstrap.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)
    broker.close()  # a second time is fine
    with pytest.raises(RuntimeError, match=r"asked for topic haltline\.actions after it was closed"):
        broker.ensure_topics(Topics())


def test_two_brokers_do_not_know_each_other() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        one.ensure_topic("only-here")
        assert one.bootstrap != other.bootstrap
        assert AdminClient({"bootstrap.servers": other.bootstrap}).list_topics(timeout=10).topics == {}


def _consumer(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
        }
    )
    consumer.subscribe([topic])
    return consumer


def _poll_into(seen: list[bytes | None], consumer: Consumer) -> list[bytes | None]:
    record = consumer.poll(0.1)
    if record is not None and record.error() is None:
        seen.append(record.value())
    return seen


def _consume_one(bootstrap: str, topic: str) -> bytes | None:
    seen: list[bytes | None] = []
    consumer = _consumer(bootstrap, topic)
    wait_until(lambda: _poll_into(seen, consumer), f"a record arrives from {topic}")
    consumer.close()
    return seen[0]
