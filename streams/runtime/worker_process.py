"""The worker process: Faust's group membership, recovery and commits, and librdkafka's fetching, around one pipeline.

What happens in which order is in `haltline.streams.runtime.checkpoint`, what keeps a replaced worker
from doing harm in `haltline.streams.runtime.changelog`, and what of Faust is replaced, and why, in
`haltline.streams.runtime.faust_overrides`. Source records come from `haltline.streams.runtime.source_reader`, from the
end of a recovery until the partitions are given up.

A failure ends the process, with the reason on stderr and a code that is not zero; its next start
goes on from the last checkpoint. Nothing is retried inside a process whose state is in doubt.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn, cast

from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.types import TP

from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.runtime.changelog import ForeignWrite
from haltline.streams.runtime.checkpoint import Checkpointer
from haltline.streams.runtime.checkpoint_pace import CheckpointPace
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer
from haltline.streams.runtime.faust_app import make_app
from haltline.streams.runtime.faust_overrides import BatchConsumer, Hooks, new_loop
from haltline.streams.runtime.garbage import Collector, collecting
from haltline.streams.runtime.health import HealthServer, Partition
from haltline.streams.runtime.lag import LagWatch
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.owned_partitions import OwnedPartitions
from haltline.streams.runtime.processor_api import Load, Processor, ProcessorFactory, RawRecord
from haltline.streams.runtime.recovery_watchdog import RecoveryWatch
from haltline.streams.runtime.runtime_metrics import RuntimeMetrics
from haltline.streams.runtime.source_progress import SourceProgress
from haltline.streams.runtime.source_reader import Fetched, SourceReader, open_consumer
from haltline.streams.runtime.topic_incarnations import TopicIncarnations
from haltline.streams.runtime.topic_watch import TopicRecreated, TopicWatch
from haltline.streams.runtime.worker_settings import WorkerSettings
from haltline.streams.runtime.zombie_guard import ZombieGuard

__all__ = [
    "EXIT_FAILED",
    "ConfirmedProducer",
    "Load",
    "Processor",
    "ProcessorFactory",
    "RawRecord",
    "WorkerSettings",
    "run_worker",
]

EXIT_FAILED: Final = 1

_HOUSEKEEPING_EVERY_S = 0.05
_LOOK_AT_RECOVERY_EVERY_S = 1.0
_STOP_WITHIN_S = 20.0
_CHECKPOINT_PAUSE_S = 0.002
"""For events, within a checkpoint: else a few in a hundred would wait for all of its states."""

log = logging.getLogger(__name__)


def run_worker(settings: WorkerSettings, factory: ProcessorFactory, metrics: Metrics | None = None) -> int:
    """Run a worker until SIGTERM or SIGINT; blocks, and must be called in the main thread.

    A signal stops it cleanly: checkpoint, commit, leave the group, return 0. A failure does
    not return: the process ends with EXIT_FAILED at once, with the reason on stderr. The runtime
    keeps its own metrics in `metrics`, which the pipeline may share.
    """
    logging.getLogger("aiokafka").setLevel(logging.WARNING)  # it builds debug records otherwise
    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            runner.run(_run(settings, factory, metrics or Metrics()))
        except Exception as failure:
            end_process(failure)
    return 0


async def _run(settings: WorkerSettings, factory: ProcessorFactory, metrics: Metrics) -> None:
    worker = _Worker(settings, factory, metrics)  # Faust wants the loop to be there when the app is made
    with collecting() as worker.garbage:
        await worker.run()


def end_process(failure: BaseException) -> NoReturn:
    """Say what happened and end the process: no clean-up, for nothing of it can be trusted now.

    One line when the reason is known; where it came from as well when it is not.
    """
    level = logging.DEBUG if isinstance(failure, KnownFailure) else logging.CRITICAL
    log.log(level, "worker: what ended it", exc_info=failure)
    print(f"haltline worker: ends: {type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
    logging.shutdown()
    os._exit(EXIT_FAILED)


class _Worker:
    """One Faust app with one agent, and the tasks around it."""

    def __init__(self, settings: WorkerSettings, factory: ProcessorFactory, metrics: Metrics) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.gauges = RuntimeMetrics(metrics)
        connection = {"bootstrap.servers": settings.bootstrap, **settings.client}
        self.producer = ConfirmedProducer(
            settings.bootstrap,
            delivery_timeout_s=settings.delivery_timeout_s,
            settings={**settings.client, **settings.producer},
        )
        self.topics = TopicWatch(connection, settings.sources, settings.changelog)
        self.incarnations = TopicIncarnations(self.topics.logs, settings.changelog, metrics)
        hooks = Hooks(
            on_giving_up=self.on_giving_up,
            on_assigned=self.on_assigned,
            on_ready=self.on_ready,
            partitions=self.topics.partitions,
            in_commit=self.topics.logs.in_commit,
        )
        self.app, self.store = make_app(settings, hooks)
        self.sources = SourceProgress()
        self.owned = OwnedPartitions(self.store, self.incarnations)
        self.store.logs = self.topics.logs.mark
        self.store.on_recovered = self.on_recovered
        self.reader = SourceReader(
            settings.sources,
            self.take,
            open_with=partial(open_consumer, settings),
            on_failure=end_process,
            max_poll_records=settings.max_poll_records,
            buffered_batches=settings.buffered_batches,
        )
        self.zombie_guard = ZombieGuard(settings.stood_still_s or settings.session_timeout_s, _stood_still)
        self.checkpointer = Checkpointer(
            factory,
            self.producer,
            self.owned,
            changelog=settings.changelog,
            alive=self.zombie_guard.check,
            commit=self.commit,
        )
        self.pace = CheckpointPace(settings.checkpoint_interval_s, self.sources.positions)
        self.garbage = Collector()
        self.generation = 0
        self.beginning: asyncio.Task[None] | None = None
        """Begins to read the sources, after a recovery."""
        self.holding = False
        """Partitions are being given up: nothing new is begun."""
        self.lag = LagWatch(
            connection,
            self.sources,
            metrics,
            topics=self.topics,
            owned=lambda: [(settings.changelog, number) for number in self.owned.numbers()],
            on_ends=lambda ends: self.loop.call_soon_threadsafe(self.compare_ends, ends),
            interval_s=settings.watermark_interval_s,
            stuck_after_s=settings.stuck_after_s,
            on_failure=end_process,
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
        """Until a signal. Raises on any failure."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, stop.set)
        stopped = asyncio.create_task(stop.wait())
        parts = (self.app.start(), self.checkpoints(), self.housekeeping(), self.watch_recovery())
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
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await self.app.stop()
        except TimeoutError:
            raise KnownFailure(f"stop: expected Faust to stop within {_STOP_WITHIN_S:.0f} s, got nothing") from None
        self.reader.close()
        self.zombie_guard.stop()
        self.lag.close()
        if self.server is not None:
            self.server.close()

    def take(self, fetched: Fetched) -> None:
        """Process one micro-batch; a checkpoint acknowledges it."""
        place, records = fetched.place, fetched.records
        expected = self.sources.next_offset(place)
        if fetched.first < expected:
            end_process(TopicRecreated.of_offsets(*place, expected, fetched.first))
        if records:
            try:
                self.checkpointer.process(records, partial(self.sources.acknowledge, place, fetched.following))
            except Exception as failure:
                end_process(failure)
            self.gauges.events[place[0],].inc(len(records))
            if place[0] == self.settings.sources[0]:  # operators' commands come first, and are not kept waiting
                self.pace.add_commands(len(records))
        self.sources.processed(place, fetched.following, records[-1].timestamp if records else None)

    async def commit(self) -> None:
        """Commit what is acknowledged."""
        offsets = self.sources.uncommitted()
        if offsets and await self.consumer().commit_offsets(offsets):
            self.sources.on_commit(offsets)

    async def checkpoints(self) -> None:
        """Checkpoint when it is due, while there is something to own."""
        while True:
            await self.pace.next()
            if self.owned.owned() and not self.holding:
                written = await self.checkpointer.checkpoint(pause_s=_CHECKPOINT_PAUSE_S)
                self.gauges.checkpointed(written)
                self.pace.took(written.busy_s)

    async def housekeeping(self) -> None:
        """See failed deliveries and a crashed Faust at once; do what is due by the clock."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING_EVERY_S)
            self.producer.poll()
            if self.owned.owned() and not self.holding:
                self.checkpointer.tick()
            self.garbage.tick()
            if self.app.crashed:
                reason = self.app.crash_reason
                raise RuntimeError(f"expected Faust to run, got a crash: {reason!r}") from reason

    async def watch_recovery(self) -> None:
        """End the process when recovery stands still."""
        watch = RecoveryWatch(
            self.store, changelog=self.settings.changelog, limit_s=self.settings.recovery_stuck_after_s
        )
        while True:
            await asyncio.sleep(_LOOK_AT_RECOVERY_EVERY_S)
            recovery = self.recovery()
            assigned = self.sources.partitions
            self.gauges.recovery(self.owned.owned(), len(assigned), recovery.active_remaining_total())
            if self.sources.recovered() or not assigned:
                watch.rest()
            else:
                watch.look(recovery, self.consumer(), self.generation, time.monotonic())

    # What Faust calls when partitions come and go.

    async def on_giving_up(self, revoked: set[TP], lost: bool) -> None:
        """Checkpoint before the partitions go, unless the group has dropped this worker already."""
        self.holding = True
        self.read_nothing()
        partitions = {tp.partition for tp in revoked}
        try:
            if lost and revoked:
                log.warning("worker: the group dropped this member; partitions %s go without a checkpoint", partitions)
            elif self.owned.owned():
                await self.checkpointer.checkpoint()
            await self.checkpointer.forget(partitions)
        except Exception as failure:
            end_process(failure)
        self.owned.release()
        self.garbage.anew()

    async def on_assigned(self, assigned: set[TP], generation: int) -> None:
        """Keep what is still ours; Faust reads the rest.

        Nothing is waited for here: this member sends no heartbeats until it returns.
        """
        count = self.topics.partitions
        sources = tuple(tp for tp in assigned if tp.topic in self.settings.sources and tp.partition < count)
        self.gauges.rebalances.inc()
        self.generation = generation
        self.store.keep(tp.partition for tp in assigned if tp.topic == self.settings.changelog)
        self.owned.release()
        self.sources.assign(sources)
        self.holding = False

    async def on_recovered(self, active: set[TP]) -> None:
        """Become the owner of what was recovered, unless partitions have gone meanwhile.

        The group is asked after everything is read: whoever takes over from now on is of a later generation, reads no
        less, and so has a higher epoch.
        """
        if not active:
            return
        sources, generation = self.sources.partitions, self.generation
        try:
            await asyncio.to_thread(self.topics.look)
            ends = await asyncio.to_thread(self.topics.ends, [(tp.topic, tp.partition) for tp in sources])
            is_member = await self.consumer().is_member(generation)
        except Exception as failure:
            if self.sources.partitions is sources:
                end_process(failure)
        if self.sources.partitions is not sources or self.holding:
            return
        if not is_member:
            log.warning("worker: the group dropped this member while it recovered; it joins again")
            return
        self.incarnations.ends = ends
        last_offsets = self.recovery().active_highwaters  # in spite of the name
        for part in self.owned.claim(active, self.generation, last_offsets):
            self.checkpointer.recovered(part)

    async def on_ready(self) -> None:
        """Read the sources. In a task of its own, for Faust gives up after a while."""
        sources = self.sources.partitions
        if {tp.partition for tp in sources} <= self.owned.numbers():
            self.beginning = asyncio.create_task(self.begin(sources))

    async def begin(self, sources: tuple[TP, ...]) -> None:
        """Read these from where they were committed, unless partitions have gone meanwhile."""
        try:
            committed = await self.consumer().committed(sources)
            if self.sources.partitions is not sources:
                return
            offsets = {tp: self.begins_at(tp, *committed.get(tp, (None, ""))) for tp in sources}
            first = await asyncio.to_thread(self.topics.begins, [tp for tp, at in offsets.items() if at is None])
        except Exception as failure:
            if self.sources.partitions is sources:
                end_process(failure)
        if self.sources.partitions is not sources:
            return
        found = {(tp.topic, tp.partition): first[tp] if at is None else at for tp, at in offsets.items()}
        self.sources.begin(found, {(tp.topic, tp.partition): at for tp, at in offsets.items() if at is not None})
        self.reader.begin(found)

    def read_nothing(self) -> None:
        """What was fetched and is not processed comes again."""
        self.sources.release()
        self.reader.stop()

    def begins_at(self, tp: TP, committed: int | None, beside: str) -> int | None:
        """Where reading of a source begins; None: at its first record."""
        part = self.store.slices.get(tp.partition)
        marks = set() if part is None else set(part.other_logs.values())
        found = self.incarnations.begins_at((tp.topic, tp.partition), committed, beside, marks)
        if part is not None and found != committed:  # each state is to be asked for what it includes
            part.other_logs = dict.fromkeys(part.values, part.logs) | part.other_logs
        return found

    def consumer(self) -> BatchConsumer:
        """Faust's member of the group."""
        return cast("BatchConsumer", self.app.consumer)

    def recovery(self) -> Recovery:
        """Faust's recovery service."""
        return cast("TableManager", self.app.tables).recovery

    def compare_ends(self, ends: Mapping[Partition, int]) -> None:
        """End the process when somebody else writes to our part of the changelog."""
        try:
            self.owned.compare_ends({number: end for (_, number), end in ends.items()})
        except ForeignWrite as failure:
            end_process(failure)


def _stood_still(seconds: float) -> NoReturn:
    end_process(
        KnownFailure(
            f"this process stood still for {seconds:.1f} s, longer than the session timeout: "
            "another may have its partitions"
        )
    )
