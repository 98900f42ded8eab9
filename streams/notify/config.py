"""The configuration of a notifier: channels, routes, links. Errors name the line."""

import tomllib
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.problems import problem_of
from haltline.streams.notify.hours import Hours, over_at
from haltline.streams.notify.lengths import length_of_time
from haltline.streams.policy import yaml_text
from haltline.streams.runtime.service import GroupSettings

_WEEK_MS: Final = 7 * 86_400_000


class BadConfig(ValueError):
    """A document cannot be used: which file and line, what was expected, what was found."""


class Kind(StrEnum):
    """The kind of a notification: the change of an incident, by which routes select."""

    OPENED = "opened"
    """The incident was opened, or now matches the route."""
    ESCALATED = "escalated"
    APPROVAL_WANTED = "approval_wanted"
    """A call waits for a person's approval."""
    APPROVAL_CLOSED = "approval_closed"
    """The approval request was answered, or has expired."""
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    ASSIGNED = "assigned"
    COMMENTED = "commented"
    COUNTED = "counted"


USUAL: Final = (Kind.OPENED, Kind.APPROVAL_WANTED, Kind.ACKNOWLEDGED, Kind.RESOLVED)
"""The kinds of a route that names none."""


def _named(text: str) -> str:
    if not text.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"expected a name of letters, digits, - and _, got {text!r:.80}")
    return text


Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_named)]
Length = Annotated[timedelta, BeforeValidator(length_of_time), Field(gt=timedelta(0), le=timedelta(days=30))]
"""A duration such as 90s, 15m or 1h30m."""
Patterns = Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
"""One or several glob patterns with * and ?."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Channel(_Part):
    """The common fields of channels. Addresses of hooks are secrets, and are in files like keys and passwords."""

    keeps_state: ClassVar[bool] = False
    """Whether the receiver has its own incidents that follow ours: no digests, but the end of incidents."""
    timeout: Length = timedelta(seconds=10)
    """The time limit of one attempt."""
    give_up_after: Length = timedelta(hours=1)
    """The time after its due time at which a message becomes a dead letter, after at least three attempts."""


class Webhook(Channel):
    """A CloudEvent to a URL, signed according to Standard Webhooks."""

    kind: Literal["webhook"]
    url_file: Path
    secret_file: Path
    """`whsec_` and Base64, one a line: several during a key rotation."""


class Slack(Channel):
    """An incoming webhook of Slack."""

    kind: Literal["slack"]
    url_file: Path


class Teams(Channel):
    """An incoming webhook of Teams (Workflows)."""

    kind: Literal["teams"]
    url_file: Path


class PagerDuty(Channel):
    """PagerDuty's Events API v2."""

    keeps_state: ClassVar[bool] = True
    kind: Literal["pagerduty"]
    routing_key_file: Path
    url: str = "https://events.pagerduty.com/v2/enqueue"
    """The address, which differs in other service regions."""


