"""The progress of a worker in its source partitions: processed, acknowledged by a checkpoint, committed. No I/O."""

from collections.abc import Mapping

from haltline.streams.runtime.health import Partition


class SourceProgress:
    """The progress in the assigned partitions.

    Changed in the main loop; `positions`, `committed` and `recovered` may be called by any thread.
    """

    def __init__(self) -> None:
        self.partitions: tuple[Partition, ...] = ()
        """Assigned source partitions."""
        self._positions: dict[Partition, tuple[int, int | None]] = {}
        self._acknowledged: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}

    def assign(self, partitions: tuple[Partition, ...]) -> None:
        """Set the assigned partitions, which are not read yet."""
        self.partitions, self._acknowledged, self._committed = partitions, {}, {}

    def begin(self, offsets: Mapping[Partition, int], committed: Mapping[Partition, int]) -> None:
        """Start reading at these offsets; `committed` has those that come from a commit."""
        self._positions = {place: (offset, None) for place, offset in offsets.items()}
        self._committed = dict(committed)

    def release(self) -> None:
        """Stop reading. What was acknowledged may still be committed."""
        self.partitions, self._positions = (), {}

    def next_offset(self, place: Partition) -> int:
        """Return the first offset not processed. Raises KeyError for a partition that is not read."""
        return self._positions[place][0]

    def processed(self, place: Partition, following: int, record_ms: int | None) -> None:
        """Mark everything before `following` as processed; `record_ms` is the last record's time, None without one."""
        last_ms = self._positions[place][1] if record_ms is None else record_ms
        self._positions[place] = (following, last_ms)

    def acknowledge(self, place: Partition, following: int) -> None:
        """Mark everything before `following` as part of a checkpoint, so that it may be committed."""
        self._acknowledged[place] = following

    def uncommitted(self) -> dict[Partition, int]:
        """Return the offsets that are acknowledged and not committed."""
        return {
            place: offset for place, offset in self._acknowledged.items() if offset > self._committed.get(place, -1)
        }

    def on_commit(self, offsets: Mapping[Partition, int]) -> None:
        """Record these offsets as committed."""
        self._committed |= offsets

    def positions(self) -> Mapping[Partition, tuple[int, int | None]]:
        """By partition that is read: the first offset not processed, and the time (ms) of the last processed record."""
        return self._positions.copy()

    def committed(self, partition: Partition) -> int | None:
        """Return the last committed offset, or where reading began; None if neither is known."""
        return self._committed.get(partition)

    def recovered(self) -> bool:
        """Return whether the states of the assigned partitions are recovered, and their records are read."""
        return bool(self._positions)
