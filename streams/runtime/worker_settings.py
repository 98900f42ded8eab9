"""The settings of a worker process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.client_settings import ClientSetting


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How one worker process reads, keeps state, and judges its own health.

    Raises ValueError when a value cannot work.
    """

    bootstrap: str
    """Kafka's address, "host:port", several separated by commas."""
    sources: tuple[str, ...]
    """The topics to read, all with the same number of partitions. Where several have records
    waiting, those of an earlier topic are processed first."""
    group: str = "haltline"
    """The consumer group; with `table` it makes the name of the changelog topic."""
    table: str = "sessions"
    control: str = ""
    """The topic of outputs that is compacted, with keys `scope:id`: see `control_entries`. Empty: there is none."""
    runs: Runs = Runs.ALL
    """Which rules; `group` is the one of these, as `Runs.group` says."""
    instance_id: str | None = None
    """Static group membership: a process that comes back under this name within the session
    timeout takes its partitions up at once. Must be unique in the group."""

    checkpoint_interval_s: float = 1.0
    max_poll_records: int = 1000
    """The most records of one micro-batch: bounds memory, and how long the event loop is held."""
    buffered_batches: int = 4
    """Micro-batches of each source that may wait in memory; fetching pauses above."""
    fetch_max_bytes: int = 1024 * 1024
    """Per partition and fetch. A larger record is fetched nevertheless, alone."""
    fetch_wait_ms: int = 500
    """How long the broker may hold a fetch when nothing is there. Kafka answers as soon as
    something is; the embedded broker does not, and wants 10."""
    standby_replicas: int = 0
    """How many other workers keep a warm copy of each partition's state."""

    session_timeout_s: float = 10.0
    """A worker that is silent for longer loses its partitions."""
    stood_still_s: float | None = None
    """A process that was stopped for longer ends when it goes on. None takes the session timeout."""
    rebalance_timeout_s: float = 60.0
    delivery_timeout_s: float = 30.0
    """A record that the broker has not confirmed for that long ends the process."""
    recovery_stuck_after_s: float = 60.0
    """Recovery that makes no progress for that long ends the process."""
    stuck_after_s: float = 60.0
    """Records waiting and none processed for that long: the process calls itself unhealthy."""
    watermark_interval_s: float = 5.0
    """How often the ends of the partitions are asked for, apart from fetching."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """Where /metrics, /healthz and /readyz are served; None serves nothing, 0 takes a free port."""
    client: Mapping[str, ClientSetting] = field(default_factory=dict)
    """librdkafka settings of every connection, for encryption and credentials (`security.protocol` ...)."""
    producer: Mapping[str, ClientSetting] = field(default_factory=dict)
    """More librdkafka settings of the producer."""

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
        """The topic that holds the state; Faust gives it this name."""
        return f"{self.group}-{self.table}-changelog"
