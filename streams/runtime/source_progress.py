"""How far a worker is in its source partitions: processed, acknowledged by a checkpoint, committed. No I/O."""

from collections.abc import Mapping

from haltline.streams.runtime.health import Partition


class SourceProgress:
    """Of the assigned partitions. Changed in the main loop; `positions`, `committed` and `recovered` by any thread."""

    def __init__(self) -> None:
        self.partitions: tuple[Partition, ...] = ()
        """Assigned source partitions."""
        self._positions: dict[Partition, tuple[int, int | None]] = {}
        self._acknowledged: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}

    def assign(self, partitions: tuple[Partition, ...]) -> None:
        """These are assigned, and not read yet."""
        self.partitions, self._acknowledged, self._committed = partitions, {}, {}

    def begin(self, offsets: Mapping[Partition, int], committed: Mapping[Partition, int]) -> None:
        """They are read from these offsets on; `committed` has those that a commit named."""
        self._positions = {place: (offset, None) for place, offset in offsets.items()}
        self._committed = dict(committed)

    def release(self) -> None:
        """Nothing is read any more. What was acknowledged may still be committed."""
        self.partitions, self._positions = (), {}

    def next_offset(self, place: Partition) -> int:
        """The first offset that is not processed. Raises KeyError for a partition that is not read."""
        return self._positions[place][0]

    def processed(self, place: Partition, following: int, record_ms: int | None) -> None:
        """Everything before `following` is; `record_ms` is the time of the last record, None when there was none."""
        last_ms = self._positions[place][1] if record_ms is None else record_ms
        self._positions[place] = (following, last_ms)

    def acknowledge(self, place: Partition, following: int) -> None:
        """Everything before `following` is part of a checkpoint, so it may be committed."""
        self._acknowledged[place] = following

    def uncommitted(self) -> dict[Partition, int]:
        """The offsets that may be committed, and are not."""
        return {
            place: offset for place, offset in self._acknowledged.items() if offset > self._committed.get(place, -1)
        }

    def on_commit(self, offsets: Mapping[Partition, int]) -> None:
        """These are committed."""
        self._committed |= offsets

    def positions(self) -> Mapping[Partition, tuple[int, int | None]]:
        """By partition that is read: the first offset not processed, the time (ms) of the last processed record."""
        return self._positions.copy()

    def committed(self, partition: Partition) -> int | None:
        """The offset that was last committed, or where reading began; None: neither is known."""
        return self._committed.get(partition)

    def recovered(self) -> bool:
        """Whether the states of the assigned partitions are there, and their records are read."""
        return bool(self._positions)
