"""What is ours inside Faust: six classes, tied to the minor version that pyproject.toml names.

- `BatchScheduler`: the fetched changelog records of a partition become one record. Faust spends four
  tasks, a lock and its sensors on each record that it sees; so it sees few.
- `BatchConsumer`: leaves the sources to the source reader, commits which log an offset counts in, and checkpoints
  before a partition is given up.
- `KeepingFlow`: goes on after recovery without throwing away what was read for standbys.
- `StateTable` and `PartitionStateStore`: the table's bytes by partition, read in batches.
- `WorkerApp`: no folders on disk, and no changelog records of an earlier assignment.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import aiokafka  # type: ignore[import-untyped]  # it ships no types
import faust
from faust.stores.memory import Store
from faust.tables.manager import TableManager
from faust.transport.consumer import ensure_TP
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, ensure_aiokafka_TPset
from faust.transport.utils import DefaultSchedulingStrategy
from faust.types import TP, EventT
from mode.threads import ServiceThread, WorkerThread
from mode.utils.queues import FlowControlEvent, ThrowableQueue

from haltline.streams.runtime.changelog import PartitionState, RawRecord

_FETCH_WITHIN_S = 0.2
"""How long a fetch may wait: the first one of a recovery waits for the one before."""

_HEARTBEAT_AGAIN_AFTER_S = 0.1

NO_GENERATION: Final = -1
"""aiokafka's generation when the group no longer knows this member."""


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop of the fastest kind that this system has."""
    try:
        import uvloop  # noqa: PLC0415  # not to be had on every system
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Batch(NamedTuple):
    """Records of one partition in the shape of one record, as far as Faust reads it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: tuple[()]
    key: None
    value: Sequence[RawRecord]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int

    @classmethod
    def of(cls, records: Sequence[RawRecord]) -> "Batch":
        """Fold records of one partition; the last one's offset stands for all."""
        last = records[-1]
        return cls(last.topic, last.partition, last.offset, last.timestamp, 0, (), None, records, None, -1, -1)


class BatchScheduler(DefaultSchedulingStrategy):
    """Folds what was fetched: one record per partition."""

    def iterate(self, records: Mapping[TP, Any]) -> Iterator[tuple[TP, Any]]:
        """Yield what Faust is to see of one fetch."""
        for tp, fetched in records.items():
            yield tp, Batch.of(fetched)


class KeepingFlow(FlowControlEvent):
    """Flow control that empties Faust's queues only when it is told to, at revocation.

    The original empties them at every resume. Faust resumes again when recovery is over, and would throw away what was
    read for standbys by then.
    """

    def resume(self) -> None:
        """Let records into the queues, and leave what is in them."""
        self._suspend.clear()
        self._resume.set()


async def _nothing(_active: set[TP]) -> None: ...


