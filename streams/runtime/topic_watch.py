"""A watch of a worker's topics: whether they exist, are still the same, and have as many partitions."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaException

from haltline.streams.kafka import broker_retry
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.partition_offsets import OLD_EPOCH, Partition, PartitionOffsets
from haltline.streams.runtime.topic_ids import Logs, Topic, TopicIds
from haltline.streams.system import REAL, System

OTHER_PARTITIONS: Final = (
    "the number of partitions cannot be changed under running sessions, whose states are in the partitions of their "
    "keys: delete the topics that differ and recreate them with the number of the others (haltline topics create "
    "--partitions); for more partitions, haltline topics new"
)
"""The remedy for topics with different numbers of partitions."""

_ANSWER_WITHIN_S: Final = 60.0
_REQUEST_WITHIN_S: Final = 10.0

log = logging.getLogger(__name__)


class TopicRecreated(KnownFailure):
    """A topic was deleted and recreated while a worker or console had offsets of its predecessor."""

    @classmethod
    def of_ids(cls, topic: str, expected: str, got: str) -> "TopicRecreated":
        """The topic with this name has another id."""
        return cls(
            f"topic {topic} was recreated: expected the one with id {expected}, got one with id {got}; the next start "
            "reads it as a new topic"
        )

    @classmethod
    def of_offsets(cls, topic: str, partition: int, follows: int, got: int) -> "TopicRecreated":
        """Return the exception for a partition whose offsets start again."""
        return cls(
            f"topic {topic}, partition {partition}: expected offset {follows} or a later one, got {got}: the topic "
            "was recreated, or has lost records; the next start reads it as a new topic"
        )


class TopicWatch:
    """The topics of one worker, as they were at its start, and changes since. Safe to use from any thread.

    Raises KnownFailure when the cluster does not answer at the start, or one of the topics does not exist.
    """

    def __init__(
        self, client: Mapping[str, ClientSetting], sources: Sequence[str], changelog: str, *, system: System = REAL
    ) -> None:
        self._system = system
        self._offsets = PartitionOffsets(client, _REQUEST_WITHIN_S, system=system)
        self._ids = TopicIds(client, system=system)
        self._names = (*sources, changelog)
        self._began_with = self._topics_at_start()
        self.logs = Logs.of(self._began_with, changelog)
        """The logs of this process's offsets, fixed at its start."""
        self.partitions = self._began_with[changelog].partitions
        """The number of partitions of each topic."""
        self.troubles: tuple[str, ...] = ()
        """Human-readable problems that keep published records from being read, with remedies; as of the last check."""

    def look(self) -> None:
        """Compare the current topics. Raises TopicRecreated; KafkaException when the cluster does not answer."""
        now = self._ids.of(self._names)
        troubles: list[str] = []
        for name, before in self._began_with.items():
            topic = now.get(name)
            if topic is None:
                troubles.append(
                    f"topic {name} no longer exists: none of its records is read. Create it again with "
                    f"{before.partitions} partitions (haltline topics create --partitions): the worker then reads it "
                    "as a new topic"
                )
            elif topic.id is not None and before.id is not None and topic.id != before.id:
                raise TopicRecreated.of_ids(name, before.id, topic.id)
            elif topic.partitions != before.partitions:
                troubles.append(
                    f"topic {name}: expected {before.partitions} partitions, as when this worker began, got "
                    f"{topic.partitions}: sessions in others than the first {before.partitions} are not watched; "
                    f"{OTHER_PARTITIONS}"
                )
        for trouble in troubles:
            if trouble not in self.troubles:
                log.error("%s", trouble)
        self.troubles = tuple(troubles)

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return each partition's end offset. Retries for a while, then raises KafkaException."""
        return self._answer_of(partial(self._offsets.ends, partitions))

    def begins(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first offset that each partition keeps. Retries and raises like `ends`."""
        return self._answer_of(partial(self._offsets.begins, partitions))

    def _answer_of(self, ask: Callable[[], dict[Partition, int]]) -> dict[Partition, int]:
        return broker_retry.answered(
            ask, within_s=_ANSWER_WITHIN_S, also=broker_retry.AWAY | OLD_EPOCH, system=self._system
        )

    def _topics_at_start(self) -> dict[str, Topic]:
        ask = partial(self._ids.of, self._names)
        try:
            found = broker_retry.answered(ask, within_s=_REQUEST_WITHIN_S, system=self._system)
        except KafkaException as failed:
            expected = f"topics {', '.join(self._names)}: expected their metadata within {_REQUEST_WITHIN_S:.0f} s"
            raise KnownFailure(f"{expected}, got {failed}") from failed
        if missing := [name for name in self._names if name not in found]:
            raise KnownFailure(f"topics: expected {missing} to be there (haltline topics create), got none of them")
        if len({topic.partitions for topic in found.values()}) != 1:  # they are joined by partition number
            counts = {name: topic.partitions for name, topic in found.items()}
            raise KnownFailure(
                f"topics: expected the same number of partitions in each, got {counts}; {OTHER_PARTITIONS}"
            )
        return found
