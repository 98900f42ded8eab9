"""The interface between the worker's runtime and the processor that it runs."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from haltline.streams.runtime.changelog import RawRecord
from haltline.streams.runtime.ports import Outbox

__all__ = ["Change", "Load", "Processor", "ProcessorFactory", "RawRecord"]

Change = tuple[int, bytes, bytes | None]
"""Partition, key, encoded state; None drops the key."""

Load = Callable[[bytes], bytes | None]
"""Returns the encoded state of a key, as last returned by `Processor.changed` or as recovered.

While a batch is processed, only keys of its partition are found.
"""


class Processor(Protocol):
    """A processor that keeps states by key, each in the partition of its records.

    All methods are called from one thread, one call at a time. An exception ends the process.
    """

    def process(self, records: Sequence[RawRecord]) -> None:
        """Apply one micro-batch of one topic partition, in offset order.

        Outputs are sent at once. It must not block or await. After a restart, records that a state already includes are
        delivered again, and must change nothing.
        """

    def rehearse(self, record: RawRecord) -> None:
        """Apply one record without any output, in a process that ends afterwards."""

    def pass_over(self, record: RawRecord, why: str) -> None:
        """Keep a record that ended processes, with the reason, without applying it."""

    def recovered(self, partition: int, states: Mapping[bytes, bytes]) -> None:
        """Load the encoded states of a newly owned partition, by key.

        Must be fast: there may be a million of them.
        """

    def begin_anew(self, key: bytes, encoded: bytes) -> bytes | None:
        """Return what is left of a state whose offsets refer to logs that no longer exist; None drops it."""

    def tick(self) -> None:
        """Do what is due by the clock; called some twenty times a second while partitions are owned.

        As in `process`, outputs are sent at once, and it must not block. What a state shows as done is not repeated.
        """

    def changed(self) -> Iterable[Change]:
        """Yield the changes since the last call; called about once a second, less often with many, also when idle.

        `process` may be called between two items: take the set of changed keys first, and encode each item when it is
        requested.
        """

    def idle_before_ms(self, partition: int) -> int:
        """Return the time (epoch milliseconds) before which a state must have been last written to be idle."""

    def retain_when_idle(self, key: bytes, encoded: bytes) -> bool:
        """Return whether an idle state is kept, and not checked again until it is written again.

        False drops it; forget its live object.
        """

    def revoke(self, partitions: Collection[int]) -> None:
        """Forget the live objects of these partitions, changed or not.

        Their states are in the table; if the group dropped this worker, the new owner recreates them.
        """


ProcessorFactory = Callable[[Load, Outbox], Processor]