class PartitionStateStore(Store[bytes, bytes]):
    """Table storage by partition, so that a partition is dropped at once and read in batches."""

    def __post_init__(self) -> None:
        self.slices: dict[int, PartitionState] = {}
        self.logs = b""
        """See `PartitionState.logs`."""
        self.records_read = 0
        """Changelog records that were read, of whatever partition."""
        self.data = {}  # what Faust's own methods of the base class look at; stays empty
        self._key_partition = {}
        self.on_recovered: Callable[[set[TP]], Awaitable[None]] = _nothing

    def slice(self, partition: int) -> PartitionState:
        """The partition's slice; an empty one if nothing is known."""
        found = self.slices.get(partition)
        if found is None:
            found = self.slices[partition] = PartitionState(partition, self.logs)
        return found

    def keep(self, partitions: Iterable[int]) -> None:
        """Forget every other partition."""
        for partition in self.slices.keys() - set(partitions):
            del self.slices[partition]

    def apply_changelog_batch(
        self, batch: Iterable[EventT[Any]], to_key: Callable[[Any], Any], to_value: Callable[[Any], Any]
    ) -> None:
        """Read folded changelog records."""
        del to_key, to_value  # for windowed tables
        for event in batch:
            records = cast("list[RawRecord]", event.message.value)
            self.slice(event.message.partition).apply(records)
            self.records_read += len(records)

    def persisted_offset(self, tp: TP) -> int:
        """Where reading goes on: what is held of a partition is complete up to here; -1 where nothing is held.

        Never None: Faust would then go on from the offset that it remembers itself. It keeps that of a partition that
        went away and came back while a rebalance followed another one, though the store had dropped the partition.
        """
        part = self.slices.get(tp.partition)
        return -1 if part is None or part.offset is None else part.offset

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Keep what standbys hold, which the base class would drop; tell the runtime what it may write."""
        self.keep(tp.partition for tp in active_tps | standby_tps)
        await self.on_recovered(active_tps)


class StateTable(faust.Table[bytes, bytes]):
    """A table whose store is a SliceStore."""

    def _new_store(self) -> PartitionStateStore:
        return PartitionStateStore("memory://", self.app, self, table_name=self.name, loop=self.loop)


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the runtime does when partitions come and go; called in the main loop by default."""

    on_giving_up: Callable[[set[TP], bool], Awaitable[None]]
    """Before partitions are taken; True when the group has dropped this member already."""
    on_assigned: Callable[[set[TP], int], Awaitable[None]]
    """New assignment, before recovery, with the group's generation."""
    on_ready: Callable[[], Awaitable[None]]
    """After recovery: the assignment is still the same one, and its sources are to be read."""
    partitions: int
    """How many each topic has; others, which were added since, are assigned and never read."""
    in_commit: Callable[[str], str]
    """What is committed beside an offset of this topic."""


class _CurrentQueue(ThrowableQueue[EventT[Any]]):
    """Hands out what was fetched in the current generation of the group.

    A record that waits for room while partitions go and come would be applied to a slice that
    is being read anew, and what stands before it would then be passed over.
    """

    def __init__(self, app: faust.App, **kwargs: Any) -> None:
        super().__init__(flow_control=app.flow_control, **kwargs)
        self._app = app

    async def get(self) -> EventT[Any]:
        while True:
            event: EventT[Any] = await super().get()
            if event.message.generation_id == self._app.consumer_generation_id:
                return event


