"""The settings of a worker process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.client_settings import ClientSetting


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """The settings of one worker process: how it reads, keeps state, and judges its own health.

    Raises ValueError when a value cannot work.
    """

    bootstrap: str
    """The bootstrap servers: "host:port", several separated by commas."""
    sources: tuple[str, ...]
    """The topics to read, all with the same number of partitions.

    Waiting records of an earlier topic are processed first.
    """
    group: str = "haltline"
    """The consumer group. With `table` it forms the name of the changelog topic."""
    table: str = "sessions"
    control: str = ""
    """The compacted topic of outputs, with keys `scope:id`: see `control_entries`. Empty: there is none."""
    runs: Runs = Runs.ALL
    """Which rules this worker runs; `group` is the one that `Runs.group` returns for them."""
    instance_id: str | None = None
    """The static group membership: a process that returns with this id within the session timeout gets its
    partitions back at once. Must be unique in the group."""

    checkpoint_interval_s: float = 1.0
    max_poll_records: int = 1000
    """The most records of one micro-batch: bounds memory, and how long the event loop is blocked."""
    buffered_batches: int = 4
    """The most micro-batches of each source that wait in memory; above it, fetching pauses."""
    fetch_max_bytes: int = 1024 * 1024
    """The most bytes per partition and fetch. A larger record is fetched nevertheless, alone."""
    fetch_wait_ms: int = 500
    """The longest time for which the broker holds a fetch without data.

    Kafka answers as soon as there is a record; the embedded broker does not, and needs 10.
    """
    standby_replicas: int = 0
    """The number of other workers that keep a warm copy of each partition's state."""

    session_timeout_s: float = 10.0
    """A worker without heartbeats for longer loses its partitions."""
    stood_still_s: float | None = None
    """A process that was stopped for longer ends when it resumes. None: the session timeout."""
    rebalance_timeout_s: float = 60.0
    delivery_timeout_s: float = 30.0
    """A record that the broker has not confirmed for that long ends the process."""
    recovery_stuck_after_s: float = 60.0
    """Recovery that makes no progress for that long ends the process."""
    stuck_after_s: float = 60.0
    """If records wait and none is processed for that long, the process reports itself as unhealthy."""
    watermark_interval_s: float = 5.0
    """The interval in which end offsets are requested, apart from fetching."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """The port of /metrics, /healthz and /readyz; None serves nothing, 0 takes a free port."""
    client: Mapping[str, ClientSetting] = field(default_factory=dict)
    """librdkafka settings of every connection, for encryption and credentials (`security.protocol` ...)."""
    producer: Mapping[str, ClientSetting] = field(default_factory=dict)
    """Additional librdkafka settings of the producer."""

    def __post_init__(self) -> None:
        if not self.sources or len(set(self.sources)) != len(self.sources):
            raise ValueError(f"sources: expected one topic or more, each once, got {self.sources}")
        if self.changelog in self.sources:
            raise ValueError(f"sources: expected topics other than the worker's own changelog, got {self.changelog}")
        for name in ("max_poll_records", "buffered_batches", "fetch_max_bytes", "fetch_wait_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        if self.standby_replicas < 0:
            raise ValueError(f"standby_replicas: expected 0 or more, got {self.standby_replicas}")
        for name in (
            "checkpoint_interval_s",
            "session_timeout_s",
            "rebalance_timeout_s",
            "delivery_timeout_s",
            "recovery_stuck_after_s",
            "stuck_after_s",
            "watermark_interval_s",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")

    @property
    def changelog(self) -> str:
        """The name of the changelog topic, as Faust sets it."""
        return f"{self.group}-{self.table}-changelog"
