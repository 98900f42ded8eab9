"""The application: all commands in the groups of the help, each imported on first use."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any, Final, cast

import typer
from typer._completion_classes import completion_init
from typer.core import TyperCommand, TyperGroup

import haltline
from haltline.cli.base_commands import needs
from haltline.cli.common import EXIT_CODES, Exit, fail

COMMANDS: Final = {
    "Get started": {
        "scan": "operator.scan",
        "demo": "services.demo",
        "init": "operator.init",
        "up": "services.up",
        "doctor": "operator.doctor",
        "config": "operator.config",
    },
    "Stop and release agents": {
        "kill": "operator.acts",
        "reset": "operator.acts",
        "freeze": "operator.acts",
        "contain": "operator.acts",
        "lift": "operator.acts",
    },
    "Approvals and incidents": {
        "approvals": "operator.approvals",
        "approve": "operator.acts",
        "reject": "operator.acts",
        "ask": "operator.acts",
        "incidents": "operator.incidents",
        "batch": "operator.acts",
        "batches": "operator.approvals",
    },
    "Monitor": {"status": "operator.status", "tail": "operator.tail", "canary": "operator.canary"},
    "Replay and test": {
        "explain": "operator.explain",
        "backtest": "operator.replaying.backtest",
        "replay": "operator.replaying.replay",
        "label": "operator.acts",
        "missed": "operator.acts",
        "learn": "operator.learn",
        "calibrate": "operator.replaying.calibrate",
    },
    "Run services": {
        "worker": "services.run",
        "audit": "services.run",
        "console": "services.console",
        "notify": "services.notify",
        "kafka": "services.run",
    },
    "Run beside agents": {
        "hook": "agent_commands",
        "agent": "services.agent",
        "undo": "agent.undo",
        "watch": "agent.watch",
        "mcp-proxy": "agent.mcp_proxy",
        "intake": "services.intake",
        "import": "operator.import_recordings",
    },
    "Administer": {
        "topics": "operator.topics",
        "changelog": "operator.changelog",
        "policy": "operator.policy",
        "schemas": "schemas",
        "completion": "completion",
    },
}
"""The module of each command, by its heading in the help."""


def _unwrap(command: TyperCommand | TyperGroup) -> None:
    """Join the lines of each help paragraph, so that it wraps at the terminal's width."""
    command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    for below in getattr(command, "commands", {}).values():
        _unwrap(below)


class _WhenNeeded(MutableMapping[str, Any]):
    """The commands, each imported on first use."""

    def __init__(self) -> None:
        self._places = {name: (panel, module) for panel, group in COMMANDS.items() for name, module in group.items()}
        self._loaded: dict[str, TyperCommand | TyperGroup] = {}

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        panel, module = self._places[name]
        if name not in self._loaded:
            registered = typer.Typer()
            loaded = import_module(f"haltline.cli.{module}")
            if hasattr(loaded, "register"):  # several, or none by the name of what it adds
                loaded.register(registered)
            elif isinstance(command := getattr(loaded, name), typer.Typer):
                registered.add_typer(command, name=name)
            else:
                registered.command(name)(command)
            group = typer.main.get_group(registered)
            _unwrap(group)
            self._loaded |= cast("dict[str, Any]", group.commands)
        self._loaded[name].rich_help_panel = panel
        return self._loaded[name]

    def __setitem__(self, name: str, command: TyperCommand | TyperGroup) -> None:
        raise TypeError("commands are added to COMMANDS")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are removed from COMMANDS")

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Commands(TyperGroup):
    """The group of all commands: an expected error is a sentence and an exit code, never a traceback."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _WhenNeeded()

    def invoke(self, ctx: Any) -> Any:
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as missing:
            if (text := needs((missing.name or "").partition(".")[0], ctx.invoked_subcommand)) is None:
                raise
            fail(text, Exit.USAGE)
        except Exception as error:
            # An error of typer itself, such as a missing option, does not need the modules of the others.
            if type(error).__module__.partition(".")[0] not in {"haltline", "cimpl"}:
                raise
            from haltline.cli.expected_errors import explained

            if (known := explained(error)) is None:
                raise
            fail(*known)


def _print_version(given: bool) -> None:
    if given:
        typer.echo(f"haltline {haltline.__version__}")
        raise typer.Exit


app = typer.Typer(
    name="haltline",
    cls=Commands,
    help=f"Stops runaway AI agents while they run. Begin with: haltline scan\n\n{EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,  # it edits the shell's files; `haltline completion` prints the script
    pretty_exceptions_enable=False,  # an unexpected traceback is for a bug report: plain and complete
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


completion_init()
