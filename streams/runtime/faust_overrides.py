"""haltline's overrides of Faust: classes tied to the minor version that pyproject.toml pins.

Faust provides group membership, the assignment of partitions and standbys, and commits. It reads nothing: librdkafka
fetches sources and changelog, and the log shows when a partition is recovered (`haltline.streams.runtime.ownership`).

- `ReadElsewhere` replaces Faust's recovery, and `Tables` starts it at once.
- `GroupConsumer` commits the id of the log with an offset, and has the worker checkpoint before a partition is revoked.
- `WorkerApp` creates no folders on disk.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, cast

import aiokafka  # type: ignore[import-untyped]  # it ships no types
import faust
from aiokafka.errors import KafkaError as SendFailed  # type: ignore[import-untyped]  # as above
from aiokafka.protocol.group import HeartbeatRequest  # type: ignore[import-untyped]  # as above
from confluent_kafka import KafkaError
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, ensure_aiokafka_TPset
from faust.types import TP
from mode import Service
from mode.threads import ServiceThread, WorkerThread

from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.membership import Hooks

_POLL_S: Final = 0.2

NO_GENERATION: Final = -1
"""aiokafka's generation when the group no longer knows this member."""

_ANSWERS: Final[Mapping[int, bool]] = {
    KafkaError.NO_ERROR: True,
    KafkaError.REBALANCE_IN_PROGRESS: True,  # the next generation does not exist yet
    KafkaError.ILLEGAL_GENERATION: False,
    KafkaError.UNKNOWN_MEMBER_ID: False,
    KafkaError.FENCED_INSTANCE_ID: False,
}
"""Whether this member is in the group, by the error of a heartbeat. Any other error is no answer, and is retried."""


def new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of the fastest kind that this system has."""
    try:
        import uvloop  # noqa: PLC0415  # not to be had on every system
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class ReadElsewhere(Service):
    """A replacement of Faust's recovery: Faust recovers nothing, and its fetcher keeps polling.

    The group would drop a member that does not poll.
    """

    def __init__(self, app: faust.App, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app: Any = app
        self.completed = asyncio.Event()

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Do nothing: nothing is buffered."""

    async def on_rebalance(
        self, assigned: set[TP], _revoked: set[TP], _newly_assigned: set[TP], _generation_id: int = 0
    ) -> None:
        """End the rebalance: from here on the paused partitions are polled."""
        self.app.consumer.resume_partitions(assigned)
        self.app.flow_control.resume()
        self.app.consumer.resume_flow()
        await self.app._fetcher.maybe_start()
        self.app.on_rebalance_end()
        self.completed.set()


class Tables(TableManager):
    """Faust's tables, with a changelog that is read elsewhere."""

    def __init__(self, app: faust.App, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self._recovery = cast(Recovery, ReadElsewhere(app, beacon=self.beacon, loop=self.loop))

    async def on_start(self) -> None:
        """Start at once: Faust would wait a second for more tables."""
        await self._update_channels()
        await self.recovery.start()


class WorkerApp(faust.App):
    """Faust's app, without files."""

    def _create_directories(self) -> None:
        """Do nothing: nothing is kept on disk."""


class _Daemon(WorkerThread):
    """A daemon thread. A thread that is stopped while it starts can miss that, and would keep the process alive."""

    def __init__(self, service: ServiceThread, **kwargs: Any) -> None:
        super().__init__(service, **kwargs)
        self.daemon = True


class _Thread(AIOKafkaConsumerThread):
    Worker = _Daemon
    consumer: "GroupConsumer"

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Do nothing: this consumer fetches nothing."""
        self._ensure_consumer().pause(*ensure_aiokafka_TPset(assigned))
        await super().on_partitions_assigned(assigned, generation_id)

    async def _fetch_records(
        self,
        consumer: aiokafka.AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ARG002  # Faust's signature
        max_records: int | None = None,
    ) -> dict[TP, list[Any]]:
        await super()._fetch_records(consumer, active_partitions, timeout=_POLL_S, max_records=max_records)
        return {}

    async def committed(self, tps: Collection[TP]) -> Mapping[TP, Any]:
        """Return the committed offsets with their metadata; partitions without a commit are left out."""
        fetch = self._ensure_consumer()._coordinator.fetch_committed_offsets
        return cast("Mapping[TP, Any]", await self.call_thread(fetch, ensure_aiokafka_TPset(tps)))

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        commit = consumer.commit

        async def commit_of_logs(offsets: Mapping[Any, Any]) -> None:
            in_commit = self.consumer.in_commit
            await commit({tp: offset._replace(metadata=in_commit(tp.topic)) for tp, offset in offsets.items()})

        consumer.commit = commit_of_logs
        return consumer

    @property
    def generation(self) -> int:
        """The group generation of this member; NO_GENERATION when the group has dropped it."""
        return int(self._ensure_consumer()._coordinator.generation)

    async def is_member(self, generation: int) -> bool | None:
        """Ask the group whether this member is in this generation; None without an answer.

        aiokafka's own heartbeat would apply an answer about an ended generation to the next one, drop its membership
        and join again: with several members, endlessly.
        """
        coordinator = self._ensure_consumer()._coordinator

        async def ask() -> bool | None:
            if coordinator.generation != generation:
                return False
            if coordinator.coordinator_id is None:
                return None
            request = HeartbeatRequest(coordinator.group_id, generation, coordinator.member_id)
            try:
                response = await coordinator._send_req(request)
            except SendFailed:
                return None
            return _ANSWERS.get(response.error_code)

        return cast("bool | None", await self.call_thread(ask))


class GroupConsumer(Consumer):
    """Faust's consumer: a group member that fetches nothing."""

    hooks: Hooks
    in_commit: Callable[[str], str]
    _thread: _Thread

    @classmethod
    def made(cls, hooks: Hooks, in_commit: Callable[[str], str]) -> "type[GroupConsumer]":
        """Return the consumer class of one app, which Faust instantiates.

        `in_commit` returns a commit's metadata by topic.
        """
        return type(cls.__name__, (cls,), {"hooks": hooks, "in_commit": staticmethod(in_commit)})

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon, thread_loop=new_loop())

    async def perform_seek(self) -> None:
        """Do nothing: nothing is fetched."""

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust does not fetch these partitions. The lag watch checks their progress."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Checkpoint before the listeners are called."""
        await self.hooks.on_giving_up(revoked, self._thread.generation == NO_GENERATION)
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Notify the runtime before the listeners are called."""
        await self.hooks.on_assigned(assigned, generation_id)
        await super().on_partitions_assigned(assigned, generation_id)

    @property
    def generation(self) -> int:
        """See `_Thread.generation`."""
        return self._thread.generation

    async def is_member(self, generation: int) -> bool | None:
        """See `_Thread.is_member`."""
        return await self._thread.is_member(generation)

    async def committed(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        """What the group has committed of these: offset, and what is beside it."""
        found = await self._thread.committed([TP(*partition) for partition in partitions])
        return {(tp.topic, tp.partition): (offset.offset, offset.metadata) for tp, offset in found.items()}

    async def commit_offsets(self, offsets: Mapping[Partition, int]) -> bool:
        """Commit those that are still assigned. Whether the group took them."""
        assignment = self.assignment()
        kept = {tp: offset for partition, offset in offsets.items() if (tp := TP(*partition)) in assignment}
        return bool(kept) and await self._commit(kept)
