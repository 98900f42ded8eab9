"""The configuration of a notifier: channels, links and actuators. Errors name the line."""

import tomllib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from haltline.schemas import expressions as re
from haltline.schemas.problems import problem_of
from haltline.streams.notify.lengths import length_of_time
from haltline.streams.policy import yaml_text
from haltline.streams.runtime.service import GroupSettings

_REMOVED_KINDS: Final = {
    "slack": "slack://",
    "teams": "workflows://",
    "pagerduty": "pagerduty://",
    "email": "mailtos://",
}
"""Kinds of channels of earlier releases, and apprise's URLs for the same receivers."""
_INSTEAD_OF_ROUTES: Final = "every channel is notified; Alertmanager has routes, groups, silences and hours"


_NAME: Final = re.compile(r"\{([a-z_]+)\}")
BUILT_IN: Final = frozenset({"session", "agent", "decision", "by"})
"""The names that each kill has, besides those of the agent's resources."""


class BadConfig(ValueError):
    """A document cannot be used: which file and line, what was expected, what was found."""


def _named(text: str) -> str:
    if not text.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"expected a name of letters, digits, - and _, got {text!r:.80}")
    return text


Name = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_named)]
Length = Annotated[timedelta, BeforeValidator(length_of_time), Field(gt=timedelta(0), le=timedelta(days=30))]
"""A duration such as 90s, 15m or 1h30m."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Channel(_Part):
    """The common fields of channels. Addresses of hooks are secrets, and are in files like keys and passwords."""

    timeout: Length = timedelta(seconds=10)
    """The time limit of one attempt."""
    give_up_after: Length = timedelta(hours=1)
    """The age at which a message becomes a dead letter, after at least three attempts."""


class Webhook(Channel):
    """A CloudEvent to a URL, signed according to Standard Webhooks."""

    kind: Literal["webhook"]
    url_file: Path
    secret_file: Path
    """`whsec_` and Base64, one a line: several during a key rotation."""


class Alertmanager(Channel):
    """Prometheus' Alertmanager, API v2."""

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
    """Any other receiver that apprise supports; each URL has a queue of its own."""

    kind: Literal["apprise"]
    urls_file: Path
    """Apprise's URLs, one a line."""


AnyChannel = Annotated[Webhook | Alertmanager | Apprise, Field(discriminator="kind")]


class Actuator(Channel):
    """A call at a kill that reaches what has no guard: a request whose `{names}` the agent's resources fill."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST"
    url: str
    """Names may stand in its path and query; each value is escaped, and fills one segment of a path at most."""
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    """JSON, with names in its texts. Left out: the kill as a CloudEvent, which is signed."""
    secret_file: Path | None = None
    """Signs the call, like a webhook's."""
    token_file: Path | None = None
    """A file with the bearer token, which is read at each call."""
    ca_file: Path | None = None
    """Certificates of the authorities that are trusted instead of the system's."""
    accepts: tuple[Annotated[int, Field(ge=100, le=599)], ...] = ()
    """Statuses that confirm it besides 2xx, such as 404 for what is gone."""
    causes: tuple[str, ...] = ("operator",)
    """`operator`, and for kills by rules what follows `session_killed_` in their code, such as `loop_guard`."""
    disarm: bool = False
    """It keeps something from starting the agent again: it is called before the others, which wait for its end."""
    give_up_after: Length = timedelta(minutes=10)
    """The age of a kill at which it is given up, after at least three attempts; an older one is not called for."""

    @property
    def names(self) -> frozenset[str]:
        """The names in its request."""
        return frozenset(_NAME.findall(repr((self.url, self.headers, self.body))))

    @model_validator(mode="after")
    def _complete(self) -> Self:
        scheme, _, rest = self.url.partition("://")
        if scheme not in ("https", "http") or not rest.partition("/")[0] or "{" in rest.partition("/")[0]:
            raise ValueError(f"url: expected an address with https:// and a fixed host, got {self.url!r:.100}")
        if self.body is None and self.secret_file is None:
            raise ValueError("secret_file: expected one, as there is no body and the kill is sent signed, got none")
        return self


