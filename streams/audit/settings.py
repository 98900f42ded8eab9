"""The settings of an audit sink."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from haltline.schemas.topics import Topics
from haltline.streams.audit.redacting import KINDS, Redaction
from haltline.streams.kafka.client_settings import ClientSetting

DEFAULT_TABLE: Final = ".haltline/audit"

# The table determines the sink's offsets; these settings would let Kafka do it.
_OURS: Final = (
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "group.id",
    "group.protocol",
    "partition.assignment.strategy",
)


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """The settings of one sink process: how it reads, and where it writes.

    Any number of processes with the same `group`, `sink` and `table` share the work. Raises ValueError when a value
    cannot work.
    """

    bootstrap: str
    """The bootstrap servers: "host:port", several separated by commas."""
    topics: Topics = field(default_factory=Topics)
    table: str = DEFAULT_TABLE
    """A folder, or the URI of a table in a store such as `s3://bucket/audit`."""
    storage_options: Mapping[str, str] = field(default_factory=dict)
    """Keys, region and endpoint of a store, by the names of the object_store crate."""
    sink: str = "audit"
    """The name of this reading of the topics in the table. Another name reads everything again."""
    adopt: bool = False
    """Whether to continue if the cluster or a topic has another id than the one from which the table was filled."""
    group: str = "haltline-audit"
    """The consumer group: assigns partitions, and shows the lag. It never determines the offsets to read."""
    instance_id: str | None = None
    """The static group membership, unique in the group: a quick restart causes no rebalance."""

    flush_s: float = 5.0
    """The longest time for which a record waits in memory before it is written."""
    flush_rows: int = 50_000
    flush_bytes: int = 32 * 1024 * 1024
    """The size of records in memory at which they are written; a single larger one is written alone."""

    signing_key: Path | None = None
    """An ed25519 private key (PEM), which signs the chains. None: they are not signed."""
    sign_every: int = 1000
    """The number of rows of a partition after which its chain is signed."""

    compact_commits: int = 200
    """The number of small files at which they are merged, as each commit adds at least one; 0: never."""
    compact_every_s: float = 600.0
    """The least time between two compactions."""
    vacuum_hours: int | None = 168
    """The hours after which files that no commit references are deleted; None: never."""

    redact: Collection[str] = KINDS
    """The kinds redacted before a record is stored: some of `haltline.streams.audit.redacting.KINDS`."""

    session_timeout_s: float = 10.0
    """A sink without heartbeats for longer loses its partitions."""
    fetch_wait_ms: int = 500
    """The longest time for which the broker holds a fetch without data; the embedded broker needs 10."""
    answer_within_s: float = 10.0
    """The time limit of the broker's answers about its id and the partitions' offsets."""
    client: Mapping[str, ClientSetting] = field(default_factory=dict)
    """Additional librdkafka settings, such as those for TLS and SASL."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """The port of /metrics, /healthz and /readyz; None serves nothing, 0 takes a free port."""

    def __post_init__(self) -> None:
        for name in ("bootstrap", "table", "sink", "group"):
            if not getattr(self, name):
                raise ValueError(f"{name}: expected a text, got none")
        if self.compact_commits == 1:
            raise ValueError(f"compact_commits: expected 0 (never) or at least 2, got {self.compact_commits}")
        Redaction(self.redact)  # raises for an unknown kind
        if taken := sorted(set(self.client) & set(_OURS)):
            raise ValueError(f"client: expected settings other than those that the sink depends on, got {taken}")
