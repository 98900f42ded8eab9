"""Shared parts of the commands: options, exit codes, printing of errors and data.

Every command imports this module, so it imports only what all of them need.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeVar

import typer

from haltline.cli.settings_table import SETTINGS
from haltline.schemas.topics import Topics

if TYPE_CHECKING:
    from rich.console import Console


_Item = TypeVar("_Item")


class Exit(IntEnum):
    """The exit codes of commands."""

    OK = 0
    NO = 1
    """Refused or failed, or a check found something."""
    USAGE = 2
    """The command or its configuration is wrong."""
    UNREACHABLE = 3
    """No broker answers."""


EXIT_CODES = (
    "Exit codes: 0 done; 1 refused or failed, or a check found something; "
    "2 the command or its configuration is wrong; 3 no broker answers."
)

_SETTINGS = {setting.name: setting for setting in SETTINGS}
_METAVARS = {"file": "FILE", "files": "FILE", "folder or URI": "DIR", "database URL": "URL"}


def option_of(setting: str, *flags: str, more: str = "", **given: Any) -> Any:
    """The option for a setting of haltline.toml, with its variable, its help, and `more` help."""
    one = _SETTINGS[setting]
    defaults: dict[str, Any] = {"help": f"{one.help} {more}".strip(), "metavar": _METAVARS.get(one.kind)}
    if one.kind == "port":
        defaults |= {"min": 0, "max": 65535}
    return typer.Option(*flags, envvar=one.variable, **(defaults | given))


Bootstrap = Annotated[str, option_of("kafka.bootstrap", metavar="HOST:PORT")]
Prefix = Annotated[str, option_of("kafka.prefix", metavar="TEXT", is_eager=True)]  # the group's default depends on it


class Client(dict[str, str]):
    """librdkafka's settings for encryption and credentials."""


