"""The partitions of the changelog that this process holds, and those of them that it alone may write."""

import logging
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Final

from haltline.streams.runtime.changelog import Owner, PartitionState
from haltline.streams.runtime.topic_incarnations import TopicIncarnations

_log: Final = logging.getLogger(__name__)


class OwnedPartitions:
    """The partitions of the table. `logs` is the mark of the logs that offsets of states count in now."""

    def __init__(self, incarnations: TopicIncarnations, logs: bytes) -> None:
        self._incarnations = incarnations
        self._logs = logs
        self._held: dict[int, PartitionState] = {}
        self._owned: dict[int, PartitionState] = {}

    def keep(self, partitions: Set[int]) -> None:
        """Own nothing from now on, and hold these; every other partition is forgotten."""
        self._owned = {}
        self._held = {number: self._held.get(number) or PartitionState(number, self._logs) for number in partitions}

    def own(self, partitions: Iterable[int]) -> list[PartitionState]:
        """Become the owner of these, whose claims were read. Raises RuntimeError where one was not."""
        owned = []
        for number in partitions:
            part = self._held[number]
            part.headers()  # of an owner only
            self._owned[number] = part
            owned.append(part)
            if part.fenced_keys:
                _log.warning("changelog partition %d: %d keys are written again", number, len(part.fenced_keys))
            if part.skipped:
                _log.error("changelog partition %d: %d records without a key are skipped", number, part.skipped)
        return owned

    def release(self) -> None:
        """None is ours any more."""
        self._owned = {}

    def slice(self, partition: int) -> PartitionState:
        """The states of a partition that is held."""
        return self._held[partition]

    def owned(self) -> Collection[PartitionState]:
        """What may be written now."""
        return self._owned.values()

    def owner_of(self, partition: int) -> Owner | None:
        """The claim of this process; None: the partition is not its own."""
        part = self._owned.get(partition)
        return None if part is None else part.owner

    def numbers(self) -> Set[int]:
        """Of those. May be called by any thread."""
        return frozenset(self._owned)

    def other_logs(self, partition: int, logs: bytes) -> Mapping[str, int]:
        """Of a state in this partition that was written when the logs were those: see `Processor.forget`."""
        return self._incarnations.ends_for(partition, logs)

    def compare_ends(self, ends: Mapping[int, int]) -> None:
        """Raises ForeignWrite when somebody else writes to one of them, by where they end."""
        for partition, end in ends.items():
            part = self._owned.get(partition)
            if part is not None:
                part.check_end_offset(end)
