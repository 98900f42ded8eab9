"""The membership in the consumer group through Faust, with every setting of its app."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, cast

from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.security import faust_credentials
from haltline.streams.runtime.faust_overrides import GroupConsumer, Tables, WorkerApp
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.membership import Hooks
from haltline.streams.runtime.worker_settings import WorkerSettings

_REQUEST_TIMEOUT_S: Final = 90.0
_STOP_WITHIN_S: Final = 20.0
_HEARTBEAT_AGAIN_AFTER_S: Final = 0.1
_METADATA_AGE_MS: Final = 3_000
"""The metadata age after which the group's leader refreshes, in milliseconds.

A leader without metadata of the topics, as after a broker restart, assigns nothing until then; Faust's default is five
minutes.
"""


class FaustMembership:
    """Implements `membership.Membership`.

    Create it within a running loop; `in_commit` returns a commit's metadata by topic.
    """

    def __init__(self, settings: WorkerSettings, hooks: Hooks, in_commit: Callable[[str], str]) -> None:
        self._app = WorkerApp(
            settings.group,
            broker=";".join(f"aiokafka://{address}" for address in settings.bootstrap.split(",")),
            store="memory://",
            TableManager=Tables,
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
        )  # its changelog is assigned together with the sources

    async def start(self) -> None:
        """Join the group."""
        await self._app.start()

    async def stop(self) -> None:
        """Leave the group. Raises KnownFailure on a timeout."""
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await self._app.stop()
        except TimeoutError:
            raise KnownFailure(f"stop: expected Faust to stop within {_STOP_WITHIN_S:.0f} s, got nothing") from None

    def failure(self) -> BaseException | None:
        """The exception with which Faust crashed; None while it runs."""
        if not self._app.crashed:
            return None
        reason = self._app.crash_reason
        failure = RuntimeError(f"expected Faust to run, got a crash: {reason!r}")
        failure.__cause__ = reason
        return failure

    async def is_member(self, generation: int) -> bool:
        """Ask the group whether this member is still in this generation; waits for the coordinator."""
        while (answer := await self._consumer.is_member(generation)) is None:
            await asyncio.sleep(_HEARTBEAT_AGAIN_AFTER_S)
        return answer

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, str]]:
        """Return the committed offset and metadata of these partitions."""
        return await self._consumer.committed(partitions)

    async def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Commit the offsets of partitions that are still assigned. Returns whether the group accepted them."""
        return await self._consumer.commit_offsets(offsets)

    @property
    def _consumer(self) -> GroupConsumer:
        return cast(GroupConsumer, self._app.consumer)
