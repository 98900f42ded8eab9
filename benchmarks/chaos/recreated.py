"""The topic of actions gets more partitions, is deleted and recreated while its consumers run.

Its records are then gone from the broker. So nothing is sent meanwhile, and the records that all consumers had read
are kept here: they are compared as a log of their own, which precedes that of the current topic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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
    letters: dict[int, int] = field(default_factory=dict)
    """By partition of the dead letter topic: its end then. Dead letters before it are about the deleted topic."""

    def keep(self, records: Iterable[LogRecord], dead_letters: Iterable[LogRecord]) -> None:
        """Store the records just before the deletion."""
        self.records = [record._replace(topic=self.topic + BEFORE) for record in records]
        self.letters = {}
        for letter in dead_letters:
            self.letters[letter.partition] = max(letter.offset + 1, self.letters.get(letter.partition, 0))

    def name_of(self, topic: str, letter: LogRecord) -> str:
        """Return the topic that a dead letter is about."""
        is_gone = topic == self.topic and letter.offset < self.letters.get(letter.partition, 0)
        return topic + BEFORE if is_gone else topic


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


def same_offsets(
    expected: Mapping[str, Any], actual: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the states without offsets of deleted topics: a worker drops those when it next writes a state."""
    expected = {key: {**state, "offsets": dict(state.get("offsets", {}))} for key, state in expected.items()}
    actual = {key: {**state, "offsets": dict(state.get("offsets", {}))} for key, state in actual.items()}
    for key, state in expected.items():
        offsets = state["offsets"]
        for deleted in [name for name in offsets if name.endswith(BEFORE)]:
            del offsets[deleted]
            topic = deleted.removesuffix(BEFORE)
            if topic not in offsets and key in actual:
                actual[key]["offsets"].pop(topic, None)
    return expected, actual