class WorkerApp(faust.App):
    """Faust's app for a table that lives in memory and in its changelog only."""

    def __init__(self, *args: Any, buffered_changelog_batches: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.flow_control = KeepingFlow()  # a cached property: what is set is kept
        cast(TableManager, self.tables)._changelog_queue = _CurrentQueue(
            self, maxsize=buffered_changelog_batches, clear_on_resume=True
        )

    def _create_directories(self) -> None:
        """Nothing is kept on disk."""


class _Daemon(WorkerThread):
    """Ends with the process: one that is told to stop while it starts can miss it, and would keep the process."""

    def __init__(self, service: ServiceThread, **kwargs: Any) -> None:
        super().__init__(service, **kwargs)
        self.daemon = True


class _Thread(AIOKafkaConsumerThread):
    Worker = _Daemon
    consumer: "BatchConsumer"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.last_fetched: dict[TP, int] = {}
        """By partition of the changelog: offset of the last record handed to the main thread since assignment."""

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Leave the sources to the source reader."""
        sources = {tp for tp in assigned if not self.consumer._is_changelog_tp(tp)}
        self._ensure_consumer().pause(*ensure_aiokafka_TPset(sources))
        await super().on_partitions_assigned(assigned, generation_id)

    async def _fetch_records(
        self,
        consumer: aiokafka.AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> dict[TP, list[Any]]:
        wait_s = min(timeout or 0, _FETCH_WITHIN_S)
        found = await super()._fetch_records(consumer, active_partitions, timeout=wait_s, max_records=max_records)
        records = {tp: fetched for tp, fetched in found.items() if fetched and self._is_read(tp)}
        self.last_fetched.update({tp: fetched[-1].offset for tp, fetched in records.items()})
        return records

    def _is_read(self, tp: TP) -> bool:
        return self.consumer._is_changelog_tp(tp) and tp.partition < self.consumer.hooks.partitions

    def next_fetch(self, tp: TP) -> int | None:
        """The offset that is fetched next; None while it is not known. Safe to ask from any thread."""
        assignment = self._ensure_consumer()._subscription.subscription.assignment
        if assignment is None or tp not in assignment.tps:
            return None
        return cast("int | None", assignment.state_value(tp)._position)

    async def committed(self, tps: Collection[TP]) -> Mapping[TP, Any]:
        """What the group has committed, with what is beside it; none of those of which nothing is committed."""
        fetch = self._ensure_consumer()._coordinator.fetch_committed_offsets
        return cast("Mapping[TP, Any]", await self.call_thread(fetch, ensure_aiokafka_TPset(tps)))

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = self.consumer.fetch_wait_ms
        commit = consumer.commit

        async def commit_of_logs(offsets: Mapping[Any, Any]) -> None:
            in_commit = self.consumer.hooks.in_commit
            await commit({tp: offset._replace(metadata=in_commit(tp.topic)) for tp, offset in offsets.items()})

        consumer.commit = commit_of_logs
        return consumer

    @property
    def generation(self) -> int:
        """The group's generation that this member is in; NO_GENERATION when the group has dropped it."""
        return int(self._ensure_consumer()._coordinator.generation)

    async def heartbeat(self) -> bool:
        """Whether the group answered a heartbeat, sent now, that this member is one of its generation."""
        coordinator = self._ensure_consumer()._coordinator

        async def send() -> bool:
            return coordinator.coordinator_id is not None and bool(await coordinator._do_heartbeat())

        return bool(await self.call_thread(send))


class BatchConsumer(Consumer):
    """Faust's consumer: a member of the group, and the reader of its changelog. The sources are read elsewhere."""

    hooks: Hooks
    fetch_wait_ms: int
    _thread: _Thread

    @classmethod
    def made(cls, hooks: Hooks, *, fetch_wait_ms: int) -> "type[BatchConsumer]":
        """The consumer class of one app: Faust makes the object itself."""
        return type(cls.__name__, (cls,), {"hooks": hooks, "fetch_wait_ms": fetch_wait_ms})

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon, thread_loop=new_loop())

    def on_buffer_full(self, tp: TP) -> None:
        """Let the fetcher wait for room in the queue, which wakes it.

        The original takes the partition from those to be fetched, and sleeps for a second when
        none is left; with queues of a few batches that is the normal case.
        """

    async def perform_seek(self) -> None:
        """Have the sources read. What Faust fetches stays where recovery sought it: nothing of it is committed."""
        if self.flow_active:  # Faust's fetcher calls this too, when it finds the flow stopped
            await self.hooks.on_ready()

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Say nothing of partitions that Faust does not fetch; the watches of lag and recovery look at progress."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Checkpoint before the listeners are called."""
        await self.hooks.on_giving_up(revoked, self._thread.generation == NO_GENERATION)
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Tell the runtime before recovery begins."""
        self._thread.last_fetched.clear()
        await self.hooks.on_assigned(assigned, generation_id)
        await super().on_partitions_assigned(assigned, generation_id)

    async def is_member(self, generation: int) -> bool:
        """Whether the group, asked now, still has this member in this generation; waits for its coordinator."""
        while self._thread.generation == generation:
            if await self._thread.heartbeat():
                return self._thread.generation == generation
            await asyncio.sleep(_HEARTBEAT_AGAIN_AFTER_S)
        return False

    def read_up_to(self, tp: TP, applied: int) -> int | None:
        """The offset that is fetched next of a changelog partition, once all that was fetched is applied.

        That passes over what never becomes a record, as a transaction's end.
        """
        position = self._thread.next_fetch(tp)  # before `last_fetched`: it must not be the newer of the two
        return position if applied >= self._thread.last_fetched.get(tp, applied) else None

    async def committed(self, tps: Collection[TP]) -> dict[TP, tuple[int, str]]:
        """What the group has committed of these: offset, and what is beside it."""
        found = await self._thread.committed(tps)
        return {ensure_TP(tp): (offset.offset, offset.metadata) for tp, offset in found.items()}

    async def commit_offsets(self, offsets: Mapping[TP, int]) -> bool:
        """Commit those that are still assigned. Whether the group took them."""
        assignment = self.assignment()
        kept = {tp: offset for tp, offset in offsets.items() if tp in assignment}
        return bool(kept) and await self._commit(kept)
