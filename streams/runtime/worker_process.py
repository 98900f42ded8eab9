"""The worker process: Faust's group membership and commits, and librdkafka's fetching, around one pipeline.

- `haltline.streams.runtime.checkpoint` has the order of the steps.
- `haltline.streams.runtime.changelog` explains how a replaced worker is kept from doing harm.
- `haltline.streams.runtime.ownership` describes how partitions become this process's.
- `haltline.streams.runtime.faust_overrides` lists what of Faust is replaced, and why.
- `haltline.streams.runtime.source_reader` fetches the records of owned partitions.
- `haltline.streams.runtime.careful_reading` passes over a record that ends the process.

A failure ends the process, with the reason on stderr and a non-zero exit code; the next start continues from the last
checkpoint. Nothing is retried inside a process whose state is in doubt.
"""

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn

from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.runtime.careful_reading import AT_MOST, CarefulReading
from haltline.streams.runtime.changelog import ForeignWrite, RawRecord, begins_of
from haltline.streams.runtime.checkpoint import Checkpointer, RuntimeMetrics
from haltline.streams.runtime.checkpoint_pace import CheckpointPace
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer
from haltline.streams.runtime.control_entries import ControlEntries
from haltline.streams.runtime.faust_membership import FaustMembership
from haltline.streams.runtime.faust_overrides import new_loop
from haltline.streams.runtime.garbage import Collector, collecting
from haltline.streams.runtime.health import HealthServer, Partition
from haltline.streams.runtime.lag import LagWatch
from haltline.streams.runtime.membership import Hooks, Membership
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.ownership import Ownership
from haltline.streams.runtime.processor_api import ProcessorFactory
from haltline.streams.runtime.source_progress import SourceProgress
from haltline.streams.runtime.source_reader import Fetched, SourceReader, open_consumer
from haltline.streams.runtime.topic_incarnations import TopicIncarnations
from haltline.streams.runtime.topic_watch import TopicRecreated, TopicWatch
from haltline.streams.runtime.trial import Try, in_child
from haltline.streams.runtime.worker_settings import WorkerSettings
from haltline.streams.runtime.zombie_guard import ZombieGuard
from haltline.streams.system import REAL, System

EXIT_FAILED: Final = 1

_HOUSEKEEPING_EVERY_S = 0.05
_LOOK_AT_PROGRESS_EVERY_S = 1.0
_ENDS_MAY_LAG_S = 10.0
_AGAIN_AFTER_S = 0.1
_HANGS_AFTER_SESSIONS = 2
"""A record that takes this many session timeouts ends the process. Its partitions have another owner by then."""
_CHECKPOINT_PAUSE_S = 0.002
"""Seconds left to events within a checkpoint; otherwise a few per cent of them would wait for all of its states."""

log = logging.getLogger(__name__)


def run_worker(settings: WorkerSettings, factory: ProcessorFactory, metrics: Metrics | None = None) -> int:
    """Run a worker until SIGTERM or SIGINT; blocks, and must be called in the main thread.

    A signal stops it cleanly: checkpoint, commit, leave the group, return 0. A failure does not return: the process
    ends at once with EXIT_FAILED, and the reason on stderr. The runtime adds its own metrics to `metrics`, which the
    pipeline may share.
    """
    logging.getLogger("aiokafka").setLevel(logging.WARNING)  # it creates debug log records otherwise
    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            runner.run(_run(settings, factory, metrics or Metrics()))
        except Exception as failure:
            end_process(failure)
    return 0


async def _run(settings: WorkerSettings, factory: ProcessorFactory, metrics: Metrics) -> None:
    limit_s = settings.session_timeout_s * _HANGS_AFTER_SESSIONS
    watchdog = partial(faulthandler.dump_traceback_later, limit_s, exit=True)  # needs no Python code to run
    faulthandler.enable()
    with collecting() as garbage:
        try:
            await Worker(
                settings, factory, metrics, join=FaustMembership, end=end_process, watchdog=watchdog, garbage=garbage
            ).run()
        finally:
            faulthandler.cancel_dump_traceback_later()


