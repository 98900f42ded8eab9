"""What is ours inside Faust: six classes, tied to the minor version that pyproject.toml names.

- `BatchScheduler`: the fetched records of a partition become one record. Faust spends four
  tasks, a lock and its sensors on each record that it sees; so it sees few.
- `BatchConsumer`: commits the highest acknowledged offset and which log it counts in, checkpoints before a partition
  is given up, waits less for a fetch, and tells of a log that begins again.
- `KeepingFlow`: goes on after a rebalance without throwing away what was fetched meanwhile.
- `StateTable` and `SliceStore`: the table's bytes by partition, read in batches.
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
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.transport.utils import DefaultSchedulingStrategy
from faust.types import TP, EventT
from faust.types.transports import TransportT
from mode.threads import ServiceThread, WorkerThread
from mode.utils.queues import FlowControlEvent, ThrowableQueue

from haltline.streams.changelog import RawRecord, Slice

_NOTHING_TO_FETCH_S = 0.02

NO_GENERATION: Final = -1
"""aiokafka's generation when the group no longer knows this member."""


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop of the fastest kind that this system has."""
    try:
        import uvloop  # noqa: PLC0415  # not to be had on every system
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Fetched(list[RawRecord]):
    """What one fetch handed out of a partition, and the last offset that was handed out before it."""

    def __init__(self, records: Iterable[RawRecord], follows: int | None) -> None:
        super().__init__(records)
        self.follows = follows
        """None for the first of an assignment."""


class Batch(NamedTuple):
    """Records of one partition in the shape of one record, as far as Faust reads it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: tuple[()]
    key: None
    value: Fetched
    checksum: None
    serialized_key_size: int
    serialized_value_size: int

    @classmethod
    def of(cls, records: Fetched) -> "Batch":
        """Fold records of one partition; the last one's offset stands for all."""
        last = records[-1]
        return cls(last.topic, last.partition, last.offset, last.timestamp, 0, (), None, records, None, -1, -1)


class BatchScheduler(DefaultSchedulingStrategy):
    """Folds what was fetched: one record per partition, topics in the order of `order`."""

    order: Mapping[str, int] = {}
    """By topic of those that are folded: its place in the line."""

    @classmethod
    def folding(cls, topics: Sequence[str]) -> "type[BatchScheduler]":
        """The scheduler that folds these topics; records of others go through one by one."""
        return type(cls.__name__, (cls,), {"order": {topic: place for place, topic in enumerate(topics)}})

    def iterate(self, records: Mapping[TP, Any]) -> Iterator[tuple[TP, Any]]:
        """Yield what Faust is to see of one fetch."""
        ours = [tp for tp, fetched in records.items() if tp.topic in self.order and fetched]
        for tp in sorted(ours, key=lambda tp: self.order[tp.topic]):
            yield tp, Batch.of(records[tp])
        rest = {tp: fetched for tp, fetched in records.items() if tp.topic not in self.order}
        if rest:
            yield from super().iterate(rest)


class KeepingFlow(FlowControlEvent):
    """Flow control that empties the streams' queues only when it is told to, at revocation.

    The original empties them at every resume. After a rebalance Faust resumes twice, before and
    after it seeks to the committed offsets; what is fetched in between is delivered once, and the
    second resume would throw it away.
    """

    def resume(self) -> None:
        """Let records into the queues, and leave what is in them."""
        self._suspend.clear()
        self._resume.set()


