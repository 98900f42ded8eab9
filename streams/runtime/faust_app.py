"""Faust's app as the worker wants it: every setting in one place."""

from typing import Final, cast

from haltline.streams.kafka.security import faust_credentials
from haltline.streams.runtime.faust_overrides import (
    BatchConsumer,
    BatchScheduler,
    Hooks,
    PartitionStateStore,
    StateTable,
    WorkerApp,
)
from haltline.streams.runtime.worker_settings import WorkerSettings

_RECOVERY_BATCHES: Final = 4
_REQUEST_TIMEOUT_S: Final = 90.0


def make_app(settings: WorkerSettings, hooks: Hooks) -> tuple[WorkerApp, PartitionStateStore]:
    """An app with its table; nothing runs before `start`. Needs a running loop."""
    app = WorkerApp(
        settings.group,
        buffered_changelog_batches=settings.buffered_batches,
        broker=";".join(f"aiokafka://{address}" for address in settings.bootstrap.split(",")),
        ConsumerScheduler=BatchScheduler,
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
        broker_credentials=faust_credentials(settings.client),
        broker_request_timeout=max(_REQUEST_TIMEOUT_S, settings.session_timeout_s),
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / 3,
        broker_rebalance_timeout=settings.rebalance_timeout_s,
        broker_commit_interval=settings.checkpoint_interval_s,
        table_standby_replicas=settings.standby_replicas,
    )
    app.transport.Consumer = BatchConsumer.made(  # type: ignore[misc]  # read from the object
        hooks, fetch_wait_ms=settings.fetch_wait_ms
    )
    app.topics.add(app.topic(*settings.sources))  # the group shares them out; who reads them is the source reader
    table = app.Table(settings.table, key_type=bytes, value_type=bytes, recovery_buffer_size=_RECOVERY_BATCHES)
    return app, cast(PartitionStateStore, table.data)
