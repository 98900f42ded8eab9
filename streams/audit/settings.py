"""What an audit sink is told at its start."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from haltline.schemas.topics import Topics
from haltline.streams.audit.redacting import KINDS, Redaction
from haltline.streams.kafka.client_settings import ClientSetting

DEFAULT_TABLE: Final = ".haltline/audit"

# The sink places itself by the table; any of these would let Kafka place it.
_OURS: Final = (
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "group.id",
    "group.protocol",
    "partition.assignment.strategy",
)
_LARGEST_FLUSH_BYTES: Final = 1024 * 1024 * 1024  # an Arrow column of bytes holds 2 GiB


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How one sink process reads, and where it writes.

    Any number of processes with the same `group`, `sink` and `table` share the work.
    Raises ValueError when a value cannot work.
    """

    bootstrap: str
    """Kafka's address, "host:port", several separated by commas."""
    topics: Topics = field(default_factory=Topics)
    table: str = DEFAULT_TABLE
    """A folder, or the URI of a table in a store such as `s3://bucket/audit`."""
    storage_options: Mapping[str, str] = field(default_factory=dict)
    """For a store: keys, region, endpoint, by the names of the object_store crate."""
    sink: str = "audit"
    """Names this reading of the topics in the table. Another name reads everything again."""
    adopt: bool = False
    """Go on although the cluster or a topic has another id than the one the table was filled from."""
    group: str = "haltline-audit"
    """The consumer group: shares partitions out, and shows the lag. Never says where to read."""
    instance_id: str | None = None
    """Static group membership, unique in the group: a quick restart causes no rebalance."""

    flush_s: float = 5.0
    """The longest a record waits in memory before it is written."""
    flush_rows: int = 50_000
    flush_bytes: int = 32 * 1024 * 1024
    """Records in memory before they are written; a single larger one is written alone."""

    signing_key: Path | None = None
    """An ed25519 private key (PEM): the chains are signed with it. None: they are chained, and nobody signs."""
    sign_every: int = 1000
    """Rows of a partition behind which its chain is signed."""

    compact_commits: int = 200
    """Small files that are put together when there are so many, as each commit adds at least one; 0: never."""
    compact_every_s: float = 600.0
    """From one run that puts them together to the next, at least."""
    vacuum_hours: int | None = 168
    """Files that no commit of so many hours names are deleted then; None: they stay."""

    redact: Collection[str] = KINDS
    """What is taken out before a record is stored: some of `haltline.streams.audit.redacting.KINDS`."""

    session_timeout_s: float = 10.0
    """A sink that is silent for longer loses its partitions."""
    fetch_wait_ms: int = 500
    """How long the broker may hold a fetch when nothing is there; the embedded broker wants 10."""
    answer_within_s: float = 10.0
    """How long the broker may take to say who it is and where partitions begin and end."""
    stuck_after_s: float = 60.0
    """A sink that did not come round for so long calls itself unhealthy."""
    client: Mapping[str, ClientSetting] = field(default_factory=dict)
    """More librdkafka settings, such as those for TLS and SASL."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """Where /metrics, /healthz and /readyz are served; None serves nothing, 0 takes a free port."""

    def __post_init__(self) -> None:
        for name in ("bootstrap", "table", "sink", "group"):
            if not getattr(self, name):
                raise ValueError(f"{name}: expected a text, got none")
        for name in ("flush_s", "session_timeout_s", "answer_within_s", "stuck_after_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")
        for name in ("flush_rows", "flush_bytes", "fetch_wait_ms", "sign_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        if self.compact_commits < 0 or self.compact_commits == 1:
            raise ValueError(f"compact_commits: expected 0 (never) or at least 2, got {self.compact_commits}")
        if self.compact_every_s < 0 or (self.vacuum_hours or 0) < 0:
            raise ValueError("compact_every_s and vacuum_hours: expected 0 or more, got less")
        if self.flush_bytes > _LARGEST_FLUSH_BYTES:
            raise ValueError(f"flush_bytes: expected at most {_LARGEST_FLUSH_BYTES}, got {self.flush_bytes}")
        Redaction(self.redact)  # it knows them all
        if taken := sorted(set(self.client) & set(_OURS)):
            raise ValueError(f"client: expected settings other than those that the sink depends on, got {taken}")