class Email(Channel):
    """Mail by SMTP."""

    kind: Literal["email"]
    host: str
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    tls: Literal["starttls", "implicit", "none"] = "starttls"
    """How the connection is encrypted; `none` is for a relay on this machine."""
    ca_file: Path | None = None
    """CA certificates for the server's; default: the system's."""
    user: str | None = None
    password_file: Path | None = None
    sender: Annotated[str, Field(alias="from", min_length=3)]
    to: Annotated[tuple[str, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.user is None) != (self.password_file is None):
            raise ValueError("expected both of user and password_file, or none, got one")
        if self.user is not None and self.tls == "none":
            raise ValueError("expected tls starttls or implicit with a password, got none")
        return self


class Alertmanager(Channel):
    """Prometheus' Alertmanager, API v2."""

    keeps_state: ClassVar[bool] = True
    kind: Literal["alertmanager"]
    url: str
    """The address, such as http://alertmanager:9093."""
    token_file: Path | None = None
    """A file with the bearer token."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Additional labels of each alert."""
    repeat: Length = timedelta(minutes=5)
    """The interval of repeated alerts for open incidents: Alertmanager keeps them in memory only."""


class Apprise(Channel):
    """Any other receiver that apprise supports."""

    kind: Literal["apprise"]
    urls_file: Path
    """Apprise's URLs, one a line."""


AnyChannel = Annotated[
    Webhook | Slack | Teams | PagerDuty | Email | Alertmanager | Apprise, Field(discriminator="kind")
]


class AtLeast(_Part):
    """At least a level or a severity; either suffices."""

    level: Level | None = None
    severity: Severity | None = None


class Match(_Part):
    """A condition on incidents; all given fields must match."""

    level: Level | None = None
    """The least highest level."""
    severity: Severity | None = None
    """The least severity, like the level."""
    cause: Patterns = ()
    agent: Patterns = ()
    mission: Patterns = ()
    scope: tuple[ScopeKind, ...] = ()
    during: tuple[Hours, ...] = ()


class Digest(_Part):
    """Several changes in one message."""

    every: Length
    by: tuple[Literal["agent", "mission", "cause", "session", "level"], ...] = ()
    """The fields by whose values messages are separate; empty: one for all."""


class Route(_Part):
    """A route: which channels are notified of which changes, and when."""

    name: Name
    match: Match = Match()
    changes: Annotated[tuple[Kind, ...], Field(min_length=1)] = USUAL
    channels: tuple[Name, ...] = ()
    """Empty: nobody is notified, and later routes are not tried unless `continue` is set."""
    digest: Digest | None = None
    quiet: tuple[Hours, ...] = ()
    """The quiet hours, in which changes are held back, and sent as a digest when they are over."""
    at_once: AtLeast = AtLeast(level=Level.KILL, severity=Severity.CRITICAL)
    """Changes at or above this are not delayed by a digest or quiet hours."""
    go_on: Annotated[bool, Field(alias="continue")] = False
    """Whether later routes are tried too."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        for moment_ms in range(0, _WEEK_MS, 3_600_000):
            over_at(self.quiet, moment_ms)
        return self


class Config(_Part):
    """The configuration document."""

    console: str | None = None
    """The prefix of links, such as https://haltline.example.org."""
    link_key_file: Path | None = None
    """The key that signs links to approvals; the console has the same (`--link-key`)."""
    link_lasts: Length = timedelta(hours=24)
    oldest: Length = timedelta(hours=24)
    """The age from which a change is not sent when it is first read: after a long stop, and at the very first start."""
    channels: Annotated[dict[Name, AnyChannel], Field(min_length=1)]
    routes: Annotated[tuple[Route, ...], Field(min_length=1)]

    @property
    def gathers(self) -> bool:
        """Return whether one message can have changes of several incidents."""
        held = (route for route in self.routes if route.digest is not None or route.quiet)
        return any(not self.channels[name].keeps_state for route in held for name in route.channels)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        names = [route.name for route in self.routes]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"routes: expected each name once, got {min(doubled)!r} again")
        for route in self.routes:
            if unknown := sorted(set(route.channels) - set(self.channels)):
                raise ValueError(
                    f"routes: route {route.name}: expected channels of {', '.join(sorted(self.channels))}, "
                    f"got {', '.join(unknown)}"
                )
        if self.link_key_file is not None and self.console is None:
            raise ValueError("console: expected an address, as link_key_file is there, got none")
        if self.console is not None and not self.console.startswith(("https://", "http://")):
            raise ValueError(f"console: expected an address with https://, got {self.console!r:.100}")
        return self


def load_config(path: Path) -> Config:
    """Read and check a document, YAML or TOML by its name; relative paths are relative to it.

    Raises:
        BadConfig: it cannot be used.
        OSError: the file cannot be read.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path}: expected UTF-8 text, got {error}") from None
    root, document = _read(text, path)
    try:
        return Config.model_validate(_beside(document, path.parent))
    except ValidationError as error:
        problem = problem_of(error)
        # A problem of the whole document starts with its position.
        steps = problem.steps or (problem.text.partition(":")[0],)
        place = f"{problem.place}: " if problem.steps else ""
        path_in_file = steps
        if steps[0] == "channels":  # pydantic inserts the kind of a channel between its name and its field
            path_in_file = (*steps[:2], *steps[3:])
        line = "" if root is None else f":{yaml_text.line_of(root, path_in_file)}"
        # A channel's values may contain a secret.
        text = problem.message if steps[0] == "channels" and problem.kind != "value_error" else problem.text
        raise BadConfig(f"{path}{line}: {place}{text}") from None


def _read(text: str, path: Path) -> tuple[yaml.Node | None, dict[str, Any]]:
    root: yaml.Node | None = None
    if path.suffix == ".toml":
        try:
            document: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadConfig(f"{path}: expected TOML, got {error}") from None
    else:
        try:
            root, document = yaml_text.read(text)
        except yaml_text.BadYaml as bad:
            line = "" if bad.line is None else f":{bad.line}"
            raise BadConfig(f"{path}{line}: expected YAML, got {bad.problem}") from None
    if not isinstance(document, dict):
        raise BadConfig(f"{path}: expected a mapping with channels and routes, got {type(document).__name__}")
    return root, document


def _beside(content: Any, folder: Path) -> Any:
    """Return the content with paths of `..._file` resolved in the document's folder."""
    if isinstance(content, dict):
        return {
            name: str(folder / value)
            if isinstance(name, str) and name.endswith("_file") and isinstance(value, str)
            else _beside(value, folder)
            for name, value in content.items()
        }
    return [_beside(one, folder) for one in content] if isinstance(content, list) else content


@dataclass(frozen=True, kw_only=True)
class NotifierSettings(GroupSettings):
    """The settings of a notifier."""

    group: str = "haltline-notify"
    session_timeout_s: float = 10.0
    """A notifier without heartbeats for longer loses its partitions."""
