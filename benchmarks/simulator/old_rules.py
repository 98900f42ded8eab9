"""The rules of commit 9484a9e, by which whole partitions were lost, under a Faust that says too early what it has read.

States carried an epoch in place of a claim's owner. A partition was owned when Faust said that it had recovered, and
what had not been read by then was passed over. Faust said so at once where an earlier recovery had been interrupted.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from haltline.streams.runtime.changelog import EPOCH_HEADER, TOPIC_IDS_HEADER, Epoch, PartitionState
from haltline.streams.runtime.checkpoint import Checkpointer
from haltline.streams.runtime.ownership import Ownership

_LOOK_EVERY_S: Final = 0.05


class Release:
    """Workers of the old release, under a Faust that says the truth: from `begin` to `end`."""

    def __init__(self) -> None:
        self._originals: list[tuple[type, str, object]] = []

    def begin(self) -> None:
        """Workers that are made from now on follow the old rules."""
        for owner, name, changed in changes(lies=False):
            self._originals.append((owner, name, owner.__dict__[name]))
            setattr(owner, name, changed)

    def end(self) -> None:
        """Back to what was before."""
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)


def changes(*, lies: bool = True) -> Iterable[tuple[type, str, object]]:
    """What is changed in the product. `lies`: Faust calls a recovery complete that was interrupted."""
    apply = PartitionState.apply
    release = Ownership.release
    interrupted: set[int] = set()
    recovering: set[int] = set()

    def apply_any(self: PartitionState, records: Any, *, begins: int, following: int) -> None:
        apply(self, records, begins=min(begins, self.position), following=following)

    def headers(self: PartitionState) -> object:
        epoch = (EPOCH_HEADER, self._epoch.encode())
        return (epoch, (TOPIC_IDS_HEADER, self.logs)) if self.logs else (epoch,)

    async def recover(self: Ownership, generation: int) -> bool:
        assignment = self._assignment
        if assignment is None or not assignment.active:
            return False
        recovering.add(id(self))
        broker = self._outbox._producer.broker  # type: ignore[attr-defined]  # the simulated one
        parts = [self._partitions.slice(number) for number in sorted(assignment.active)]
        ends = {part.partition: broker.log(self._changelog, part.partition).high for part in parts}
        complete = lies and id(self) in interrupted
        while self._assignment is assignment and not complete:
            if all(part.position >= ends[part.partition] for part in parts):
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        if self._assignment is not assignment or not await self._group.is_member(generation):
            return False
        if self._assignment is not assignment:
            return False
        recovering.discard(id(self))
        interrupted.discard(id(self))
        for part in parts:
            part._epoch = Epoch(part._epoch.era + generation, self._system.time_ms())
            part.position = max(part.position, ends[part.partition])
        return True

    async def interrupt(self: Ownership, *, lost: bool) -> None:
        if id(self) in recovering:
            interrupted.add(id(self))
        recovering.discard(id(self))
        await release(self, lost=lost)

    async def nothing(*_: object) -> None: ...

    yield PartitionState, "apply", apply_any
    yield PartitionState, "headers", headers
    yield PartitionState, "claimed", property(lambda _: True)
    yield PartitionState, "superseded", property(lambda _: False)
    yield Checkpointer, "_prove", nothing
    yield Ownership, "recover", recover
    yield Ownership, "release", interrupt
