"""The settings of a console."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from haltline.console.access.keys import Keys
from haltline.console.access.provider import Provider
from haltline.console.access.sign_in_link import SignInLink
from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.notify.links import LinkKey


@dataclass(frozen=True, kw_only=True)
class ProtectionLimits:
    """The seconds after which something is a problem, and the interval of checks."""

    workers_s: float = 25.0
    """Records wait in a partition of `actions`, and the workers' committed offset does not advance. A worker commits
    every ten seconds at the latest."""
    shadow_s: float = 60.0
    """The same for the workers that run rules in shadow."""
    sink_s: float = 60.0
    """The same for the audit sink, on every topic."""
    broker_s: float = 25.0
    """The broker does not answer the console."""
    console_s: float = 25.0
    """The read model lags behind the topics."""
    canary_s: float = 30.0
    """A canary's session is not killed."""
    look_every_s: float = 2.0
    """The interval between checks."""


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings:
    """Settings of a console: sources, read model, sign-in."""

    bootstrap: str
    """Kafka's address, "host:port", several separated by commas."""
    keys: Keys
    provider: Provider | None = None
    """The OpenID provider for sign-in, besides keys. None: keys only."""
    database: str
    """The read model's SQLAlchemy URL, such as `sqlite:///console.db`."""
    topics: Topics = field(default_factory=Topics)
    group: str = "haltline-console"
    """The consumer group whose lag is the read model's."""
    workers: str = "haltline"
    """The workers' consumer group."""
    sink: str = "haltline-audit"
    """The audit sink's consumer group."""
    protection: ProtectionLimits = field(default_factory=ProtectionLimits)
    """The limits after which pages report that agents are not protected."""
    client: Mapping[str, ClientSetting] = field(default_factory=dict)
    """librdkafka settings of every connection, for encryption and credentials."""
    answer_within_s: float = 10.0
    """Timeout for a worker's answer to a command, in seconds."""
    requests_per_s: float = 200.0
    """Average rate limit of one key."""
    burst: int = 400
    """Burst limit of one key."""
    requests_at_once: int = 32
    """Concurrent requests of one key; fewer than the threads for all."""
    streams_at_once: int = 32
    """Concurrent event streams of one key."""
    metrics_token: str | None = None
    """Grants access to `/metrics`, like any key with read permission."""
    sign_in_link: SignInLink | None = None
    """Signs in the person who started the console, once; None: there is no such link."""
    link_key: LinkKey | None = None
    """Verifies the links to approvals in notifications; None: none is accepted."""
    audit_table: str | None = None
    """The audit table to search and verify, a folder or a URI; None: there is none."""
    audit_options: Mapping[str, str] = field(default_factory=dict)
    """Settings of the table's object store."""
    audit_public_key: str | None = None
    """The file of the key that verifies its signatures."""
