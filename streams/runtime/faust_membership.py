"""A member of the consumer group by Faust: every setting of its app in one place."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, cast

from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.security import faust_credentials
from haltline.streams.runtime.faust_overrides import GroupConsumer, WorkerApp
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.membership import Hooks
from haltline.streams.runtime.worker_settings import WorkerSettings

_REQUEST_TIMEOUT_S: Final = 90.0
_STOP_WITHIN_S: Final = 20.0
_HEARTBEAT_AGAIN_AFTER_S: Final = 0.1
_METADATA_AGE_MS: Final = 3_000
"""A leader of the group that does not know the topics, as a broker has just started again, assigns nothing to anybody.
It assigns again when it has asked again; Faust's default is five minutes."""


class FaustMembership:
    """Satisfies `membership.Membership`. Make it within a running loop; `in_commit` is committed beside an offset."""

    def __init__(self, settings: WorkerSettings, hooks: Hooks, in_commit: Callable[[str], str]) -> None:
        self._app = WorkerApp(
            settings.group,
            broker=";".join(f"aiokafka://{address}" for address in settings.bootstrap.split(",")),
            store="memory://",
            web_enabled=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            stream_wait_empty=False,
            consumer_auto_offset_reset="earliest",
            consumer_group_instance_id=settings.instance_id,
            consumer_metadata_max_age_ms=_METADATA_AGE_MS,
            broker_credentials=faust_credentials(settings.client),
            broker_request_timeout=max(_REQUEST_TIMEOUT_S, settings.session_timeout_s),
            broker_session_timeout=settings.session_timeout_s,
            broker_heartbeat_interval=settings.session_timeout_s / 3,
            broker_rebalance_timeout=settings.rebalance_timeout_s,
            broker_commit_interval=settings.checkpoint_interval_s,
            table_standby_replicas=settings.standby_replicas,
        )
        self._app.transport.Consumer = GroupConsumer.made(hooks, in_commit)  # type: ignore[misc]  # read from the object
        self._app.topics.add(self._app.topic(*settings.sources))
        self._app.Table(
            settings.table, key_type=bytes, value_type=bytes
        )  # its changelog is shared out with the sources

    async def start(self) -> None:
        """Join."""
        await self._app.start()

    async def stop(self) -> None:
        """Leave. Raises KnownFailure when it takes too long."""
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await self._app.stop()
        except TimeoutError:
            raise KnownFailure(f"stop: expected Faust to stop within {_STOP_WITHIN_S:.0f} s, got nothing") from None

    def failure(self) -> BaseException | None:
        """Why Faust crashed; None while it runs."""
        if not self._app.crashed:
            return None
        reason = self._app.crash_reason
        failure = RuntimeError(f"expected Faust to run, got a crash: {reason!r}")
        failure.__cause__ = reason
        return failure

    async def is_member(self, generation: int) -> bool:
        """Whether the group, asked now, still has this member in this generation; waits for its coordinator."""
        while (answer := await self._consumer.is_member(generation)) is None:
            await asyncio.sleep(_HEARTBEAT_AGAIN_AFTER_S)
        return answer

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, str]]:
        """What the group has committed of these: offset, and what is beside it."""
        return await self._consumer.committed(partitions)

    async def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Commit those that are still assigned. Whether the group took them."""
        return await self._consumer.commit_offsets(offsets)

    @property
    def _consumer(self) -> GroupConsumer:
        return cast(GroupConsumer, self._app.consumer)
