import socket

import pytest
from confluent_kafka.admin import AdminClient

from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker


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