class SliceStore(Store[bytes, bytes]):
    """Table storage by partition, so that a partition is dropped at once and read in batches."""

    def __post_init__(self) -> None:
        self.slices: dict[int, Slice] = {}
        self.logs = b""
        """See `Slice.logs`."""
        self.records_read = 0
        """Changelog records that were read, of whatever partition."""
        self.data = {}  # what Faust's own methods of the base class look at; stays empty
        self._key_partition = {}
        self.on_recovered: Callable[[set[TP]], None] = lambda _active: None

    def slice(self, partition: int) -> Slice:
        """The partition's slice; an empty one if nothing is known."""
        found = self.slices.get(partition)
        if found is None:
            found = self.slices[partition] = Slice(partition, self.logs)
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

    def persisted_offset(self, tp: TP) -> int | None:
        """Where reading goes on: what is held of a partition is complete up to here."""
        part = self.slices.get(tp.partition)
        return None if part is None else part.offset

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Keep what standbys hold, which the base class would drop; tell the runtime what it may write."""
        self.keep(tp.partition for tp in active_tps | standby_tps)
        self.on_recovered(active_tps)


class StateTable(faust.Table[bytes, bytes]):
    """A table whose store is a SliceStore."""

    def _new_store(self) -> SliceStore:
        return SliceStore("memory://", self.app, self, table_name=self.name, loop=self.loop)


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the runtime does when partitions come and go; called in the main loop, where nothing else is said."""

    on_giving_up: Callable[[set[TP], bool], Awaitable[None]]
    """Before partitions are taken; True when the group has dropped this member already."""
    on_assigned: Callable[[set[TP], int], Awaitable[None]]
    """New assignment, before recovery, with the group's generation."""
    begins_at: Callable[[TP, int | None, str], int | None]
    """Where reading of a source begins, by its committed offset and what was committed beside it; None: at its first
    record. Called in the consumer's thread, before any record of the assignment is handed out."""
    partitions: int
    """How many each topic has; others, which were added since, are assigned and never read."""
    in_commit: Callable[[str], str]
    """What is committed beside an offset of this topic."""
    on_gone_back: Callable[[TP, int, int], None]
    """A fetch brought an offset that is below the one that had to come. Called in the consumer's thread."""


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
        self.fetched: dict[TP, tuple[int, int]] = {}
        """By partition: offsets of the first and of the last record handed to the main thread since assignment."""
        self._follows: dict[TP, int] = {}
        """By source: no offset may come that is below this one."""
        self.sought = False
        """Whether the sources stand where this assignment begins, so that their records may be handed out."""
        self._passed_over = False

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Move the sources to their committed offsets; from then on their records are handed out.

        Faust fetches before it seeks, and throws away, or hands out, what it found. A batch that
        was processed ahead of the ones before it would have these passed over: their offsets are
        below the one that the states include. So nothing is handed out before, and what a fetch
        that had begun earlier took away meanwhile is sought again.
        """
        return cast("Mapping[TP, int]", await self.call_thread(self._seek))

    async def _seek(self) -> Mapping[TP, int]:
        consumer = self._ensure_consumer()
        while True:
            self.sought = self._passed_over = False
            committed = await consumer.seek_to_committed()
            sources = [tp for tp in committed if not self.consumer._is_changelog_tp(tp)]
            beside = await consumer._coordinator.fetch_committed_offsets(sources)
            for tp in sources:
                said = beside[tp].metadata if tp in beside else ""
                begins_at = self.consumer.hooks.begins_at(tp, committed[tp], said)
                if not begins_at:  # aiokafka leaves those where they are of which nothing is committed yet
                    await consumer.seek_to_beginning(tp)
                elif begins_at != committed[tp]:
                    consumer.seek(tp, begins_at)
                committed[tp] = self._follows[tp] = begins_at or 0
            if not self._passed_over:
                self.sought = True
                return cast("Mapping[TP, int]", committed)

    async def _fetch_records(
        self,
        consumer: aiokafka.AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> dict[TP, list[Any]]:
        """Take what waits in the topics that come first, then what is left."""
        active = self._handed_out(active_partitions)
        if not active:
            await asyncio.sleep(_NOTHING_TO_FETCH_S)
            return {}
        records: dict[TP, list[Any]] = {}
        limit = room = max_records or self.consumer.max_poll_records
        groups = [{tp for tp in active if tp.topic == topic} for topic in self.consumer.first_topics]
        for tps in filter(None, groups):
            if room:
                records |= await super()._fetch_records(consumer, tps, timeout=0, max_records=room)
                room = limit - sum(map(len, records.values()))
        rest = set(active - records.keys())  # none is asked twice, or its second answer replaces the first
        if room and rest:
            wait_s = 0 if records else timeout
            records |= await super()._fetch_records(consumer, rest, timeout=wait_s, max_records=room)
        allowed = self._handed_out(records.keys())  # it may have changed while we waited
        self._passed_over |= len(allowed) < len(records)
        return {tp: self._noted(tp, fetched) for tp, fetched in records.items() if fetched and tp in allowed}

    def _noted(self, tp: TP, records: list[RawRecord]) -> Fetched:
        follows = self._follows.get(tp)
        if follows is not None:
            if records[0].offset < follows:  # Faust would pass over them without a word
                self.consumer.hooks.on_gone_back(tp, follows, records[0].offset)
            self._follows[tp] = records[-1].offset + 1
        first, last = self.fetched.get(tp, (records[0].offset, None))
        self.fetched[tp] = (first, records[-1].offset)
        return Fetched(records, follows=last)

    def _handed_out(self, tps: Collection[TP]) -> frozenset[TP]:
        """Those whose records may be handed out now."""
        partitions = self.consumer.hooks.partitions
        known = frozenset(tp for tp in [*tps] if tp.partition < partitions)  # the main thread changes what it gave us
        return known if self.sought else frozenset(tp for tp in known if self.consumer._is_changelog_tp(tp))

    def next_fetch(self, tp: TP) -> int | None:
        """The offset that is fetched next; None while it is not known. Safe to ask from any thread."""
        assignment = self._ensure_consumer()._subscription.subscription.assignment
        if assignment is None or tp not in assignment.tps:
            return None
        return cast("int | None", assignment.state_value(tp)._position)

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = self.consumer.fetch_wait_ms
        commit = consumer.commit

        async def commit_of_logs(offsets: Mapping[Any, Any]) -> None:
            in_commit = self.consumer.hooks.in_commit
            await commit({tp: said._replace(metadata=in_commit(tp.topic)) for tp, said in offsets.items()})

        consumer.commit = commit_of_logs
        return consumer

    def still_member(self) -> bool:
        """Whether the group knew this member when it last answered."""
        return bool(self._ensure_consumer()._coordinator.generation != NO_GENERATION)


class BatchConsumer(Consumer):
    """Faust's consumer, told that a record may stand for many."""

    hooks: Hooks
    fetch_wait_ms: int
    max_poll_records: int
    first_topics: tuple[str, ...]
    """Topics whose records go before those of others, in this order."""
    _thread: _Thread

    @classmethod
    def made(
        cls, hooks: Hooks, *, fetch_wait_ms: int, max_poll_records: int, first_topics: tuple[str, ...]
    ) -> "type[BatchConsumer]":
        """The consumer class of one app: Faust makes the object itself."""
        own = {
            "hooks": hooks,
            "fetch_wait_ms": fetch_wait_ms,
            "max_poll_records": max_poll_records,
            "first_topics": first_topics,
        }
        return type(cls.__name__, (cls,), own)

    def __init__(self, transport: TransportT, *args: Any, **kwargs: Any) -> None:
        super().__init__(transport, *args, **kwargs)
        self._highest: dict[TP, int] = {}

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon, thread_loop=new_loop())

    def _new_offset(self, tp: TP) -> int | None:
        """The highest acknowledged offset + 1: batches of a partition are acknowledged in order.

        The original looks for a run without gaps, and every folded batch is a gap to it.
        """
        acked = self._acked[tp]
        if acked:
            self._highest[tp] = max(acked)
            acked.clear()
            self._acked_index[tp].clear()
        highest = self._highest.get(tp)
        return None if highest is None else highest + 1

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Gaps are what batches look like; the original would list each offset in them."""

    def on_buffer_full(self, tp: TP) -> None:
        """Let the fetcher wait for room in the queue, which wakes it.

        The original takes the partition from those to be fetched, and sleeps for a second when
        none is left; with queues of a few batches that is the normal case.
        """

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Checkpoint first: the original forgets what was acknowledged before it tells anyone."""
        self._thread.sought = False
        await self.hooks.on_giving_up(revoked, not self._thread.still_member())
        for tp in revoked:
            self._highest.pop(tp, None)
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Tell the runtime before recovery begins."""
        self._thread.fetched.clear()
        self._thread._follows.clear()
        await self.hooks.on_assigned(assigned, generation_id)
        await super().on_partitions_assigned(assigned, generation_id)

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Faust resumes the sources just before it seeks."""
        tps = set(tps)
        if not all(map(self._is_changelog_tp, tps)):
            self._thread.sought = False
        super().resume_partitions(tps)

    def next_unprocessed(self, tp: TP, after: int | None) -> int | None:
        """The offset of the first record of a partition that is not processed; None while not known.

        `after` is the last processed one's. When all that was fetched is processed it is the
        next offset to fetch: that passes over what never becomes a record, as a transaction's end.
        """
        position = self._thread.next_fetch(tp)  # before `fetched`: it must not be the newer of the two
        fetched = self._thread.fetched.get(tp)
        if fetched is None or (after is not None and after >= fetched[1]):
            return position
        return fetched[0] if after is None else after + 1

    def committed(self, tp: TP) -> int | None:
        """The offset that was last committed, or found at assignment."""
        return self._committed_offset.get(tp)
