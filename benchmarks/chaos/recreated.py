"""The topic of actions gets more partitions, is deleted and recreated while its consumers run.

Its records are then gone from the broker. So nothing is sent meanwhile, and the records that all consumers had read
are kept here: they are compared as a log of their own, which precedes that of the current topic.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # its stubs miss it

from benchmarks.chaos.expected import BEFORE
from benchmarks.cluster import PARTITIONS, QUIET
from haltline.streams.replay.records import LogRecord

ADDED: Final = 2


@dataclass
class Gone:
    """The records of the topic when it was deleted; empty before."""

    topic: str
    records: list[LogRecord] = field(default_factory=list)
    """The records of the deleted topic, under the name that it has from then on."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """By topic and partition of the other topics: the end then."""

    def keep(self, records: Iterable[LogRecord], others: Iterable[LogRecord]) -> None:
        """Store the records just before the deletion, and the ends of other topics."""
        self.records = [record._replace(topic=self.topic + BEFORE) for record in records]
        self.ends = {}
        for record in others:
            place = (record.topic, record.partition)
            self.ends[place] = max(record.offset + 1, self.ends.get(place, 0))

    def precedes(self, record: LogRecord) -> bool:
        """Return whether a record of another topic is from before the deletion."""
        return record.offset < self.ends.get((record.topic, record.partition), 0)

    def name_of(self, topic: str, letter: LogRecord) -> str:
        """Return the topic that a dead letter is about."""
        return topic + BEFORE if topic == self.topic and self.precedes(letter) else topic


def add_partitions(bootstrap: str, topic: str) -> None:
    """Add partitions, as an operator might by mistake."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    admin.create_partitions([NewPartitions(topic, PARTITIONS + ADDED)])[topic].result()


def delete(bootstrap: str, topic: str) -> None:
    """Delete a topic. It may stay visible for a moment."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)  # kept until it has responded
    admin.delete_topics([topic])[topic].result()


def is_there(bootstrap: str, topic: str) -> bool:
    """Return whether the cluster has the topic; True if the request fails."""
    try:
        return topic in AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET).list_topics(timeout=5).topics
    except KafkaException:
        return True
