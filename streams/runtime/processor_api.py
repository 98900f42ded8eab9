"""What the worker's runtime asks of what it runs; it knows nothing else of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from haltline.streams.runtime.changelog import RawRecord
from haltline.streams.runtime.ports import Outbox

__all__ = ["Change", "Load", "Processor", "ProcessorFactory", "RawRecord"]

Change = tuple[int, bytes, bytes | None]
"""Partition, key, encoded state; None drops the key."""

Load = Callable[[bytes], bytes | None]
"""The encoded state of a key, as the last call of `Processor.changed` gave it out, or as it was
recovered. While a batch is processed only keys of its partition are found."""


class Processor(Protocol):
    """Keeps states by key, each in the partition of the records that make it.

    Everything is called from one thread, one call at a time. What raises ends the process.
    """

    def process(self, records: Sequence[RawRecord]) -> None:
        """Apply one micro-batch of one topic partition, in offset order.

        Outputs go through the outbox at once. Must not block or await. Records that a state
        includes already come again after a restart; they must change nothing.
        """

    def recovered(self, partition: int, states: Mapping[bytes, bytes]) -> None:
        """Take in the encoded states of a partition that is this worker's from now on, by key.

        Must be quick: there may be a million of them.
        """

    def forget(self, key: bytes, encoded: bytes, ends: Mapping[str, int]) -> bytes:
        """The same state without what it includes of logs that are no more.

        `ends` has topics with the first offset that their partition cannot have had when this worker was given it: a
        state that includes that offset, or a later one, counts in a log that is no more. 0: whatever it includes.
        """

    def tick(self) -> None:
        """Do what is due by the clock; called some twenty times a second while there is something to own.

        As `process`: outputs go at once, must not block, and is not called again for what a state shows as done.
        """

    def changed(self) -> Iterable[Change]:
        """What changed since the last call; called about once a second, with many of them less often; also when idle.

        `process` may be called between two items: take the set of what changed first, and
        encode each item when it is asked for.
        """

    def idle_before_ms(self, partition: int) -> int:
        """States of the partition that were last written before this moment (epoch milliseconds) are idle."""

    def retain_when_idle(self, key: bytes, encoded: bytes) -> bool:
        """Whether an idle state is kept, and not asked about until it is written again.

        False drops it; forget its live object.
        """

    def revoke(self, partitions: Collection[int]) -> None:
        """Forget the live objects of these partitions, changed or not.

        They are in the table, or, when the group dropped this worker, its new owner makes
        them again.
        """


ProcessorFactory = Callable[[Load, Outbox], Processor]
