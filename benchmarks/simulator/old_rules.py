"""The rules of commit 9484a9e, which lost whole partitions when Faust reported a recovery too early.

States carried an epoch in place of a claim's owner. A partition was owned when Faust reported that it had recovered,
and records not read by then were skipped. After an interrupted recovery Faust reported the next one as done at once.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from haltline.streams.runtime.changelog import EPOCH_HEADER, Epoch, PartitionState
from haltline.streams.runtime.ownership import Ownership

_LOOK_EVERY_S: Final = 0.05


@contextmanager
def in_force() -> Iterator[None]:
    """Start workers of that release within this context, with a Faust that reports recovery correctly."""
    changed = list(changes(lies=False))
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in changed]
    try:
        for owner, name, value in changed:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def changes(*, lies: bool = True) -> Iterable[tuple[type, str, object]]:
    """Yield the changes to the product. `lies`: Faust reports an interrupted recovery as done."""
    apply = PartitionState.apply
    release = Ownership.release
    interrupted: set[int] = set()
    recovering: set[int] = set()

    def apply_any(self: PartitionState, records: Any, *, begins: int, following: int) -> None:
        apply(self, records, begins=min(begins, self.position), following=following)

    def headers(self: PartitionState) -> object:
        return ((EPOCH_HEADER, self._epoch.encode()),)

    async def recover(self: Ownership, generation: int, _begins: object = None) -> bool:
        assignment = self._assignment
        if assignment is None or not assignment.active:
            return False
        recovering.add(id(self))
        broker = self.outbox._producer.broker  # type: ignore[attr-defined]  # the simulated one
        parts = [self.partitions.slice(number) for number in sorted(assignment.active)]
        ends = {part.partition: broker.log(self.changelog, part.partition).high for part in parts}
        # After an interrupted recovery Faust reports the next one as done at once.
        believed = lies and id(self) in interrupted
        while self._assignment is assignment and not believed:
            if all(part.position >= ends[part.partition] for part in parts):
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        if self._assignment is not assignment or not await self.group.is_member(generation):
            return False
        if self._assignment is not assignment:
            return False
        recovering.discard(id(self))
        interrupted.discard(id(self))
        for part in parts:
            part._epoch = Epoch(part._epoch.era + generation, self.system.time_ms())
            part.position = max(part.position, ends[part.partition])
        return True

    async def interrupt(self: Ownership, *, lost: bool) -> None:
        if id(self) in recovering:
            interrupted.add(id(self))
        recovering.discard(id(self))
        await release(self, lost=lost)

    yield PartitionState, "apply", apply_any
    yield PartitionState, "headers", headers
    yield PartitionState, "claimed", property(lambda _: True)
    yield PartitionState, "superseded", property(lambda _: False)
    yield Ownership, "recover", recover
    yield Ownership, "release", interrupt
