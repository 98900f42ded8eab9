"""The compacted topics of the next set, as `haltline topics grow` writes them."""

from typing import Final

from haltline.streams.kafka.topic_sets import Headers
from haltline.streams.operator.changelog_topics import Changelogs
from haltline.streams.runtime.changelog import Owner, PartitionState
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer

CONFIRM_WITHIN_S: Final = 30.0
_FLUSH_EVERY: Final = 1000


class NextChangelog:
    """A changelog of the next set, written as the owner of its partitions: what an earlier run sent does not count.

    The keys that such a run left are removed.
    """

    def __init__(self, changelogs: Changelogs) -> None:
        """Raises as `Changelogs.claim` does."""
        self.producer = changelogs.producer()
        self._topic = changelogs.spans[0].topic
        self._parts: dict[int, PartitionState] = {}
        self._stale: dict[bytes, int] = {}
        self._put = 0
        for span in changelogs.spans:
            states = changelogs.read(span)
            changelogs.claim(span, states, self.producer)
            self._parts[span.partition] = states
            self._stale |= dict.fromkeys(states.values, span.partition)

    @property
    def owners(self) -> dict[int, Owner]:
        """The claims, by partition."""
        return {number: part.owner for number, part in self._parts.items() if part.owner is not None}

    def put(self, partition: int, key: bytes, value: bytes) -> None:
        """Write a state. Raises DeliveryFailed, ForeignWrite."""
        self._stale.pop(key, None)
        self._send(partition, key, value)
        self._put += 1
        if self._put % _FLUSH_EVERY == 0:
            self.producer.flush(CONFIRM_WITHIN_S)

    def finish(self) -> int:
        """Remove the keys that were not put. Returns the number of those that were."""
        for key, partition in self._stale.items():
            self._send(partition, key, None)
        self.producer.close(CONFIRM_WITHIN_S)
        return self._put

    def _send(self, partition: int, key: bytes, value: bytes | None) -> None:
        part = self._parts[partition]
        part.record_sent()
        self.producer.send(
            self._topic,
            key=key,
            value=value,
            headers=part.headers(),
            partition=partition,
            on_offset=part.record_confirmed,
        )


class NextEntries:
    """A compacted topic of entries. `stale` are the keys that an earlier run left."""

    def __init__(self, topic: str, producer: ConfirmedProducer, stale: set[bytes]) -> None:
        self._topic = topic
        self._producer = producer
        self._stale = stale
        self._put = 0

    def __enter__(self) -> "NextEntries":
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close(CONFIRM_WITHIN_S)

    def put(self, key: bytes, value: bytes | None, headers: Headers) -> None:
        """Write an entry. Raises DeliveryFailed."""
        self._stale.discard(key)
        self._producer.send(self._topic, key=key, value=value, headers=headers)
        self._put += 1
        if self._put % _FLUSH_EVERY == 0:
            self._producer.flush(CONFIRM_WITHIN_S)

    def finish(self) -> int:
        """Remove the keys that were not put. Returns the number of those that were."""
        for key in self._stale:
            self._producer.send(self._topic, key=key, value=None)
        self._producer.flush(CONFIRM_WITHIN_S)
        return self._put
