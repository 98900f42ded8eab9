"""The topic of actions is given more partitions, deleted and recreated under everybody who reads it.

What was in it is gone from the broker then. So nothing is sent meanwhile, and what everybody had read of it is kept
here: afterwards it is compared as the log of a life of its own, before that of the topic which is there.
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
    """What the topic had when it was deleted; nothing while it was not."""

    topic: str
    records: list[LogRecord] = field(default_factory=list)
    """Of the deleted topic, under the name that it has from then on."""
    letters: dict[int, int] = field(default_factory=dict)
    """By partition of the dead letters: where it ended. Those before that are of the deleted topic."""

    def keep(self, records: Iterable[LogRecord], dead_letters: Iterable[LogRecord]) -> None:
        """The last look at it."""
        self.records = [record._replace(topic=self.topic + BEFORE) for record in records]
        self.letters = {}
        for letter in dead_letters:
            self.letters[letter.partition] = max(letter.offset + 1, self.letters.get(letter.partition, 0))

    def name_of(self, topic: str, letter: LogRecord) -> str:
        """Which topic a dead letter is about."""
        is_gone = topic == self.topic and letter.offset < self.letters.get(letter.partition, 0)
        return topic + BEFORE if is_gone else topic


def add_partitions(bootstrap: str, topic: str) -> None:
    """As an operator does who does not know that it may not be done."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    admin.create_partitions([NewPartitions(topic, PARTITIONS + ADDED)])[topic].result()


def delete(bootstrap: str, topic: str) -> None:
    """Deletes a topic; it may be seen for a moment longer."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)  # has to be there until it has answered
    admin.delete_topics([topic])[topic].result()


def is_there(bootstrap: str, topic: str) -> bool:
    """Whether the cluster has it; who cannot tell has it."""
    try:
        return topic in AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET).list_topics(timeout=5).topics
    except KafkaException:
        return True


def same_offsets(
    expected: Mapping[str, Any], actual: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """States without what they include of deleted topics: it is forgotten when a state is next written, or never."""
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
