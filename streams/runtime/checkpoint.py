"""The order of processing and checkpointing, so that no event is lost and no state is ahead of the log.

For each micro-batch (`Checkpointer.process`, nothing else runs meanwhile):

1. the pipeline decodes the records, skips those that the state includes, decides, and sends the outputs at once;
2. the batch is added to the list of processed batches.

What is due by the clock (`Checkpointer.tick`) is processed like a micro-batch without records: outputs are sent at
once, and the next checkpoint includes the states. If the process dies before that, it is due again, and sent with the
same id.

For each checkpoint (`Checkpointer.checkpoint`: about once a second, less often with many sessions, before partitions
are revoked, and at the end; micro-batches continue while it waits):

3. take the list of processed batches, before the first await;
4. have the pipeline encode what changed, and drop what is idle;
5. wait until everything sent so far is confirmed;
6. write the encoded states to the changelog;
7. wait until they are confirmed at consecutive offsets, with no other writer's records between;
8. set the table;
9. acknowledge exactly the batches of 3;
10. have Faust commit.

Why this is safe when the process dies between any two steps: the committed offset (10) covers only batches whose states
are in the changelog (7), so what was not committed is read again. A state in the changelog may include events that are
read again; each state stores its own offsets, and the pipeline skips those events (1). Their outputs are not lost,
because they were confirmed (5) before the state was written (6). Outputs of events that are decided again are sent
again, with the same id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from itertools import chain
from typing import Final, NamedTuple

from haltline.streams.runtime.changelog import PartitionState, RawRecord
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.processor_api import Change, ProcessorFactory
from haltline.streams.system import REAL, System

_HOLD_LOOP_S: Final = 0.001
"""The longest time in seconds that encoding and sending states delays micro-batches at once."""
_LOOK_EVERY: Final = 16
_IDLE_AT_A_TIME: Final = 1000
"""The most idle states of a partition that one checkpoint drops: checking them takes some 50 ms."""


class CheckpointResult(NamedTuple):
    """The result of one checkpoint."""

    batches: int
    states: int
    state_bytes: int
    seconds: float
    """From start to end; events are processed meanwhile."""
    busy_s: float
    """The part of `seconds` in which events had to wait."""


@dataclass(frozen=True, slots=True)
class _Processed:
    partition: int
    acknowledge: Callable[[], object]


@dataclass(eq=False)
class Checkpointer:
    """Runs a pipeline's micro-batches and checkpoints, in the order of the module's list.

    `alive` is called before anything is sent; in a process that had been stopped, it does not return. `commit` commits
    what was acknowledged.
    """

    factory: InitVar[ProcessorFactory]
    outbox: ConfirmedProducer
    slices: OwnedPartitions
    _: KW_ONLY
    changelog: str
    alive: Callable[[], None]
    commit: Callable[[], Awaitable[object]]
    system: System = REAL

    def __post_init__(self, factory: ProcessorFactory) -> None:
        self._processed: list[_Processed] = []
        self._handed_out: dict[bytes, bytes | None] = {}
        self._here: PartitionState | None = None
        self._turn = asyncio.Lock()
        self._pause_s = 0.0
        self._processor = factory(self._load, self.outbox)

    def process(self, records: Sequence[RawRecord], acknowledge: Callable[[], object]) -> None:
        """Apply one micro-batch. Raises what the pipeline raises, and DeliveryFailed."""
        self.alive()
        partition = records[0].partition
        self._here = self.slices.slice(partition)
        try:
            self._processor.process(records)  # 1
        finally:
            self._here = None
        self._processed.append(_Processed(partition, acknowledge))  # 2
        self.outbox.poll()

    def rehearse(self, record: RawRecord) -> None:
        """Apply one record, and encode what it changes, in a process that ends afterwards. Raises as `process` does."""
        self._here = self.slices.slice(record.partition)
        self._processor.rehearse(record)

    def pass_over(self, record: RawRecord, why: str, acknowledge: Callable[[], object]) -> None:
        """Put one record aside like a micro-batch, with the reason. Raises DeliveryFailed."""
        self.alive()
        self._processor.pass_over(record, why)
        self._processed.append(_Processed(record.partition, acknowledge))
        self.outbox.poll()

    def recovered(self, part: PartitionState) -> None:
        """Take over a recovered partition; of stale states only what is in force is kept."""
        now_ms = self.system.time_ms()
        part.fenced_keys |= part.stale  # written again, or removed
        for key in [*part.stale]:
            part.put(key, self._processor.begin_anew(key, part.values[key]), now_ms)
        self._processor.recovered(part.partition, part.values)

    def tick(self) -> None:
        """Process what is due by the clock, like a micro-batch without records. Raises what the pipeline raises."""
        self.alive()
        self._processor.tick()

    async def checkpoint(self, *, pause_s: float = 0.0) -> CheckpointResult:
        """Make what was processed durable, and commit it. Raises DeliveryFailed and ForeignWrite.

        After each stretch of work, events get `pause_s` seconds. A call without a pause speeds up a running checkpoint.
        """
        self._pause_s = pause_s
        async with self._turn:
            started = self.system.monotonic()
            work = _Work(self.system)
            batches, self._processed = self._processed, []  # 3
            owned = {part.partition: part for part in self.slices.owned()}
            changes = self._overdue(owned.values())
            await self._encode(changes, owned.values(), work)  # 4
            await self.outbox.confirmed(self.outbox.cut())  # 5
            self.alive()
            state_bytes = await self._write(changes, owned, work)  # 6
            await self.outbox.confirmed(self.outbox.cut())  # 7
            now_ms = self.system.time_ms()
            for partition, key, value in changes:  # 8
                owned[partition].put(key, value, now_ms)
            self._handed_out.clear()
            self.alive()
            for batch in batches:  # 9
                batch.acknowledge()
            if batches:
                await self.commit()  # 10
            seconds = self.system.monotonic() - started
            return CheckpointResult(len(batches), len(changes), state_bytes, seconds, work.busy_s)

    async def forget(self, partitions: Collection[int]) -> None:
        """Drop what is held of partitions that go away; what was not committed is read again by their owner."""
        async with self._turn:
            self._processed = [batch for batch in self._processed if batch.partition not in partitions]
            self._processor.revoke(partitions)

    def _load(self, key: bytes) -> bytes | None:
        if key in self._handed_out:
            return self._handed_out[key]
        places = self.slices.owned() if self._here is None else (self._here,)
        return next((place.values[key] for place in places if key in place.values), None)

    def _overdue(self, owned: Iterable[PartitionState]) -> list[Change]:
        """Return changes that rewrite the keys whose last record in the log is from a replaced owner."""
        changes: list[Change] = []
        for part in owned:
            changes += [(part.partition, key, part.values.get(key)) for key in part.fenced_keys]
            part.fenced_keys.clear()
        return changes

    async def _encode(self, changes: list[Change], owned: Iterable[PartitionState], work: "_Work") -> None:
        work.begin()
        for change in chain(self._processor.changed(), *map(self._idle, owned)):
            changes.append(change)
            self._handed_out[change[1]] = change[2]
            if work.is_long():
                await self._rest(work)
        work.end()

    def _idle(self, part: PartitionState) -> Iterator[Change]:
        """Yield changes that drop idle states. A state that the pipeline retains is not checked again."""
        before_ms = self._processor.idle_before_ms(part.partition)
        for key in part.take_idle(before_ms, _IDLE_AT_A_TIME):
            if key not in self._handed_out and not self._processor.retain_when_idle(key, part.values[key]):
                yield part.partition, key, None

    async def _write(self, changes: Sequence[Change], owned: dict[int, PartitionState], work: "_Work") -> int:
        work.begin()
        state_bytes = 0
        headers = {partition: part.headers() for partition, part in owned.items()}
        for partition, key, value in changes:
            part = owned.get(partition)
            if part is None:
                raise RuntimeError(
                    f"checkpoint: expected changes in the partitions of this worker ({sorted(owned)}), "
                    f"got one of key {key!r} in partition {partition}"
                )
            part.record_sent()
            self.outbox.send(
                self.changelog,
                key=key,
                value=value,
                headers=headers[partition],
                partition=partition,
                on_offset=part.record_confirmed,
            )
            state_bytes += len(key) + len(value or b"")
            if work.is_long():
                self.outbox.poll()
                await self._rest(work)
        work.end()
        return state_bytes

    async def _rest(self, work: "_Work") -> None:
        work.end()
        await asyncio.sleep(self._pause_s)
        work.begin()


class _Work:
    """A measure of how long a checkpoint blocks the event loop; it reads the clock only now and then."""

    def __init__(self, system: System) -> None:
        self._clock = system.monotonic
        self.busy_s = 0.0
        self._steps = 0
        self._since = 0.0

    def begin(self) -> None:
        """Start measuring: the loop is blocked."""
        self._since = self._clock()

    def end(self) -> None:
        """Stop measuring: the loop is free."""
        self.busy_s += self._clock() - self._since

    def is_long(self) -> bool:
        """Return whether the loop should be yielded to others."""
        self._steps += 1
        return self._steps % _LOOK_EVERY == 0 and self._clock() - self._since >= _HOLD_LOOP_S


class RuntimeMetrics:
    """The metrics of the runtime, looked up once."""

    def __init__(self, metrics: Metrics) -> None:
        self.events = metrics.children("events_processed_total")
        self.rebalances = metrics.counter("rebalances_total")
        self._seconds = metrics.histogram("checkpoint_duration_seconds")
        self._state_bytes = metrics.counter("state_bytes_total")
        self._states = metrics.counter("states_written_total")
        self._sessions = metrics.gauge("sessions")
        self._ready = metrics.gauge("ready")
        self._assigned = metrics.gauge("assigned_partitions")
        self._remaining = metrics.gauge("recovery_remaining_records")

    def checkpointed(self, written: CheckpointResult) -> None:
        """Update the metrics after a checkpoint."""
        self._seconds.observe(written.seconds)
        self._state_bytes.inc(written.state_bytes)
        self._states.inc(written.states)

    def recovery(self, ours: Collection[PartitionState], assigned: int, remaining: int) -> None:
        """Update the metrics of recovery; called periodically."""
        self._ready.set(bool(ours))
        self._assigned.set(assigned)
        self._remaining.set(0 if ours else remaining)
        self._sessions.set(sum(len(part.values) for part in ours))
