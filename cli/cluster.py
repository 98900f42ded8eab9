"""The options that select a cluster, the same in every command."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer

from haltline.cli.common import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_GROUP,
    DEFAULT_PREFIX,
    NO_CLIENT_CONFIG,
    Bootstrap,
    Client,
    ClientConfig,
    Group,
    Prefix,
    Timeout,
    group_of,
    option_of,
)
from haltline.schemas.topics import Topics


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """One set of haltline's topics on one Kafka, and its workers."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    prefix: str = DEFAULT_PREFIX
    client_config: Client = field(default_factory=lambda: NO_CLIENT_CONFIG)
    group: str = DEFAULT_GROUP
    """The workers' group as it is configured; empty: that of the prefix."""
    timeout: float = 10.0
    """The timeout for the workers' answers, in seconds."""

    @cached_property
    def topics(self) -> Topics:
        """The names of the topics. Raises Unreachable, and TopicsGrown if others are in use."""
        from haltline.streams.kafka.topics_in_use import topics_in_use

        return topics_in_use(self.bootstrap, self.prefix, client=self.client_config)

    @property
    def workers(self) -> str:
        """The workers' consumer group."""
        return self.group or group_of(self.prefix)


_ALWAYS: Final[dict[str, Any]] = {"bootstrap": Bootstrap, "prefix": Prefix, "client_config": ClientConfig}
_CHOSEN: Final[dict[str, Any]] = {"group": Group, "timeout": Timeout}


def with_cluster(*more: Literal["group", "timeout"]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that replaces the command's parameter `at`, a Cluster, by options; `more` are optional ones."""
    return with_options("at", Cluster, _ALWAYS | {name: _CHOSEN[name] for name in more}, vars(Cluster()))


def with_options(
    place: str, made: Callable[..., Any], options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: the command with options in place of its parameter `place`, which is `made` of their values.

    An option without a default is required.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name == place:
                parameters += [
                    inspect.Parameter(
                        name, parameter.KEYWORD_ONLY, default=defaults.get(name, parameter.empty), annotation=option
                    )
                    for name, option in options.items()
                ]
            else:
                parameters.append(parameter.replace(annotation=hints[parameter.name]))

        @wraps(command)
        def run(**given: Any) -> None:
            command(**{place: made(**{name: given.pop(name) for name in options})}, **given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _given(**values: str | None) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


_OF_GUARD: Final[dict[str, Any]] = {
    "bootstrap": Annotated[str | None, option_of("kafka.bootstrap", metavar="HOST:PORT")],
    "topic_prefix": Annotated[str | None, option_of("kafka.prefix", "--prefix", metavar="TEXT")],
}
_OF_SESSION: Final[dict[str, Any]] = {
    "agent_id": Annotated[str | None, option_of("agent.agent_id", metavar="NAME")],
    "session_id": Annotated[
        str | None,
        typer.Option("--session", help="Session id, or HALTLINE_SESSION_ID. Default: a new one.", metavar="ID"),
    ],
}


def with_guard(*, of_one_session: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: the command with options of a guard in place of its parameter `given`, a dict of those set."""
    options = _OF_GUARD | (_OF_SESSION if of_one_session else {})
    return with_options("given", _given, options, dict.fromkeys(options))
