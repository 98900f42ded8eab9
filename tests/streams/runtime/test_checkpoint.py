"""The order of a checkpoint, looked at from the broker at the moment of acknowledging."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import cast

import pytest

from haltline.streams.runtime.changelog import (
    ID_BYTES,
    OWNER_HEADER,
    Claim,
    ForeignWrite,
    Owner,
    PartitionState,
)
from haltline.streams.runtime.checkpoint import Checkpointer
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.ports import Outbox
from haltline.streams.runtime.processor_api import Change, Load, RawRecord
from tests.mock_cluster import MockCluster
from tests.streams.counting import Log

CHANGELOG = "changelog"
CLAIM = Claim(bytes(ID_BYTES))
OWNER = (OWNER_HEADER, Owner(0, CLAIM.id).encode())


@dataclass(frozen=True)
class Record:
    key: bytes
    value: bytes | None
    offset: int = 0
    partition: int = 0
    topic: str = "events"
    timestamp: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


class Keeping:
    """Keeps the last value of each key, and tells it at once; loads a key each time it sees it."""

    def __init__(self, load: Load, outbox: Outbox) -> None:
        self.load = load
        self.outbox = outbox
        self.loaded: list[bytes | None] = []
        self.dirty: dict[bytes, tuple[int, bytes]] = {}
        self.revoked: list[int] = []
        self.idle_ms = 0
        self.asked: list[tuple[bytes, bytes]] = []

    def process(self, records: Sequence[RawRecord]) -> None:
        for record in records:
            assert record.key is not None
            assert record.value is not None
            self.loaded.append(self.load(record.key))
            self.dirty[record.key] = (record.partition, record.value)
            self.outbox.send("out", key=record.key, value=record.value)

    def changed(self) -> Iterator[Change]:
        dirty, self.dirty = self.dirty, {}
        for key, (partition, value) in dirty.items():
            yield partition, key, value if value != b"drop" else None

    def recovered(self, partition: int, states: Mapping[bytes, bytes]) -> None: ...

    def forget(self, key: bytes, encoded: bytes, ends: Mapping[str, int]) -> bytes:
        return b"%s forgets %s of %s" % (key, " ".join(ends).encode(), encoded)

    def tick(self) -> None: ...

    def idle_before_ms(self, partition: int) -> int:
        return self.idle_ms if partition == 0 else 0

    def retain_when_idle(self, key: bytes, encoded: bytes) -> bool:
        self.asked.append((key, encoded))
        return encoded == b"killed"

    def revoke(self, partitions: Collection[int]) -> None:
        self.revoked += partitions


class Owned:
    """The slices of partitions 0 and 1, as recovered and claimed."""

    def __init__(self) -> None:
        self.slices = {number: PartitionState(number) for number in (0, 1)}
        for part in self.slices.values():
            part.expect(CLAIM)
            part.apply([Record(CLAIM.key, None, headers=CLAIM.headers)])
            part.position = 0  # the topic is empty

    def slice(self, partition: int) -> PartitionState:
        return self.slices[partition]

    def owned(self) -> Collection[PartitionState]:
        return self.slices.values()

    def other_logs(self, partition: int, logs: bytes) -> Mapping[str, int]:
        return {f"topic-{partition}-{logs.decode()}": 0}


class Bench:
    """A checkpointer on a mock cluster."""

    def __init__(self, cluster: MockCluster) -> None:
        self.cluster = cluster
        for topic in ("out", "marks", CHANGELOG):
            cluster.create_topic(topic, 2)
        self.log = Log(cluster.bootstrap)
        self.owned = Owned()
        self.commits = 0
        self.asked_ends = 0
        self.outbox = ConfirmedProducer(cluster.bootstrap)
        self.checkpointer = Checkpointer(
            self._pipeline,
            self.outbox,
            cast(OwnedPartitions, self.owned),
            changelog=CHANGELOG,
            alive=lambda: None,
            ends=self._ends,
            commit=self._commit,
        )

    def _pipeline(self, load: Load, outbox: Outbox) -> Keeping:
        self.pipeline = Keeping(load, outbox)
        return self.pipeline

    async def _commit(self) -> None:
        self.commits += 1

    async def _ends(self, numbers: Set[int]) -> Mapping[int, int]:
        self.asked_ends += 1
        return {number: self.log.ends(CHANGELOG)[number] for number in numbers}

    def process(self, *records: Record, acknowledge: Callable[[], object] = lambda: None) -> None:
        self.checkpointer.process(records, acknowledge)

    def on_broker(self, topic: str) -> int:
        return sum(self.log.ends(topic).values())


@pytest.fixture
def bench(mock_cluster: Callable[[], MockCluster]) -> Iterator[Bench]:
    bench = Bench(mock_cluster())
    yield bench
    bench.log.close()
    bench.outbox.close(10)


def test_a_batch_is_acknowledged_when_what_followed_and_its_states_are_on_the_broker(bench: Bench) -> None:
    seen: list[tuple[int, int, bytes | None]] = []

    def acknowledge() -> None:
        seen.append((bench.on_broker("out"), bench.on_broker(CHANGELOG), bench.owned.slice(0).values.get(b"a")))

    bench.process(Record(b"a", b"1"), Record(b"b", b"2"), acknowledge=acknowledge)
    assert seen == []
    written = asyncio.run(bench.checkpointer.checkpoint())

    assert seen == [(2, 2, b"1")]
    assert (written.batches, written.states, written.state_bytes, bench.commits) == (1, 2, 4, 1)
    assert [message.headers() for message in bench.log.records(CHANGELOG)] == [[OWNER], [OWNER]]
    bench.process(Record(b"b", b"drop"))
    bench.process(Record(b"a", b"2", partition=1))
    assert bench.pipeline.loaded[-2:] == [b"2", None], "what is another partition's is not found"
    asyncio.run(bench.checkpointer.checkpoint())
    assert bench.owned.slice(0).values == {b"a": b"1"}
    assert (b"b", None) in [(message.key(), message.value()) for message in bench.log.records(CHANGELOG)]


def test_a_batch_that_is_processed_while_a_checkpoint_waits_is_acknowledged_by_the_next(bench: Bench) -> None:
    acknowledged: list[str] = []
    bench.process(Record(b"a", b"1"), acknowledge=lambda: acknowledged.append("first"))

    async def meanwhile() -> None:
        running = asyncio.create_task(bench.checkpointer.checkpoint())
        await asyncio.sleep(0)  # the checkpoint has taken its list, and waits for the broker
        bench.process(Record(b"a", b"2", offset=1), acknowledge=lambda: acknowledged.append("second"))
        await running

    asyncio.run(meanwhile())
    assert acknowledged == ["first"]
    asyncio.run(bench.checkpointer.checkpoint())
    assert acknowledged == ["first", "second"]
    assert bench.owned.slice(0).values == {b"a": b"2"}
    assert bench.pipeline.loaded == [None, b"1"], "a state is loaded as it was given out, also while it is written"


def test_a_recovered_state_without_further_records_is_dropped_unless_it_is_to_be_kept_or_changes(bench: Bench) -> None:
    for number in (0, 1):
        part = bench.owned.slice(number)
        part.put(b"idle", b"1", written_ms=1000)
        part.put(b"kept", b"killed", written_ms=1001)
        part.put(b"changes", b"1", written_ms=1002)
        part.put(b"fresh", b"3", written_ms=2000)
    bench.pipeline.idle_ms = 2000
    bench.process(Record(b"changes", b"2"))
    for _ in range(2):
        asyncio.run(bench.checkpointer.checkpoint())

    assert bench.pipeline.asked == [(b"idle", b"1"), (b"kept", b"killed")], "each once, and none of partition 1"
    assert bench.owned.slice(0).values == {b"kept": b"killed", b"changes": b"2", b"fresh": b"3"}
    written = {(m.partition(), m.key(), m.value()) for m in bench.log.records(CHANGELOG)}
    assert written == {(0, b"idle", None), (0, b"changes", b"2")}


def test_keys_whose_last_record_is_late_are_written_anew_without_any_batch_or_what_is_of_other_logs(
    bench: Bench,
) -> None:
    part = bench.owned.slice(1)
    part.logs = b"now"
    part.put(b"kept", b"7", written_ms=1, logs=b"now")
    part.put(b"other", b"8", written_ms=1, logs=b"before")
    part.fenced_keys |= {b"kept", b"gone", b"other"}
    asyncio.run(bench.checkpointer.checkpoint())

    assert {message.key(): message.value() for message in bench.log.records(CHANGELOG)} == {
        b"kept": b"7",
        b"gone": None,
        b"other": b"other forgets topic-1-before of 8",
    }
    assert (bench.commits, part.other_logs) == (0, {})


def test_before_a_commit_the_end_of_a_partition_proves_where_records_landed_of_which_the_broker_did_not_say(
    bench: Bench,
) -> None:
    bench.owned.slice(0).unproven = True
    bench.process(Record(b"a", b"1"))
    asyncio.run(bench.checkpointer.checkpoint())
    assert (bench.asked_ends, bench.owned.slice(0).unproven, bench.commits) == (1, False, 1)

    bench.owned.slice(0).unproven = True
    other = ConfirmedProducer(bench.cluster.bootstrap)
    bench.process(Record(b"a", b"2"))

    async def another_writes() -> None:
        other.send(CHANGELOG, key=b"a", value=b"late", partition=0)
        other.close(10)
        await bench.checkpointer.checkpoint()

    with pytest.raises(ForeignWrite):
        asyncio.run(another_writes())
    assert bench.commits == 1


def test_a_change_in_a_partition_of_another_worker_is_an_error(bench: Bench) -> None:
    del bench.owned.slices[1]
    bench.pipeline.dirty[b"a"] = (1, b"1")

    with pytest.raises(RuntimeError, match=r"expected changes in the partitions of this worker \(\[0\]\), got one of"):
        asyncio.run(bench.checkpointer.checkpoint())


def test_many_states_do_not_hold_up_micro_batches(bench: Bench) -> None:
    bench.process(*(Record(b"%d" % number, bytes(100)) for number in range(20_000)))

    async def meanwhile() -> int:
        running = asyncio.create_task(bench.checkpointer.checkpoint())
        turns = 0
        while not running.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(meanwhile()) > 10
    assert bench.on_broker(CHANGELOG) == 20_000