def end_process(failure: BaseException) -> NoReturn:
    """Print the failure and end the process without clean-up, because its state cannot be trusted.

    A known failure is printed in one line, any other with its traceback.
    """
    level = logging.DEBUG if isinstance(failure, KnownFailure) else logging.CRITICAL
    log.log(level, "worker: what ended it", exc_info=failure)
    print(f"haltline worker: ends: {type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
    logging.shutdown()
    os._exit(EXIT_FAILED)


Join = Callable[[WorkerSettings, Hooks, Callable[[str], str]], Membership]
"""Makes a member of the worker's group within the running loop; it joins when it is started.

The last argument returns a commit's metadata by topic.
"""


class Worker:
    """One member of the group, with its tasks. Create it within a running loop.

    `end` ends the process with a failure, and does not return.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        factory: ProcessorFactory,
        metrics: Metrics,
        *,
        join: Join,
        end: Callable[[BaseException], NoReturn],
        garbage: Collector,
        watchdog: Callable[[], object] = lambda: None,
        trial: Try = in_child,
        system: System = REAL,
    ) -> None:
        self.settings = settings
        self.watchdog = watchdog
        self.end = end
        self.garbage = garbage
        self.system = system
        self.loop = asyncio.get_running_loop()
        self.gauges = RuntimeMetrics(metrics)
        connection = {"bootstrap.servers": settings.bootstrap, **settings.client}
        self.producer = ConfirmedProducer(
            settings.bootstrap,
            delivery_timeout_s=settings.delivery_timeout_s,
            settings={**settings.client, **settings.producer},
            system=system,
        )
        self.topics = TopicWatch(connection, settings.sources, settings.changelog, system=system)
        logs = self.topics.logs
        self.incarnations = TopicIncarnations(logs, settings.changelog, metrics)
        hooks = Hooks(on_giving_up=self.on_giving_up, on_assigned=self.on_assigned)
        self.group = join(settings, hooks, logs.in_commit)
        self.sources = SourceProgress()
        self.owned = OwnedPartitions()
        open_reader = partial(
            SourceReader,
            on_failure=end,
            max_poll_records=settings.max_poll_records,
            buffered_batches=settings.buffered_batches,
            system=system,
        )
        open_with = partial(open_consumer, settings, system=system)
        self.reader = open_reader(settings.sources, self.take, open_with=open_with)
        self.ownership = Ownership(
            self.owned,
            self.producer,
            self.group,
            changelog=settings.changelog,
            logs=logs.mark,
            open_reader=partial(open_reader, [settings.changelog], open_with=partial(open_with, reset="error")),
            stuck_after_s=settings.recovery_stuck_after_s,
            on_failure=end,
            system=system,
        )
        self.entries = entries = ControlEntries(
            settings.control,
            self.producer,
            self.owned,
            changelog=f"{settings.changelog} {logs.changelog}".rstrip(),
            partitions=self.topics.partitions,
            open_reader=partial(open_reader, open_with=open_with),
            on_failure=end,
        )
        self.zombie_guard = ZombieGuard(settings.stood_still_s or settings.session_timeout_s, end, system=system)
        self.checkpointer = Checkpointer(
            lambda load, _: factory(load, entries),
            self.producer,
            self.owned,
            changelog=settings.changelog,
            alive=self.zombie_guard.check,
            commit=self.commit,
            system=system,
        )
        self.careful = CarefulReading(
            trial=lambda records: trial(self.checkpointer.rehearse, records, settings.session_timeout_s),
            process=self.process,
            pass_over=self.pass_over,
        )
        self.pace = CheckpointPace(settings.checkpoint_interval_s, self.sources.positions, system.monotonic)
        self.beginning: asyncio.Task[None] | None = None
        """The task that becomes the owner of what was assigned, and starts reading the sources."""
        self.holding = False
        """Whether partitions are being revoked: nothing new is started."""
        self.lag = LagWatch(
            connection,
            self.sources,
            metrics,
            topics=self.topics,
            owned=lambda: [(settings.changelog, number) for number in self.owned.numbers()],
            on_ends=lambda ends: self.loop.call_soon_threadsafe(self.compare_ends, ends),
            interval_s=settings.watermark_interval_s,
            stuck_after_s=settings.stuck_after_s,
            on_failure=end,
            system=system,
        )
        self.server: HealthServer | None = None
        if settings.metrics_port is not None:
            self.server = HealthServer(
                settings.metrics_host,
                settings.metrics_port,
                verdict=lambda: replace(self.lag.verdict(), notes=tuple(self.incarnations.notes)),
                exposition=metrics.exposition,
            )
            log.info("worker: serves /metrics, /healthz and /readyz on port %d", self.server.port)

    async def run(self) -> None:
        """Run until a signal. Raises on any failure."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, stop.set)
        stopped = asyncio.create_task(stop.wait())
        parts = [self.group.start(), self.checkpoints(), self.housekeeping(), self.watch_progress()]
        parts.append(self.entries.follow(self.topics.ends))
        pending = {stopped, *(asyncio.create_task(part) for part in parts)}
        while not stopped.done():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        await self.stop()

    async def stop(self) -> None:
        """Checkpoint, leave the group, end the threads."""
        self.holding = True
        self.read_nothing()
        if self.owned.owned():
            await self.checkpointer.checkpoint()
        await self.group.stop()
        self.reader.close()
        self.ownership.close()
        self.entries.close()
        self.zombie_guard.stop()
        self.lag.close()
        if self.server is not None:
            self.server.close()

    def take(self, fetched: Fetched) -> Coroutine[None, None, None] | None:
        """Process one micro-batch; a checkpoint acknowledges it."""
        place, records = fetched.place, fetched.records
        expected = self.sources.next_offset(place)
        if fetched.first < expected:
            self.end(TopicRecreated.of_offsets(*place, expected, fetched.first))
        if self.careful.concerns(fetched):
            return self.take_carefully(fetched)
        try:
            self.process(place, records, fetched.following)
        except Exception as failure:
            self.end(failure)
        return None

    async def take_carefully(self, fetched: Fetched) -> None:
        """Like `take`, but records that end the process that decides them are passed over."""
        try:
            await self.careful.read(fetched)
        except Exception as failure:
            self.end(failure)

    def process(self, place: Partition, records: Sequence[RawRecord], following: int) -> None:
        """Process all records of a partition before an offset."""
        if records:
            self.checkpointer.process(records, partial(self.sources.acknowledge, place, following))
        self.count(place, records, following)

    def pass_over(self, place: Partition, record: RawRecord, why: str, following: int) -> None:
        """Put aside the only record of a partition before an offset."""
        self.checkpointer.pass_over(record, why, partial(self.sources.acknowledge, place, following))
        self.count(place, (record,), following)

    def count(self, place: Partition, records: Sequence[RawRecord], following: int) -> None:
        """Count processed records."""
        self.gauges.events[place[0],].inc(len(records))
        if place[0] == self.settings.sources[0]:  # operators' commands come first, and are not kept waiting
            self.pace.add_commands(len(records))
        self.sources.processed(place, following, records[-1].timestamp if records else None)

    async def commit(self) -> None:
        """Commit what was acknowledged."""
        offsets = self.sources.uncommitted()
        if offsets and await self.group.commit(offsets):
            self.sources.on_commit(offsets)

    async def checkpoints(self) -> None:
        """Checkpoint when it is due, while partitions are owned."""
        while True:
            await self.pace.next()
            if self.owned.owned() and not self.holding:
                written = await self.checkpointer.checkpoint(pause_s=_CHECKPOINT_PAUSE_S)
                self.gauges.checkpointed(written)
                self.pace.took(written.busy_s)

    async def housekeeping(self) -> None:
        """Detect failed deliveries and a crashed group member at once; do what is due by the clock."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING_EVERY_S)
            self.producer.poll()
            if self.owned.owned() and not self.holding:
                self.checkpointer.tick()
                self.entries.mend()
            self.garbage.tick()
            if (failure := self.group.failure()) is not None:
                raise failure

    async def watch_progress(self) -> None:
        """End the process when recovery stalls, or when a record holds up this loop."""
        while True:
            self.watchdog()
            await asyncio.sleep(_LOOK_AT_PROGRESS_EVERY_S)
            self.ownership.check_progress()
            self.gauges.recovery(self.owned.owned(), len(self.sources.partitions), self.ownership.remaining())

    # Callbacks of the group when partitions are assigned or revoked.

    async def on_giving_up(self, revoked: Set[Partition], lost: bool) -> None:
        """Checkpoint before the partitions are revoked, unless the group has already dropped this worker."""
        self.holding = True
        self.read_nothing()
        partitions = {number for _, number in revoked}
        try:
            if lost and revoked:
                log.warning(
                    "worker: the group dropped this member; partitions %s are lost without a checkpoint", partitions
                )
            elif self.owned.owned():
                await self.checkpointer.checkpoint()
            await self.checkpointer.forget(partitions)
            await self.ownership.release(lost=lost)
        except Exception as failure:
            self.end(failure)
        self.garbage.refreeze()

    async def on_assigned(self, assigned: Set[Partition], generation: int) -> None:
        """Start taking ownership. Waits for nothing: this member sends no heartbeats until it returns."""
        count = self.topics.partitions  # partitions added since then are never read
        sources = tuple(place for place in assigned if place[0] in self.settings.sources and place[1] < count)
        held = {number for topic, number in assigned if topic == self.settings.changelog and number < count}
        self.gauges.rebalances.inc()
        self.sources.assign(sources)
        self.ownership.assign({number for _, number in sources}, held)
        self.holding = False
        self.beginning = self.loop.create_task(self.begin(sources, generation))

    async def begin(self, sources: tuple[Partition, ...], generation: int) -> None:
        """Own what was assigned, and read its sources from their commits, unless it was revoked meanwhile."""
        try:
            await asyncio.to_thread(self.topics.look)
            before = await self.group.committed(sources)
            while True:
                if not await self.ownership.recover(
                    generation, begins_of({place: at for place, (at, _) in before.items()})
                ):
                    return
                committed = await self.group.committed(sources)
                ends = await self.source_ends(sources, committed)
                if self.is_gone(sources):
                    return
                if self.ownership.is_claimed():  # another claim may have been read since
                    break
            owned = self.ownership.own()
            offsets = {p: self.begins_at(p, ends[p], *committed.get(p, (None, ""))) for p in sources}
            for part in owned:
                self.checkpointer.recovered(part)
            first = await asyncio.to_thread(self.topics.begins, [place for place, at in offsets.items() if at is None])
            if self.is_gone(sources):
                return
            found = {place: first[place] if at is None else at for place, at in offsets.items()}
            again = [place for place, at in found.items() if self.owned.slice(place[1]).begins_again(place[0], at)]
            self.careful.begin({place: min(ends[place], found[place] + AT_MOST) for place in again})
            self.sources.begin(found, {place: at for place, at in offsets.items() if at is not None})
            await self.commit_first(sources, first)
        except Exception as failure:
            if self.is_gone(sources):
                return
            self.end(failure)
        if not self.is_gone(sources):
            self.reader.begin(found)
            self.lag.look_soon()

    async def commit_first(self, sources: tuple[Partition, ...], first: Mapping[Partition, int]) -> None:
        """Commit the first offset of partitions without a commit, before any state includes their records.

        So a state without a commit belongs to a topic that was deleted since.
        """
        for place, offset in first.items():
            self.sources.acknowledge(place, offset)
        while not self.is_gone(sources):
            await self.commit()
            if not self.sources.uncommitted():
                return
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def source_ends(
        self, sources: tuple[Partition, ...], committed: Mapping[Partition, tuple[int, str]]
    ) -> Mapping[Partition, int]:
        """Return the end offsets of these partitions. Raises KafkaException.

        An end before the commit may come from a broker that has just restarted and does not know its full end yet: the
        request is repeated for a while before the records between are considered lost.
        """
        deadline = self.system.monotonic() + _ENDS_MAY_LAG_S
        while True:
            ends = await asyncio.to_thread(self.topics.ends, sources)
            known = all(offset <= ends[place] for place, (offset, _) in committed.items())
            if known or self.is_gone(sources) or self.system.monotonic() > deadline:
                return ends
            await asyncio.sleep(_AGAIN_AFTER_S)

    def is_gone(self, sources: tuple[Partition, ...]) -> bool:
        """Return whether this is no longer the current assignment."""
        return self.holding or self.sources.partitions is not sources

    def read_nothing(self) -> None:
        """Stop reading. What was fetched and not processed is fetched again."""
        self.sources.release()
        self.reader.stop()

    def begins_at(self, place: Partition, end: int, committed: int | None, beside: str) -> int | None:
        """Return the offset at which to read a source; None: at its first record."""
        part = self.owned.slice(place[1])
        found = self.incarnations.begins_at(place, committed, beside, end, part.former)
        if found != committed:  # states include offsets that other records have, or will have
            part.outdate()
        return found

    def compare_ends(self, ends: Mapping[Partition, int]) -> None:
        """End the process when another process writes to a changelog partition that this one owns."""
        try:
            self.owned.compare_ends({number: end for (_, number), end in ends.items()})
        except ForeignWrite as failure:
            self.end(failure)
