"""The help of the commands beside agents. `__main__` runs these commands before the processor is loaded."""

from collections.abc import Callable
from importlib import import_module

import typer

from haltline.cli.base_commands import BESIDE_AGENTS

_HELP = {
    "hook": "Answer a hook of Claude Code, Codex, Gemini CLI, Cline or opencode; `install` and `uninstall` change its "
    "settings, `release` lets a stopped session go on.\n\nExample: haltline hook install --local",
    "watch": "Run an agent that prints JSON lines; end it and its child processes when its session is killed. With "
    "--all: print findings in the histories that the agents on this machine write now.\n\n"
    "Example: haltline watch -- claude -p 'tidy up' --output-format stream-json --verbose",
    "mcp-proxy": "Run an MCP server, and guard the calls of its tools.\n\n"
    "Example: haltline mcp-proxy -- npx server-filesystem /srv",
    "import": "Print recordings of agents (Claude Code, Codex, OpenHands, OpenTelemetry ...) as events.\n\n"
    "Example: haltline import run.traj.json > events.jsonl",
    "intake": "Serve verdicts over HTTP, for agents in other languages.\n\n"
    "Example: haltline intake --bootstrap kafka-1:9092",
}


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for name, text in _HELP.items():
        app.command(
            name,
            help=text,
            add_help_option=False,
            context_settings={
                "ignore_unknown_options": True,
                "allow_extra_args": True,
                "allow_interspersed_args": False,
            },
        )(_run(BESIDE_AGENTS[name]))


def _run(module: str) -> Callable[[typer.Context], None]:
    def run(ctx: typer.Context) -> None:
        raise typer.Exit(import_module(module).main(ctx.args))

    return run