Resources = dict[str, dict[str, str]]
"""By agent, or a glob of agents: names and their values, which may hold names that each kill has."""


def filled(text: str, values: dict[str, str]) -> str:
    """Return the text with its `{names}` filled; all of them must be there."""
    return _NAME.sub(lambda found: values[found[1]], text)


class Config(_Part):
    """The configuration document."""

    console: str | None = None
    """The prefix of links, such as https://haltline.example.org."""
    link_key_file: Path | None = None
    """The key that signs links to approvals; the console has the same (`--link-key`)."""
    link_lasts: Length = timedelta(hours=24)
    oldest: Length = timedelta(hours=24)
    """The age from which a change is not sent when it is first read: after a long stop, and at the very first start."""
    channels: dict[Name, AnyChannel] = Field(default_factory=dict)
    resources: Resources = Field(default_factory=dict)
    """What each agent runs as, for actuators; the entry of its name counts, else the first glob that matches."""
    actuators: dict[Name, Actuator] = Field(default_factory=dict)

    _gone: str = PrivateAttr(default="")

    @property
    def gone(self) -> str:
        """A warning about the parts of the document that this release no longer has; empty: there are none."""
        return self._gone

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.link_key_file is not None and self.console is None:
            raise ValueError("console: expected an address, as link_key_file is there, got none")
        if self.console is not None and not self.console.startswith(("https://", "http://")):
            raise ValueError(f"console: expected an address with https://, got {self.console!r:.100}")
        if both := self.channels.keys() & self.actuators.keys():
            raise ValueError(f"actuators: expected names of no channel, got {min(both)!r}")
        for agent, entry in self.resources.items():
            if missing := frozenset(_NAME.findall(repr(entry))) - BUILT_IN:
                expected = ", ".join(sorted(BUILT_IN))
                raise ValueError(f"resources: {agent}: expected names of {expected}, got {{{min(missing)}}}")
        known = BUILT_IN.union(*self.resources.values())
        for name, actuator in self.actuators.items():
            if missing := actuator.names - known:
                raise ValueError(f"actuators: {name}: expected names of some resource, got {{{min(missing)}}}")
        return self


def load_config(path: Path) -> Config:
    """Read and check a document, YAML or TOML by its name; relative paths are relative to it.

    Parts of earlier releases have no effect: `gone` of the result names them.

    Raises:
        BadConfig: it cannot be used.
        OSError: the file cannot be read.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path}: expected UTF-8 text, got {error}") from None
    root, document = _read(text, path)
    gone = _take_removed(document)
    if not document.get("channels") and not document.get("actuators") and not gone:
        raise BadConfig(f"{path}: channels: expected at least one, got none")
    try:
        config = Config.model_validate(_beside(document, path.parent))
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
    if gone:
        left = "" if config.channels or config.actuators else "; no channel is left, so nobody is notified"
        config._gone = f"{path}: gone and without effect: {'; '.join(gone)}{left}"
    return config


def _take_removed(document: dict[str, Any]) -> list[str]:
    """Remove from a document the parts that this release no longer has; return each, with what to use instead."""
    gone = []
    channels: Any = document.get("channels")
    for name, channel in list(channels.items()) if isinstance(channels, dict) else ():
        kind = channel.get("kind") if isinstance(channel, dict) else None
        if isinstance(kind, str) and kind in _REMOVED_KINDS:
            del channels[name]
            gone.append(f"channels.{name} (instead: kind apprise with a URL {_REMOVED_KINDS[kind]})")
    if document.pop("routes", None) is not None:
        gone.append(f"routes (instead: {_INSTEAD_OF_ROUTES})")
    return gone


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
        raise BadConfig(f"{path}: expected a mapping with channels, got {type(document).__name__}")
    return root, document


def _beside(content: Any, folder: Path) -> Any:
    """Return the content with paths of `..._file` resolved in the document's folder."""
    if isinstance(content, dict):
        return {
            name: str(folder / value)
            if isinstance(name, str) and name.endswith("_file") and isinstance(value, str)
            else value
            if name in ("body", "headers", "resources")
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
