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


def test_a_client_in_another_process_reads_and_writes_and_topics_that_are_there_keep_their_records(
    product_broker: EmbeddedBroker,
) -> None:
    there = AdminClient({"bootstrap.servers": product_broker.bootstrap}).list_topics(timeout=10).topics
    names = (*Topics().all, *DEFAULT_CHANGELOGS)
    assert {name: len(topic.partitions) for name, topic in there.items()} == dict.fromkeys(names, PARTITIONS)
    producer = Producer({"bootstrap.servers": product_broker.bootstrap})
    producer.produce(Topics().actions, b"from here", key=b"s-1")
    assert producer.flush(10) == 0
    product_broker.ensure_topics(Topics())
    other = [sys.executable, "-c", textwrap.dedent(OTHER_PROCESS), product_broker.bootstrap, Topics().actions]
    subprocess.run(other, check=True, timeout=90)

    seen: list[bytes | None] = []
    consumer = _consumer(product_broker.bootstrap, Topics().actions)
    wait_until(lambda: len(_poll_into(seen, consumer)) == 2, "both records arrive")
    consumer.close()
    assert seen == [b"from here", b"seen from here"]


def test_ends_when_the_block_ends_and_knows_no_other_one() -> None:
    with EmbeddedBroker() as broker, EmbeddedBroker() as other:
        broker.ensure_topic("only-here")
        assert AdminClient({"bootstrap.servers": other.bootstrap}).list_topics(timeout=10).topics == {}
        host, port = broker.bootstrap.split(":")
        assert host == "127.0.0.1", "it listens on loopback only"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)
    broker.close()  # a second time is fine
    with pytest.raises(RuntimeError, match=r"asked for topic haltline\.actions after it was closed"):
        broker.ensure_topics(Topics())


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