_RUN_CODE = frozenset({"plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "ssl.providers"})
"""Settings that run code. They are refused, as a haltline.toml from another person may name the file."""


def _client(file: str | Client) -> Client:
    """The settings in a file of lines `name=value`; empty lines and lines that begin with # are ignored."""
    if isinstance(file, Client):  # typer also parses a default
        return file
    from haltline.interventions.agent.settings import read_named_values

    try:
        settings = Client(read_named_values(Path(file)))
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file}: expected a text file, got {error}") from error
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    for name in sorted(_RUN_CODE & settings.keys()):
        raise typer.BadParameter(f"{file}: expected settings that load or run no code, got {name}")
    return settings


ClientConfig = Annotated[Client, option_of("kafka.client_config", parser=_client, show_default=False)]
NO_CLIENT_CONFIG = Client()


def group_of(prefix: str) -> str:
    """The workers' consumer group for a topic prefix: two prefixes on one cluster share no state."""
    return prefix.strip(".") or "haltline"


def _group(ctx: typer.Context, value: str) -> str:
    return value or group_of(ctx.params.get("prefix", DEFAULT_PREFIX))


Group = Annotated[
    str,
    option_of(
        "workers.group",
        more="Default: the prefix without its dot.",
        metavar="NAME",
        callback=_group,
        show_default=False,
    ),
]


def _not_empty(param: typer.CallbackParam, value: str) -> str:
    if param.required and not value.strip():  # before any look-up
        raise typer.BadParameter("must not be empty")
    return value


By = Annotated[
    str,
    option_of(
        "operator.name",
        callback=_not_empty,
        help="Your name, for the audit. It is not taken from the login, which may be shared.",
        metavar="NAME",
    ),
]
Reason = Annotated[str, typer.Option(callback=_not_empty, help="Why, for the audit.", metavar="TEXT")]
RulesName = Literal["all", "enforced", "shadow"]
"""The values of Runs, which is not imported here; a test compares both."""
Timeout = Annotated[float, typer.Option(help="How long to wait for the worker's answer, in seconds.", min=0.1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
MetricsPort = Annotated[
    int, typer.Option(help="Port of /metrics, /healthz and /readyz; 0 takes a free one.", min=0, max=65535)
]
FetchWait = Annotated[int, typer.Option(help="How long the broker may hold a fetch; 10 for an embedded broker.", min=1)]
MetricsHost = Annotated[str, typer.Option(help="Address of /metrics; 0.0.0.0 for all.", metavar="ADDRESS")]
PolicyName = Annotated[
    str, typer.Option(help="Without --policy: name of the published policy that is or was followed.", metavar="NAME")
]
PolicyFile = Annotated[
    Path | None, option_of("workers.policy", help="The policy document (YAML). Default: every rule with its defaults.")
]

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_PREFIX = Topics().prefix
DEFAULT_GROUP = ""
KAFKA_PORT = 9092
KAFKA_PARTITIONS = 4
"""For `haltline kafka` and `haltline up --kafka`."""


def fail(error: object, code: Exit) -> NoReturn:
    """Prints an error on standard error and ends the command with the exit code."""
    if isinstance(error, OSError) and error.filename is not None:
        error = f"{error.filename}: {error.strerror}"
    say_error(f"haltline: {error}")
    raise typer.Exit(code)


class UsageErrors(AbstractContextManager[None, None]):
    """Ends the command with exit code 2 at an error of these types."""

    def __init__(self, *types: type[Exception]) -> None:
        self._types = types

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, self._types):
            fail(error, Exit.USAGE)


def say_error(text: str) -> None:
    """Prints lines on standard error."""
    from rich.console import Console
    from rich.text import Text

    lines = "\n".join(map(printable, text.splitlines()))
    Console(stderr=True, soft_wrap=True).print(Text(lines, style="red"))


def console() -> "Console":
    """The console for people: as wide as the terminal, or without one wide enough for each line."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=200, soft_wrap=True)


def tracked(items: Iterable[_Item], what: str) -> Iterable[_Item]:
    """The items, with a progress bar if standard error is a terminal."""
    from rich.console import Console
    from rich.progress import track

    shown = Console(stderr=True)
    return track(items, what, console=shown, disable=not shown.is_terminal)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[..., None]]:
    """A progress bar if standard error is a terminal; the yielded function advances it, by 1 or a number."""
    from rich.console import Console
    from rich.progress import Progress

    shown = Console(stderr=True)
    with Progress(console=shown, disable=not shown.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield partial(bar.advance, task) if shown.is_terminal else lambda _=1: None


def say(text: str, style: str = "") -> None:
    """Print one line; unprintable characters are replaced."""
    from rich.text import Text

    console().print(Text(printable(text), style=style))


def printable(text: str) -> str:
    """The text without control characters, with which an agent could control the terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def print_json(data: Mapping[str, object] | Sequence[object], *, on_one_line: bool = False) -> None:
    """Print data for scripts: one indented document; `on_one_line` for a command that prints several."""
    import orjson

    option = 0 if on_one_line else orjson.OPT_INDENT_2
    typer.echo(orjson.dumps(data, default=_plain, option=option).decode())


def _plain(value: object) -> object:
    from haltline.schemas.record import Record

    if isinstance(value, Record):
        return value.model_dump(mode="json", exclude_none=True)
    raise TypeError(f"JSON output: expected plain values, got {type(value).__name__}")


def duration(text: str | timedelta) -> timedelta:
    """Parse a duration such as `90s`, `30m` or `1h30m`."""
    from haltline.streams.notify.lengths import length_of_time

    try:
        return length_of_time(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def ago(moment_ms: int, now_ms: int) -> str:
    """The elapsed time in one or two units: `3 min`, `2 h 5 min`."""
    seconds = max(0, now_ms - moment_ms) // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86_400} d"


def token_in(file: Path) -> str:
    """The token in a file. Raises ValueError for an empty file, and OSError."""
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise ValueError(f"{file}: expected a token, got an empty file")
    return token
