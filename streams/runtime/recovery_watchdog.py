"""Ends a recovery that stands still: Faust logs what it cannot read of a changelog, and waits without end."""

from typing import Final

from faust.tables.recovery import Recovery
from faust.types import TP

from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.runtime.faust_overrides import BatchConsumer, PartitionStateStore

_NOTHING: Final = (-1, -1)


class RecoveryStuck(KnownFailure):
    """Recovery made no progress for too long."""


class RecoveryWatch:
    """Looks at a recovery now and then. Times are seconds of a clock that does not go back."""

    def __init__(self, store: PartitionStateStore, *, changelog: str, limit_s: float) -> None:
        self._store = store
        self._changelog = changelog
        self._limit_s = limit_s
        self._seen = _NOTHING
        self._since_s = 0.0

    def rest(self) -> None:
        """There is nothing to recover."""
        self._seen = _NOTHING

    def look(self, recovery: Recovery, consumer: BatchConsumer, generation: int, now_s: float) -> None:
        """While partitions are being recovered. Raises RecoveryStuck."""
        progress = (generation, self._store.records_read)
        if progress != self._seen:
            self._seen, self._since_s = progress, now_s
            return
        for tp, last in recovery.active_highwaters.items():
            _pass_over_end(recovery, consumer, tp, last)
        if now_s - self._since_s > self._limit_s:
            left = {tp.partition: records for tp, records in recovery.active_remaining().items() if records}
            raise RecoveryStuck(
                f"recovery: expected to read on in {self._changelog} within {self._limit_s:.0f} s, got nothing; "
                f"offsets still to be read, by partition: {left}"
            )


def _pass_over_end(recovery: Recovery, consumer: BatchConsumer, tp: TP, last: int) -> None:
    """Take an end that holds no records as read.

    Where the last offsets of a partition are marks of a transaction, no record with such an offset
    ever comes, and Faust waits for one. Our own records are not transactional; somebody's repair may be.
    """
    read = recovery.active_offsets[tp]
    if read is None or read >= last:
        return
    position = consumer.read_up_to(tp, read)
    if position is not None and position > last:
        recovery.active_offsets[tp] = last
