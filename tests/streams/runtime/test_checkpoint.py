"""The order of a checkpoint, observed at the broker when it acknowledges."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, cast

import pytest

from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.runtime.changelog import ID_BYTES, Claim, PartitionState
from haltline.streams.runtime.checkpoint import Checkpointer
from haltline.streams.runtime.checkpoint_pace import CheckpointPace
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer, Receipt
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.processor_api import Change, Load, RawRecord

CHANGELOG = "changelog"
CLAIM = Claim(bytes(ID_BYTES))


class Sent(NamedTuple):
    topic: str
    partition: int | None
    key: bytes
    value: bytes | None


class Broker:
    """A producer like ConfirmedProducer; records arrive when they are waited for."""

    def __init__(self) -> None:
        self.landed: list[Sent] = []
        self._on_its_way: list[tuple[Sent, Callable[[int], None]]] = []
        self._ends: Counter[tuple[str, int | None]] = Counter()

    def send(self, topic: str, *, on_offset: Callable[[int], None] = lambda _: None, **record: Any) -> None:
        sent = Sent(topic, record.get("partition"), record["key"], record["value"])
        self._on_its_way.append((sent, on_offset))

    def poll(self) -> None: ...

    def cut(self) -> Receipt:
        return Receipt(cast(ConfirmedProducer, self))

    async def confirmed(self, _receipt: Receipt) -> None:
        await asyncio.sleep(0)
        for sent, on_offset in self._on_its_way:
            self.landed.append(sent)
            on_offset(self._ends[sent[:2]])
            self._ends[sent[:2]] += 1
        self._on_its_way.clear()

    def of(self, topic: str) -> list[Sent]:
        return [sent for sent in self.landed if sent.topic == topic]


class Keeping:
    """Keeps the last value of each key, and tells it at once; loads a key each time it sees it."""

    def __init__(self, load: Load, outbox: Broker) -> None:
        self.load = load
        self.outbox = outbox
        self.loaded: list[bytes | None] = []
        self.dirty: dict[bytes, tuple[int, bytes]] = {}
        self.idle_ms = 0
        self.asked: list[tuple[bytes, bytes]] = []

    def process(self, records: Sequence[RawRecord]) -> None:
        for record in records:
            assert record.key is not None
            assert record.value is not None
            self.load(record.key)
            self.dirty[record.key] = (record.partition, record.value)
            self.outbox.send("out", key=record.key, value=record.value)

    def rehearse(self, record: RawRecord) -> None:
        assert record.key is not None
        self.loaded.append(self.load(record.key))

    def pass_over(self, record: RawRecord, why: str) -> None:
        self.outbox.send("dead", key=record.key, value=why.encode())

    def changed(self) -> Iterator[Change]:
        dirty, self.dirty = self.dirty, {}
        for key, (partition, value) in dirty.items():
            yield partition, key, value

    def recovered(self, partition: int, states: Mapping[bytes, bytes]) -> None: ...

    def begin_anew(self, key: bytes, encoded: bytes) -> bytes | None:
        return key + b" in force" if encoded == b"killed" else None

    def tick(self) -> None: ...

    def idle_before_ms(self, partition: int) -> int:
        return self.idle_ms if partition == 0 else 0

    def retain_when_idle(self, key: bytes, encoded: bytes) -> bool:
        self.asked.append((key, encoded))
        return encoded == b"killed"

    def revoke(self, partitions: Collection[int]) -> None: ...


class Bench:
    """A checkpointer that owns partitions 0 and 1, as recovered and claimed."""

    def __init__(self) -> None:
        self.slices = {number: PartitionState(number) for number in (0, 1)}
        for part in self.slices.values():
            part.expect(CLAIM)
            part.apply([LogRecord(CHANGELOG, part.partition, 0, 0, CLAIM.key, None, CLAIM.headers)])
            part.position = 0  # the topic is empty
        self.broker = Broker()
        self.checkpointer = Checkpointer(
            self._pipeline,
            cast(ConfirmedProducer, self.broker),
            cast(OwnedPartitions, self),
            changelog=CHANGELOG,
            alive=lambda: None,
            commit=self._commit,
        )

    def _pipeline(self, load: Load, _outbox: object) -> Keeping:
        self.pipeline = Keeping(load, self.broker)
        return self.pipeline

    async def _commit(self) -> None:
        """Nobody counts them."""

    def slice(self, partition: int) -> PartitionState:
        return self.slices[partition]

    def owned(self) -> Collection[PartitionState]:
        return self.slices.values()

    def process(self, *values: tuple[bytes, bytes]) -> None:
        records = [LogRecord("events", 0, 0, 0, key, value, ()) for key, value in values]
        self.checkpointer.process(records, lambda: None)


def test_a_record_that_is_put_aside_is_acknowledged_when_its_letter_is_on_the_broker() -> None:
    bench = Bench()
    seen: list[list[bytes | None]] = []
    bad = LogRecord("events", 0, 7, 0, b"a", b"1", ())
    bench.checkpointer.pass_over(bad, "hung", lambda: seen.append([sent.value for sent in bench.broker.of("dead")]))
    assert asyncio.run(bench.checkpointer.checkpoint()).batches == 1
    assert seen == [[b"hung"]]
    bench.slices[0].put(b"a", b"kept", 0)
    bench.checkpointer.rehearse(bad)
    assert bench.pipeline.loaded == [b"kept"]


def test_a_recovered_state_without_further_records_is_dropped_unless_it_is_to_be_kept_or_changes() -> None:
    bench = Bench()
    for part in bench.slices.values():
        part.put(b"idle", b"1", written_ms=1000)
        part.put(b"kept", b"killed", written_ms=1001)
        part.put(b"changes", b"1", written_ms=1002)
        part.put(b"fresh", b"3", written_ms=2000)
    bench.pipeline.idle_ms = 2000
    bench.process((b"changes", b"2"))
    for _ in range(2):
        asyncio.run(bench.checkpointer.checkpoint())
    assert bench.pipeline.asked == [(b"idle", b"1"), (b"kept", b"killed")], "each once, and none of partition 1"
    assert bench.slices[0].values == {b"kept": b"killed", b"changes": b"2", b"fresh": b"3"}
    written = {(sent.partition, sent.key, sent.value) for sent in bench.broker.of(CHANGELOG)}
    assert written == {(0, b"idle", None), (0, b"changes", b"2")}


def test_many_states_do_not_hold_up_micro_batches_and_a_change_elsewhere_is_an_error() -> None:
    bench = Bench()
    bench.process(*((b"%d" % number, bytes(100)) for number in range(20_000)))

    async def meanwhile() -> int:
        running = asyncio.create_task(bench.checkpointer.checkpoint())
        turns = 0
        while not running.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(meanwhile()) > 10
    assert len(bench.broker.of(CHANGELOG)) == 20_000
    bench = Bench()
    del bench.slices[1]
    bench.pipeline.dirty[b"a"] = (1, b"1")
    with pytest.raises(RuntimeError, match=r"expected changes in the partitions of this worker \(\[0\]\), got one of"):
        asyncio.run(bench.checkpointer.checkpoint())


def test_the_next_one_waits_as_long_as_the_last_took_up_to_ten_seconds_unless_there_was_a_command() -> None:
    seconds = count()  # one passes with each look, and each time there are further events
    pace = CheckpointPace(0, lambda: {"events": next(seconds)}, lambda: float(next(seconds)))
    pace.took(60)
    pace.add_commands(1)
    asyncio.run(pace.next())
    at_once = next(seconds)
    asyncio.run(pace.next())
    assert (at_once < 10, 10 <= next(seconds) - at_once < 20) == (True, True)
