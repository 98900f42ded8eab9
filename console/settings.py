"""The settings of a console."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from haltline.console.access.keys import Keys
from haltline.console.access.provider import Provider
from haltline.console.access.sign_in_link import SignInLink
from haltline.console.protection import ProtectionLimits
from haltline.console.sdk_rules import ConsoleRules
from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.notify.links import LinkKey


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings:
    """Settings of a console: sources, read model, sign-in."""

    bootstrap: str
    """Kafka's address, "host:port", several separated by commas."""
    keys: Keys
    provider: Provider | None = None
    """The OpenID provider by which people may sign in, too. None: holders of keys only."""
    database: str
    """Of the read model, as SQLAlchemy's URL, such as `sqlite:///console.db`."""
    topics: Topics = field(default_factory=Topics)
    group: str = "haltline-console"
    """The consumer group whose lag shows how far the read model is."""
    workers: str = "haltline"
    """The workers' consumer group."""
    sink: str = "haltline-audit"
    """The audit sink's consumer group."""
    protection: ProtectionLimits = field(default_factory=ProtectionLimits)
    """When pages report that agents are not protected."""
    client: Mapping[str, ClientSetting] = field(default_factory=dict)
    """librdkafka settings of every connection, for encryption and credentials."""
    answer_within_s: float = 10.0
    """How long a worker has to answer a command."""
    rules: ConsoleRules = field(default_factory=ConsoleRules)
    """For agents of Agent Sentinel's SDK: what they receive, and what is enforced here."""
    requests_per_s: float = 200.0
    """How often one key may ask, on average."""
    burst: int = 400
    """And at once."""
    requests_at_once: int = 32
    """How many requests of one key are answered at a time; fewer than there are threads for all."""
    streams_at_once: int = 32
    """And how many of its streams of events are open."""
    metrics_token: str | None = None
    """Opens `/metrics`, as any key that may look does."""
    sign_in_link: SignInLink | None = None
    """Signs in whoever started the console, once; None: there is no such link."""
    link_key: LinkKey | None = None
    """Checks the links to approvals that notifications carry; None: none is followed."""
    audit_table: str | None = None
    """The audit table to search and verify, a folder or a URI; None: there is none."""
    audit_options: Mapping[str, str] = field(default_factory=dict)
    """Settings of the store that it is in."""
    audit_public_key: str | None = None
    """File of the key that its signatures are checked with."""
