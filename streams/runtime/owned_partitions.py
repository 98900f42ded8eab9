"""The partitions of the changelog that this process alone may write: assigned, recovered and claimed."""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Final

from faust.types import TP

from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.runtime.faust_overrides import PartitionStateStore
from haltline.streams.runtime.topic_incarnations import TopicIncarnations

_log: Final = logging.getLogger(__name__)


class OwnedPartitions:
    """Satisfies `checkpoint.PartitionStates`."""

    def __init__(self, store: PartitionStateStore, incarnations: TopicIncarnations) -> None:
        self._store = store
        self._incarnations = incarnations
        self._owned: dict[int, PartitionState] = {}

    def claim(self, recovered: Iterable[TP], generation: int, last_offsets: Mapping[TP, int]) -> list[PartitionState]:
        """Become the owner of what was recovered up to `last_offsets`; the partitions of the table."""
        claimed = []
        for tp in recovered:
            part = self._store.slice(tp.partition)
            part.claim(generation, time.time_ns() // 1_000_000, last_offsets[tp])
            self._owned[tp.partition] = part
            claimed.append(part)
            if part.fenced_keys:
                _log.warning("changelog partition %d: %d keys are written again", tp.partition, len(part.fenced_keys))
            if part.skipped:
                _log.error("changelog partition %d: %d records without a key are skipped", tp.partition, part.skipped)
        return claimed

    def release(self) -> None:
        """None is ours any more."""
        self._owned = {}

    def slice(self, partition: int) -> PartitionState:
        """The states of a partition."""
        return self._store.slice(partition)

    def owned(self) -> Collection[PartitionState]:
        """What may be written now."""
        return self._owned.values()

    def numbers(self) -> Set[int]:
        """Their numbers. May be called by any thread."""
        return frozenset(self._owned)

    def other_logs(self, partition: int, logs: bytes) -> Mapping[str, int]:
        """Which offsets of a state do not count in the logs as they are."""
        return self._incarnations.ends_for(partition, logs)

    def compare_ends(self, ends: Mapping[int, int]) -> None:
        """Raises ForeignWrite when somebody else writes to one of them, by where they end."""
        for partition, end in ends.items():
            part = self._owned.get(partition)
            if part is not None:
                part.check_end_offset(end)
