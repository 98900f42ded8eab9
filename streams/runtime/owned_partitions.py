"""The changelog partitions that this process holds, and those of them that it owns: no other process may write them."""

import logging
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Final

from haltline.streams.runtime.changelog import Owner, PartitionState

_log: Final = logging.getLogger(__name__)


class OwnedPartitions:
    """The partitions of the table."""

    def __init__(self) -> None:
        self._held: dict[int, PartitionState] = {}
        self._owned: dict[int, PartitionState] = {}

    def keep(self, partitions: Set[int]) -> None:
        """Hold exactly these partitions, and own none; all others are dropped."""
        self._owned = {}
        self._held = {number: self._held.get(number) or PartitionState(number) for number in partitions}

    def own(self, partitions: Iterable[int]) -> list[PartitionState]:
        """Become the owner of these, whose claims were read. Raises RuntimeError if a claim was not."""
        owned = []
        for number in partitions:
            part = self._held[number]
            part.headers()  # raises if it is not the owner
            self._owned[number] = part
            owned.append(part)
            if part.fenced_keys:
                _log.warning("changelog partition %d: %d keys are written again", number, len(part.fenced_keys))
            if part.skipped:
                _log.error("changelog partition %d: %d records without a key are skipped", number, part.skipped)
        return owned

    def release(self) -> None:
        """Give up the ownership of all partitions."""
        self._owned = {}

    def slice(self, partition: int) -> PartitionState:
        """Return the states of a partition that is held."""
        return self._held[partition]

    def owned(self) -> Collection[PartitionState]:
        """The partitions that this process may write."""
        return self._owned.values()

    def owner_of(self, partition: int) -> Owner | None:
        """Return this process's claim; None if it does not own the partition."""
        part = self._owned.get(partition)
        return None if part is None else part.owner

    def numbers(self) -> Set[int]:
        """The numbers of the owned partitions. May be called by any thread."""
        return frozenset(self._owned)

    def compare_ends(self, ends: Mapping[int, int]) -> None:
        """Compare the end offsets. Raises ForeignWrite when another process writes to one of the partitions."""
        for partition, end in ends.items():
            part = self._owned.get(partition)
            if part is not None:
                part.check_end_offset(end)
