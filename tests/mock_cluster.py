"""librdkafka's mock cluster with its whole test interface, by ctypes on the wheel's own library.

The product uses the public setting of it (`haltline.streams.local.embedded_broker`); here are the switches
that only tests need: partition counts, injected errors, brokers that go down.
"""

import ctypes
import itertools
import logging
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Final, Self

import confluent_kafka
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from haltline.streams.local.embedded_broker import EmbeddedBroker

_log = logging.getLogger(__name__)

_PRODUCER: Final = 0
_NO_ERROR: Final = 0
_ERROR_TEXT_BYTES: Final = 512
_ANSWER_WITHIN_S: Final = 10


class ApiKey(IntEnum):
    """Kafka's numbers of the requests that tests make fail."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2


@cache
def _library() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    folders = [package.parent / "confluent_kafka.libs", package / ".dylibs"]  # Linux, macOS wheels
    found = sorted(itertools.chain.from_iterable(folder.glob("librdkafka*") for folder in folders))
    if not found:
        raise FileNotFoundError(
            f"mock cluster: expected librdkafka* of the confluent-kafka wheel in {folders[0]} or {folders[1]}, "
            "got none (a confluent-kafka built from source uses the system's own library)"
        )
    library = ctypes.CDLL(str(found[0]))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[type | None, list[type]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (number, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2name": (text, [number]),
        "rd_kafka_thread_cnt": (number, []),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_topic_set_error": (None, [pointer, text, number]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_push_request_errors_array": (
            None,
            [pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(number)],
        ),
        "rd_kafka_mock_broker_set_down": (number, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_up": (number, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_rtt": (number, [pointer, ctypes.c_int32, number]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def client_threads() -> int:
    """How many threads librdkafka's clients and mock clusters of this process have now."""
    return int(_library().rd_kafka_thread_cnt())


def running_clients() -> int:
    """How many of librdkafka's clients this process has now, as Linux tells it; elsewhere 0.

    Each has one thread of this name. Its other threads are as many as it has connections, which come and go.
    """
    count = 0
    for name in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # ended between the two looks
            count += name.read_text() == "rdk:main\n"
    return count


class MockCluster:
    """Brokers 1 to `brokers` on loopback, until `close`. `bootstrap` is their address."""

    bootstrap: str

    def __init__(self, brokers: int = 1) -> None:
        self._rd = _library()
        self.brokers = range(1, brokers + 1)
        text = ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
        configuration = self._rd.rd_kafka_conf_new()
        self._rd.rd_kafka_conf_set(configuration, b"log_level", b"3", text, len(text))
        self._host = self._rd.rd_kafka_new(_PRODUCER, configuration, text, len(text))
        if not self._host:
            raise RuntimeError(f"mock cluster: expected a librdkafka handle, got: {text.value.decode()}")
        self._cluster = self._rd.rd_kafka_mock_cluster_new(self._host, brokers)
        if not self._cluster:
            raise RuntimeError(f"mock cluster: expected {brokers} brokers, got none")
        self.bootstrap = self._rd.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._rd.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)

    def create_topic(self, name: str, partitions: int = 4, replication: int = 1) -> None:
        """Make a topic; one that clients ask for without this gets 4 partitions.

        One that is there with as many partitions is taken as it is: a client that looks for
        another broker at a port that is this one's now may have asked for it already.
        """
        error = self._rd.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, replication)
        if error == KafkaError.TOPIC_ALREADY_EXISTS and self._partitions(name) == partitions:
            return
        self._check(error, f"topic {name} with {partitions} partitions")

    def fail_topic(self, name: str, error: int) -> None:
        """Answer metadata requests for the topic with a KafkaError code; 0 ends it."""
        self._rd.rd_kafka_mock_topic_set_error(self._cluster, name.encode(), error)

    def fail_next(self, request: ApiKey, errors: Sequence[int]) -> None:
        """Answer the next requests of this kind with these KafkaError codes, one each; 0 lets one pass."""
        codes = (ctypes.c_int * len(errors))(*errors)
        self._rd.rd_kafka_mock_push_request_errors_array(self._cluster, request, len(errors), codes)

    def set_down(self, broker: int = 1) -> None:
        """Close the broker's port and connections. Its partitions get no other leader."""
        self._check(self._rd.rd_kafka_mock_broker_set_down(self._cluster, broker), f"broker {broker} down")

    def respond_after(self, milliseconds: int, broker: int = 1) -> None:
        """Delay each response, so that several requests are in flight."""
        self._check(self._rd.rd_kafka_mock_broker_set_rtt(self._cluster, broker, milliseconds), f"broker {broker} slow")

    def set_up(self, broker: int = 1) -> None:
        """Open the port of a broker that is down; its records are still there."""
        self._check(self._rd.rd_kafka_mock_broker_set_up(self._cluster, broker), f"broker {broker} up")

    def close(self) -> None:
        """End the brokers. Closing twice does nothing."""
        if self._host is not None:
            self._rd.rd_kafka_mock_cluster_destroy(self._cluster)
            self._rd.rd_kafka_destroy(self._host)
            self._host = self._cluster = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _partitions(self, topic: str) -> int:
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        return len(client.list_topics(topic, timeout=_ANSWER_WITHIN_S).topics[topic].partitions)

    def _check(self, error: int, expected: str) -> None:
        if error != _NO_ERROR:
            raise RuntimeError(f"mock cluster: expected {expected}, got {self._rd.rd_kafka_err2name(error).decode()}")


class QuickBroker(EmbeddedBroker):
    """The product's embedded broker, but a new consumer group does not wait 3 s for more members.

    Those 3 s cannot be set from outside librdkafka, and every worker, sink and console that a test starts spends them.
    """

    def __init__(self) -> None:
        self._cluster = MockCluster()
        self.bootstrap = self._cluster.bootstrap
        # Topics appear by being asked for, as the product has it: librdkafka's call that makes one loses a wake-up now
        # and then, and then takes a second.
        self._host = Producer({"bootstrap.servers": self.bootstrap}, logger=_log)

    def close(self) -> None:
        """End the broker; its records are gone. Closing twice does nothing."""
        super().close()
        self._cluster.close()
