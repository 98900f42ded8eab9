"""How this process becomes the owner of changelog partitions: it writes a claim, reads up to it, and asks the group.

`haltline.streams.runtime.changelog` explains why that suffices. The last assignment of the group counts: each step
checks that its assignment is still current.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING

from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.runtime.changelog import ID_BYTES, Claim, PartitionState
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer, Receipt
from haltline.streams.runtime.membership import Membership
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.source_reader import Fetched, SourceReader
from haltline.streams.system import REAL, System

_log: Final = logging.getLogger(__name__)

_NOTHING_COMMITTED: Final[Mapping[int, bytes]] = {}


class RecoveryStuck(KnownFailure):
    """Reading up to our own claims makes no progress."""


@dataclass(eq=False)
class Ownership:
    """Claims and reads the assigned partitions, and keeps the standby partitions up to date.

    All methods are called in the event loop. `open_reader` makes the reader of the changelog from a function that
    receives its batches; `on_failure` is called with errors that are fatal.
    """

    partitions: OwnedPartitions
    outbox: ConfirmedProducer
    group: Membership
    _: KW_ONLY
    changelog: str
    logs: bytes = b""
    """`Logs.mark` of this process."""
    open_reader: InitVar[Callable[[Callable[[Fetched], None]], SourceReader]]
    stuck_after_s: float
    on_failure: Callable[[BaseException], object]
    system: System = REAL

    def __post_init__(self, open_reader: Callable[[Callable[[Fetched], None]], SourceReader]) -> None:
        self._reader = open_reader(self._take_records)
        self._assignment: _Assignment | None = None
        self._claims: Receipt | None = None
        self._progress = asyncio.Event()
        self._claimed_at: dict[int, int] = {}
        self._seen: Mapping[int, int] = {}
        self._seen_s = 0.0

    def assign(self, active: Set[int], standbys: Set[int]) -> None:
        """Hold these partitions: read them all, own none yet. States that are already held are kept."""
        self._assignment = _Assignment(active, standbys - active)
        self._claimed_at.clear()
        self.partitions.keep(active | standbys)
        self._read(active | standbys)

    async def recover(self, generation: int, begins: Mapping[int, bytes] = _NOTHING_COMMITTED) -> bool:
        """Claim the partitions that were assigned in this generation, and read them up to the claims.

        `begins`: by partition, what the claim says of where its owner begins. Returns False if they have been revoked
        meanwhile, or the group has dropped this member. Raises OlderRelease, DeliveryFailed.
        """
        assignment = self._assignment
        if assignment is None or not assignment.active:
            return False
        unclaimed = [self.partitions.slice(number) for number in sorted(assignment.active)]
        # The group is asked before claiming, so that a dropped member disturbs no owner; and after everything is read,
        # because a later owner's claim then follows everything that this process writes.
        while await self._is_still(assignment, generation):
            if not unclaimed:
                return True
            await self._claim(unclaimed, begins)
            while self._assignment is assignment and not all(part.claimed or part.superseded for part in unclaimed):
                self._progress.clear()
                await self._progress.wait()
            unclaimed = [part for part in unclaimed if not part.claimed]
        return False

    def is_claimed(self) -> bool:
        """Return whether no other claim follows ours in any assigned partition. Raises OlderRelease."""
        return self._assignment is not None and all(
            self.partitions.slice(number).claimed for number in self._assignment.active
        )

    def own(self) -> Collection[PartitionState]:
        """Become the owner of the recovered partitions, and return them. Reading of the standbys continues."""
        assignment = self._assignment
        if assignment is None:
            raise RuntimeError("ownership: expected partitions that are assigned, got none")
        owned = self.partitions.own(sorted(assignment.active))
        self._read(assignment.standbys)
        claims = ", ".join(f"{part.partition} (claim at offset {part.owner.claim})" for part in owned if part.owner)
        _log.info("worker: owns partitions %s", claims)
        return owned

    async def release(self, *, lost: bool) -> None:
        """Own and read nothing. Unless the group has dropped this member, waits for claims that are being sent."""
        self._assignment = None
        self._progress.set()
        self._reader.stop()
        self.partitions.release()
        if self._claims is not None and not lost:
            await self.outbox.confirmed(self._claims)

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def remaining(self) -> int:
        """The number of offsets still to be read up to our claims, as far as their offsets are known."""
        positions = self._unclaimed()
        return sum(max(0, self._claimed_at.get(number, 0) + 1 - position) for number, position in positions.items())

    def check_progress(self) -> None:
        """Check that recovery progresses; call it periodically.

        Raises RecoveryStuck when it has stalled for too long.
        """
        positions, now_s = self._unclaimed(), self.system.monotonic()
        if positions != self._seen:
            self._seen, self._seen_s = positions, now_s
        elif positions and now_s - self._seen_s > self.stuck_after_s:
            raise RecoveryStuck(
                f"recovery: expected to read on in {self.changelog} within {self.stuck_after_s:.0f} s, up to the "
                f"claims of this process, got nothing; offsets read next, by partition: {positions}"
            )

    def _unclaimed(self) -> Mapping[int, int]:
        """The next offset to read, by partition that is not yet owned."""
        active = () if self._assignment is None else self._assignment.active
        parts = map(self.partitions.slice, active)
        return {part.partition: part.position for part in parts if not part.claimed}

    async def _is_still(self, assignment: "_Assignment", generation: int) -> bool:
        if self._assignment is assignment and not await self.group.is_member(generation):
            _log.warning("worker: the group dropped this member while it recovered; it joins again")
            return False
        return self._assignment is assignment

    async def _claim(self, parts: Iterable[PartitionState], begins: Mapping[int, bytes]) -> None:
        for part in parts:
            claim = Claim(self.system.random_bytes(ID_BYTES), self.logs, begins.get(part.partition, b""))
            part.expect(claim)
            self.outbox.send(
                self.changelog,
                key=claim.key,
                value=None,
                headers=claim.headers,
                partition=part.partition,
                on_offset=partial(self._claimed_at.__setitem__, part.partition),
            )
        self._claims = self.outbox.cut()
        await self.outbox.confirmed(self._claims)

    def _read(self, numbers: Iterable[int]) -> None:
        positions = {number: self.partitions.slice(number).position for number in numbers}
        # With no state held, the broker returns the first offset: the embedded one drops old records.
        self._reader.begin({(self.changelog, n): at or OFFSET_BEGINNING for n, at in positions.items()})

    def _take_records(self, fetched: Fetched) -> None:
        try:
            part = self.partitions.slice(fetched.place[1])
            part.apply(fetched.records, begins=fetched.begins, following=fetched.following)
        except Exception as failure:
            self.on_failure(failure)
        self._progress.set()


class _Assignment(NamedTuple):
    active: Set[int]
    standbys: Set[int]
