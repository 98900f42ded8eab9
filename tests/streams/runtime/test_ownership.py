"""How a partition of the changelog becomes a process's, step by step; log and group are in the test's hands."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING

from haltline.streams.runtime.changelog import EPOCH_HEADER, ChangelogGap, Claim, Epoch, OlderRelease, Owner
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
        self.member_answers: list[bool] = []
        self.asked_in: list[int] = []
        self.reads: dict[int, int] = {}
        """By partition: the offset that is read next."""
        self.take: Callable[[Fetched], None] = lambda _: None
        self.confirms = asyncio.Event()
        self.confirms.set()

    def add(self, partition: int, key: bytes | None, value: bytes | None, headers: Any = ()) -> int:
        log = self.records.setdefault(partition, [])
        log.append(Record(CHANGELOG, partition, len(log), 0, key, value, tuple(headers)))
        return len(log) - 1

    def add_claim(self, partition: int, name: bytes) -> int:
        claim = Claim(name.ljust(16))
        return self.add(partition, claim.key, None, claim.headers)

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

    async def is_member(self, generation: int) -> bool:
        self.asked_in.append(generation)
        await asyncio.sleep(0)
        return self.member_answers.pop(0) if self.member_answers else True


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
    async def recovering(self, generation: int = 1) -> AsyncIterator[asyncio.Task[bool]]:
        """`recover`, as far as it gets before the block, and a few turns after it."""
        task = asyncio.create_task(self.ownership.recover(generation))
        await turns()
        yield task
        await turns()
        if not task.done():
            task.cancel()

    @property
    def owned(self) -> Collection[int]:
        return self.partitions.numbers()


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
async def test_a_partition_is_owned_when_the_own_claim_was_read_and_the_group_was_asked_after_that(p: Process) -> None:
    p.log.add(1, b"a", b"1")
    p.log.add(1, b"a", b"2")
    p.ownership.assign({1}, set())
    async with p.recovering(generation=7) as task:
        assert p.log.asked_in == [7]
        assert p.log.reads == {1: OFFSET_BEGINNING}
        p.log.read(1, up_to=2)
        await turns()
        assert not task.done(), "whatever stood there before, the claim was not read yet"
        p.log.read(1)
    assert task.result()
    assert p.log.asked_in == [7, 7]

    [part] = p.ownership.own()
    assert part.values == {b"a": b"2"}
    assert part.owner == Owner(2, b"own-0".ljust(16))
    assert p.owned == {1}


@run
async def test_nothing_is_owned_of_an_assignment_that_another_followed_while_it_was_read(p: Process) -> None:
    for number in (1, 3):
        for value in (b"1", b"2", b"3"):
            p.log.add(number, b"k", value)
    p.ownership.assign({1, 3}, set())
    async with p.recovering(generation=18) as first:
        p.log.read(3, up_to=1)
        await p.ownership.release(lost=False)
        p.ownership.assign({3}, set())
        async with p.recovering(generation=19) as second:
            assert p.log.reads == {3: 1}, "it goes on where it stands"
            p.log.read(3)
        assert second.result()
    assert first.result() is False
    [part] = p.ownership.own()
    assert (part.values, part.position) == ({b"k": b"3"}, 5)


@pytest.mark.parametrize(
    ("answers", "claims"),
    [
        pytest.param([False], 0, id="before it claims: it disturbs nobody"),
        pytest.param([True, False], 1, id="after it has read its claim"),
    ],
)
def test_who_is_no_member_any_more_owns_nothing(answers: list[bool], claims: int) -> None:
    @run
    async def test(p: Process) -> None:
        p.log.add(0, b"k", b"1")
        p.log.member_answers = answers
        p.ownership.assign({0}, set())
        async with p.recovering() as task:
            p.log.read(0)
        assert task.result() is False
        assert len(p.log.records[0]) == 1 + claims

    test()


@run
async def test_a_claim_of_another_that_is_read_after_the_recovery_is_seen_and_claimed_behind(p: Process) -> None:
    p.ownership.assign({0, 1}, set())
    async with p.recovering() as task:
        p.log.read(0)
        p.log.read(1)
    assert task.result()
    assert p.ownership.is_claimed()
    p.log.add_claim(1, b"another")
    p.log.read(1)
    assert not p.ownership.is_claimed()
    async with p.recovering() as task:
        p.log.read(0)
        p.log.read(1)
    assert task.result()
    assert p.ownership.is_claimed()
    assert [part.owner for part in p.ownership.own()] == [Owner(1, b"own-2".ljust(16)), Owner(2, b"own-3".ljust(16))]


@run
async def test_a_state_of_an_older_release_behind_a_claim_ends_the_recovery(p: Process) -> None:
    p.log.add_claim(0, b"another")
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
