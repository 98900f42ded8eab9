"""An embedded broker in this process, for a first try, the demo and tests, without further software.

It is the mock cluster that librdkafka contains for its own tests, enabled by a public setting of its producer. It
speaks Kafka's protocol on loopback to clients of any process on the machine, but it is not Kafka: it keeps the newest 5
MiB of each partition in memory and nothing after the process ends, has no admin API, cannot seek by time, and its
transactions isolate nothing. Use a real Kafka for production.
"""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final

from confluent_kafka import Producer

from haltline.schemas.topics import Topics
from haltline.streams.kafka.topics import DEFAULT_CHANGELOGS

PARTITIONS: Final = 4
"""The number of partitions of every topic of an embedded broker, which is fixed."""

FETCH_WAIT_MS: Final = 10
"""The fetch wait (`fetch.wait.max.ms`) for consumers of an embedded broker.

The broker does not answer a waiting fetch when a record arrives, so the wait is the latency that a consumer sees."""

_ANSWER_WITHIN_S = 10.0

# librdkafka logs at every start that it ignores the bootstrap address, as intended.
_log = logging.getLogger(__name__)


class EmbeddedBroker(AbstractContextManager["EmbeddedBroker", None]):
    """A broker on a free port of loopback that lives until `close`, or the `with` block ends.

    `bootstrap` is its address, "127.0.0.1:port". Raises RuntimeError when librdkafka
    cannot start it.
    """

    bootstrap: str

    def __init__(self) -> None:
        self._host: Producer | None = Producer(
            {
                "bootstrap.servers": "ignored",  # required; the mock cluster replaces it
                "test.mock.num.brokers": 1,
            },
            logger=_log,
        )
        brokers = self._host.list_topics(timeout=_ANSWER_WITHIN_S).brokers
        if len(brokers) != 1:
            raise RuntimeError(
                "embedded broker: expected one broker from librdkafka's mock cluster, "
                f"got {len(brokers)} (setting test.mock.num.brokers)"
            )
        (broker,) = brokers.values()
        self.bootstrap = f"{broker.host}:{broker.port}"

    def ensure_topics(self, topics: Topics, *, changelogs: Sequence[str] = DEFAULT_CHANGELOGS) -> None:
        """Create every topic and the workers' changelogs, each with `PARTITIONS` partitions.

        Existing topics stay unchanged. Raises RuntimeError when one does not appear.
        """
        for name in (*topics.all, *changelogs):
            self.ensure_topic(name)

    def ensure_topic(self, name: str) -> None:
        """Create one topic by requesting its metadata, which is how this broker creates topics."""
        if self._host is None:
            raise RuntimeError(f"embedded broker: asked for topic {name} after it was closed")
        found = self._host.list_topics(name, timeout=_ANSWER_WITHIN_S).topics[name]
        if found.error is not None or len(found.partitions) != PARTITIONS:
            raise RuntimeError(
                f"embedded broker: topic {name}: expected {PARTITIONS} partitions, "
                f"got {len(found.partitions)} (error: {found.error})"
            )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the broker; its records are lost. A second call is a no-op."""
        if self._host is not None:
            self._host.close()
            self._host = None
