"""The worker process: Faust's group membership, fetching, recovery and commits around one pipeline.

What happens in which order is in `haltline.streams.checkpoint`, what keeps a replaced worker
from doing harm in `haltline.streams.changelog`, and what of Faust is replaced, and why, in
`haltline.streams.faust_overrides`.

A failure ends the process, with the reason on stderr and a code that is not zero; its next start
goes on from the last checkpoint. Nothing is retried inside a process whose state is in doubt.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NoReturn, cast

import faust
from faust.streams import Stream
from faust.tables.manager import TableManager
from faust.types import TP, StreamT

from haltline.streams.changelog import Slice
from haltline.streams.checkpoint import Checkpointer
from haltline.streams.faust_overrides import BatchConsumer, BatchScheduler, Hooks, SliceStore, StateTable
from haltline.streams.outbox import Outbox
from haltline.streams.pipeline import Load, Pipeline, PipelineFactory, RawRecord
from haltline.streams.pulse import Pulse
from haltline.streams.settings import WorkerSettings

__all__ = ["EXIT_FAILED", "Load", "Outbox", "Pipeline", "PipelineFactory", "RawRecord", "WorkerSettings", "run_worker"]

EXIT_FAILED: Final = 1

_HOUSEKEEPING_EVERY_S = 0.05
_RECOVERY_BATCHES = 4
_STOP_WITHIN_S = 20.0

log = logging.getLogger(__name__)


def run_worker(settings: WorkerSettings, factory: PipelineFactory) -> int:
    """Run a worker until SIGTERM or SIGINT; blocks, and must be called in the main thread.

    A signal stops it cleanly: checkpoint, commit, leave the group, return 0. A failure does
    not return: the process ends with EXIT_FAILED at once, with the reason on stderr.
    """
    logging.getLogger("aiokafka").setLevel(logging.WARNING)  # it builds debug records otherwise
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_run(settings, factory))
        except Exception as failure:
            end_process(failure)
    return 0


async def _run(settings: WorkerSettings, factory: PipelineFactory) -> None:
    await _Worker(settings, factory).run()  # Faust wants the loop to be there when the app is made


def end_process(failure: BaseException) -> NoReturn:
    """Say what happened and end the process: no clean-up, for nothing of it can be trusted now."""
    log.critical("worker: ends: %s", failure, exc_info=failure)
    print(f"haltline worker: ends: {type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
    logging.shutdown()
    os._exit(EXIT_FAILED)


class _Worker:
    """One Faust app with one agent, and the tasks around it. Satisfies `checkpoint.Slices`."""

    def __init__(self, settings: WorkerSettings, factory: PipelineFactory) -> None:
        self.settings = settings
        self.outbox = Outbox(
            settings.bootstrap, delivery_timeout_s=settings.delivery_timeout_s, settings=settings.producer
        )
        _same_partitions(self.outbox, (*settings.sources, settings.changelog))
        self.app, self.store = _app(settings, Hooks(on_giving_up=self.on_giving_up, on_assigned=self.on_assigned))
        self.store.on_recovered = self.on_recovered
        self.app.agent(self.app.topic(*settings.sources, **_RAW), name="batches")(self.consume)
        self.pulse = Pulse(settings.session_timeout_s, _stood_still)
        self.checkpointer = Checkpointer(
            factory,
            self.outbox,
            self,
            changelog=settings.changelog,
            alive=self.pulse.check,
            commit=self.commit,
        )
        self.generation = 0
        self.ours: dict[int, Slice] = {}
        """What this process may write: assigned, recovered and claimed."""
        self.holding = False
        """Partitions are being given up: a batch is passed over now, and comes again."""

    async def run(self) -> None:
        """Until a signal. Raises on any failure."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        stopped = asyncio.create_task(stop.wait())
        starts = asyncio.create_task(self.app.start())
        tasks = {asyncio.create_task(self.checkpoints()), asyncio.create_task(self.housekeeping())}
        pending = {stopped, starts, *tasks}
        while not stopped.done():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        self.holding = True
        await self.checkpointer.checkpoint()
        async with asyncio.timeout(_STOP_WITHIN_S):
            await self.app.stop()
        self.pulse.stop()

    async def consume(self, stream: StreamT[Any]) -> None:
        """The agent: one event is one micro-batch, acknowledged by a checkpoint."""
        async for event in cast("Stream[Any]", stream).noack().events():
            if self.holding:
                continue
            try:
                self.checkpointer.process(event.message.value, event.ack)
            except Exception as failure:
                end_process(failure)  # Faust would start the agent again, without what it held

    async def commit(self) -> None:
        """Commit what is acknowledged."""
        await self.app.consumer.commit()

    async def checkpoints(self) -> None:
        """Checkpoint at the interval while there is something to own."""
        while True:
            await asyncio.sleep(self.settings.checkpoint_interval_s)
            if self.ours and not self.holding:
                await self.checkpointer.checkpoint()

    async def housekeeping(self) -> None:
        """See failed deliveries and a crashed Faust at once."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING_EVERY_S)
            self.outbox.poll()
            if self.app.crashed:
                raise RuntimeError(f"wanted Faust to run, came a crash: {self.app.crash_reason!r}") from (
                    self.app.crash_reason
                )

    async def on_giving_up(self, revoked: set[TP], lost: bool) -> None:
        """Checkpoint before the partitions go, unless the group has dropped this worker already."""
        self.holding = True
        partitions = {tp.partition for tp in revoked}
        try:
            if lost and revoked:
                log.warning("worker: the group dropped this member; partitions %s go without a checkpoint", partitions)
            elif self.ours:
                await self.checkpointer.checkpoint()
            await self.checkpointer.forget(partitions)
        except Exception as failure:
            end_process(failure)
        self.ours = {}

    def on_assigned(self, assigned: set[TP], generation: int) -> None:
        """Keep what is still ours; Faust reads the rest."""
        self.generation = generation
        self.store.keep(tp.partition for tp in assigned if tp.topic == self.settings.changelog)
        self.ours = {}
        self.holding = False

    def on_recovered(self, active: set[TP]) -> None:
        """Become the owner of what was recovered."""
        ends = cast(TableManager, self.app.tables).recovery.active_highwaters  # last offsets, in spite of the name
        for tp in active:
            part = self.store.slice(tp.partition)
            part.claim(self.generation, time.time_ns() // 1_000_000, ends[tp])
            self.ours[tp.partition] = part

    def slice(self, partition: int) -> Slice:
        """The states of a partition."""
        return self.store.slice(partition)

    def owned(self) -> Collection[Slice]:
        """What may be written now."""
        return self.ours.values()


_RAW: Final[dict[str, Any]] = {"key_serializer": "raw", "value_serializer": "raw", "value_type": bytes}


def _app(settings: WorkerSettings, hooks: Hooks) -> tuple[faust.App, SliceStore]:
    app = faust.App(
        settings.group,
        broker=";".join(f"aiokafka://{address}" for address in settings.bootstrap.split(",")),
        ConsumerScheduler=BatchScheduler.folding((*settings.sources, settings.changelog)),
        Table=StateTable,
        store="memory://",
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        stream_wait_empty=False,
        stream_buffer_maxsize=settings.buffered_batches,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=settings.instance_id,
        consumer_max_fetch_size=settings.fetch_max_bytes,
        broker_max_poll_records=settings.max_poll_records,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / 3,
        broker_rebalance_timeout=settings.rebalance_timeout_s,
        broker_commit_interval=settings.checkpoint_interval_s,
        table_standby_replicas=settings.standby_replicas,
    )
    app.transport.Consumer = BatchConsumer.with_hooks(hooks, fetch_wait_ms=settings.fetch_wait_ms)  # type: ignore[misc]  # declared for classes, read from instances
    table = app.Table(settings.table, key_type=bytes, value_type=bytes, recovery_buffer_size=_RECOVERY_BATCHES)
    return app, cast(SliceStore, table.data)


def _same_partitions(outbox: Outbox, topics: Sequence[str]) -> None:
    """Co-partitioned topics are joined by partition number: what differs cannot be processed."""
    counts = {topic: outbox.partitions(topic) for topic in topics}
    if len(set(counts.values())) != 1:
        raise RuntimeError(f"topics: wanted the same number of partitions in each, came {counts}")


def _stood_still(seconds: float) -> NoReturn:
    end_process(
        RuntimeError(
            f"this process stood still for {seconds:.1f} s, longer than the session timeout: "
            "another may have its partitions"
        )
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415  # not to be had on every system
    except ImportError:
        return None
    return uvloop.new_event_loop
