"""How a partition of the changelog becomes a process's, step by step; log and group are in the test's hands."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from haltline.streams.runtime.changelog import EPOCH_HEADER, ChangelogGap, Claim, Epoch, OlderRelease
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer, Receipt
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.ownership import Ownership, RecoveryStuck
from haltline.streams.runtime.source_reader import Fetched, Record, SourceReader
from haltline.streams.runtime.topic_ids import Logs
from haltline.streams.runtime.topic_incarnations import TopicIncarnations
from haltline.streams.system import System

CHANGELOG = "changelog"


class Log:
    """The changelog, its producer, its reader and the group. Nothing is read until the test says so."""

    def __init__(self) -> None:
        self.records: dict[int, list[Record]] = {}
        self.reads: dict[int, int] = {}
        """By partition: the offset that is read next."""
        self.take: Callable[[Fetched], None] = lambda _: None
        self.confirms = asyncio.Event()
        self.confirms.set()

    def add(self, partition: int, key: bytes | None, value: bytes | None, headers: Any = ()) -> int:
        log = self.records.setdefault(partition, [])
        log.append(Record(CHANGELOG, partition, len(log), 0, key, value, tuple(headers)))
        return len(log) - 1

    # As ConfirmedProducer.

    def send(self, topic: str, *, partition: int, on_offset: Callable[[int], None], **record: Any) -> None:
        assert topic == CHANGELOG
        on_offset(self.add(partition, record["key"], record["value"], record["headers"]))

    def cut(self) -> Receipt:
        return Receipt(cast(ConfirmedProducer, self))

    async def confirmed(self, _receipt: Receipt) -> None:
        await self.confirms.wait()

    # As SourceReader.

    def begin(self, offsets: Mapping[Partition, int]) -> None:
        self.reads = {number: offset for (_, number), offset in offsets.items()}

    def stop(self) -> None:
        self.begin({})

    def close(self) -> None: ...

    def read(self, partition: int, up_to: int | None = None) -> None:
        """What stands there now, from where reading is; up to before an offset."""
        begins, end = self.reads[partition], len(self.records[partition]) if up_to is None else up_to
        self.reads[partition] = end
        self.take(Fetched(0, (CHANGELOG, partition), begins, self.records[partition][max(begins, 0) : end]))

    # As Membership.

    async def is_member(self, _generation: int) -> bool:
        await asyncio.sleep(0)
        return True


class Process:
    """One process with its ownership."""

    def __init__(self) -> None:
        self.log = Log()
        self.now_s = 0.0
        self.failures: list[BaseException] = []
        ids = iter(range(1000))
        self.partitions = OwnedPartitions(TopicIncarnations(Logs({}), CHANGELOG, Metrics()), b"")

        def open_reader(take: Callable[[Fetched], None]) -> SourceReader:
            self.log.take = take
            return cast(SourceReader, self.log)

        self.ownership = Ownership(
            self.partitions,
            cast(ConfirmedProducer, self.log),
            cast(Any, self.log),
            changelog=CHANGELOG,
            open_reader=open_reader,
            stuck_after_s=10.0,
            on_failure=self.failures.append,
            system=System(monotonic=lambda: self.now_s, random_bytes=lambda _: (b"own-%d" % next(ids)).ljust(16)),
        )

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


def run(test: Callable[[Process], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test within a loop, with a process of its own."""

    def started() -> None:
        async def main() -> None:
            await test(Process())

        asyncio.run(main())

    started.__name__ = test.__name__
    return started


@run
async def test_a_state_of_an_older_release_behind_a_claim_ends_the_recovery(p: Process) -> None:
    another = Claim(b"another".ljust(16))
    p.log.add(0, another.key, None, another.headers)
    p.log.add(0, b"k", b"1", [(EPOCH_HEADER, Epoch(5, 1).encode())])
    p.ownership.assign({0}, set())
    async with p.recovering() as task:
        p.log.read(0)
    with pytest.raises(OlderRelease):
        task.result()


@run
async def test_partitions_are_not_given_up_before_a_claim_on_its_way_has_landed_but_by_who_was_dropped(
    p: Process,
) -> None:
    p.log.confirms.clear()
    p.ownership.assign({0}, set())
    async with p.recovering():
        await p.ownership.release(lost=True)
    p.ownership.assign({0}, set())
    async with p.recovering() as task:
        release = asyncio.create_task(p.ownership.release(lost=False))
        await turns()
        assert not release.done()
        p.log.confirms.set()
        await release
    assert task.result() is False


@run
async def test_records_that_were_passed_over_end_the_process(p: Process) -> None:
    for value in (b"1", b"2", b"3"):
        p.log.add(0, b"k", value)
    p.ownership.assign({0}, set())
    async with p.recovering():
        p.log.read(0, up_to=1)
        p.log.reads[0] = 2
        p.log.read(0)
    assert isinstance(p.failures[0], ChangelogGap)


@run
async def test_reading_that_stands_still_before_the_claim_is_an_error_after_a_while(p: Process) -> None:
    for value in (b"1", b"2"):
        p.log.add(0, b"k", value)
    p.ownership.assign({0}, set())
    async with p.recovering():
        p.ownership.check_progress()
        p.now_s = 9.0
        p.log.read(0, up_to=1)
        assert p.ownership.remaining() == 2
        p.ownership.check_progress()
        p.now_s = 19.5
        with pytest.raises(
            RecoveryStuck, match="expected to read on in changelog within 10 s, up to the claims of this"
        ):
            p.ownership.check_progress()
        p.log.read(0)
        p.now_s = 99.0
        p.ownership.check_progress()
        p.now_s = 199.0
        p.ownership.check_progress()
    assert p.ownership.remaining() == 0
