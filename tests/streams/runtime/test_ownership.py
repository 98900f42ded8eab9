"""The end of the recovery of a changelog partition; the simulator tests its assignment."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.runtime.changelog import EPOCH_HEADER, ChangelogGap, Claim, Epoch, OlderRelease
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer, Receipt
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.ownership import Ownership, RecoveryStuck
from haltline.streams.runtime.source_reader import Fetched, SourceReader
from haltline.streams.system import System

CHANGELOG = "changelog"
CLAIM = Claim(b"another".ljust(16))


class Process:
    """One process with its ownership of partition 0; log and group are in the test's hands."""

    def __init__(self, *records: tuple[bytes, bytes | None, Any]) -> None:
        self.now_s = 0.0
        self.log: list[LogRecord] = []
        self.position = 0
        self.take: Callable[[Fetched], None] = lambda _: None
        self.failures: list[BaseException] = []
        for record in records:
            self._append(*record)
        self.ownership = Ownership(
            OwnedPartitions(),
            cast(ConfirmedProducer, self),
            cast(Any, self),
            changelog=CHANGELOG,
            open_reader=self._open_reader,
            stuck_after_s=10.0,
            on_failure=self.failures.append,
            system=System(monotonic=lambda: self.now_s, random_bytes=lambda _: b"own".ljust(16)),
        )
        self.ownership.assign({0}, set())

    def _append(self, key: bytes, value: bytes | None, headers: Any) -> int:
        self.log.append(LogRecord(CHANGELOG, 0, len(self.log), 0, key, value, tuple(headers)))
        return len(self.log) - 1

    def _open_reader(self, take: Callable[[Fetched], None]) -> SourceReader:
        self.take = take
        return cast(SourceReader, self)

    def begin(self, _offsets: Mapping[Partition, int]) -> None: ...

    def read(self, up_to: int | None = None) -> None:
        """Read the present records from the position on, up to (not including) an offset."""
        begins, self.position = self.position, len(self.log) if up_to is None else up_to
        self.take(Fetched(0, (CHANGELOG, 0), begins, self.log[begins : self.position]))

    def send(self, topic: str, *, on_offset: Callable[[int], None], **record: Any) -> None:
        assert (topic, record["partition"]) == (CHANGELOG, 0)
        on_offset(self._append(record["key"], record["value"], record["headers"]))

    def cut(self) -> Receipt:
        return Receipt(cast(ConfirmedProducer, self))

    async def confirmed(self, _receipt: Receipt) -> None: ...

    async def is_member(self, _generation: int) -> bool:
        return True

    @asynccontextmanager
    async def recovering(self) -> AsyncIterator[asyncio.Task[bool]]:
        """`recover`, as far as it gets before the block, and a few turns after it."""
        task = asyncio.create_task(self.ownership.recover(1))
        await turns()
        yield task
        await turns()
        if not task.done():
            task.cancel()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_state_of_an_older_release_behind_a_claim_ends_the_recovery() -> None:
    async def recover() -> None:
        p = Process((CLAIM.key, None, CLAIM.headers), (b"k", b"1", [(EPOCH_HEADER, Epoch(5, 1).encode())]))
        async with p.recovering() as task:
            p.read()
        with pytest.raises(OlderRelease):
            task.result()

    asyncio.run(recover())


def test_records_that_were_passed_over_end_the_process() -> None:
    async def recover() -> None:
        p = Process(*((b"k", value, ()) for value in (b"1", b"2", b"3")))
        async with p.recovering():
            p.read(up_to=1)
            p.position = 2
            p.read()
        assert isinstance(p.failures[0], ChangelogGap)

    asyncio.run(recover())


def test_reading_that_stands_still_before_the_claim_is_an_error_after_a_while() -> None:
    async def recover() -> None:
        p = Process((b"k", b"1", ()), (b"k", b"2", ()))
        async with p.recovering():
            p.ownership.check_progress()
            p.now_s = 9.0
            p.read(up_to=1)
            assert p.ownership.remaining() == 2
            p.ownership.check_progress()
            p.now_s = 19.5
            with pytest.raises(RecoveryStuck, match="expected to read on in changelog within 10 s, up to the claims"):
                p.ownership.check_progress()
            p.read()
            for p.now_s in (99.0, 199.0):
                p.ownership.check_progress()
        assert p.ownership.remaining() == 0

    asyncio.run(recover())
