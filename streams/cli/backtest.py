"""`haltline backtest`: what a policy would have done with recorded sessions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from haltline.schemas.decisions import Level
from haltline.streams.backtest import Recorded, Result, related
from haltline.streams.backtest import together as run_together
from haltline.streams.cli.common import AsJson, Exit, PolicyFile, console, fail, say
from haltline.streams.cli.run import read_policy
from haltline.streams.core import Core
from haltline.streams.plugins import installed
from haltline.streams.traces import UnreadableTrace, read_traces

STOPPED = Level.PAUSE


def backtest(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Files of ActionEvents or of recorded traces, one JSON object a line (.jsonl or .jsonl.gz).",
            metavar="SOURCE...",
        ),
    ],
    *,
    policy: PolicyFile = None,
    against: Annotated[
        Path | None, typer.Option(help="Another policy: print the sessions that fare differently.", metavar="FILE")
    ] = None,
    together: Annotated[
        bool,
        typer.Option("--together", help="All sessions are of one fleet: look across them, by agent and target too."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run recorded sessions through the detectors and say what would have been decided.

    Each session is by itself, but for those of one tree (that name a parent or a root), or with --together.

    With --json: one object a line for each session, with its findings and decisions. Sessions without times
    get a step of 5 s for each action; their object says "clock": "steps".

    Example: haltline backtest --policy new.yaml --against current.yaml sessions.jsonl.gz
    """
    first, second = read_policy(policy), read_policy(against) if against is not None else None
    plugins = installed()
    core = Core(first, plugins)
    other = Core(second, plugins) if second is not None else None
    sessions = list(_read(sources))
    console_for_progress = Console(stderr=True)
    results: list[Result] = []
    others: list[Result] = []
    groups = [sessions] if together else related(sessions)
    for group in track(groups, "Sessions", console=console_for_progress, disable=not console_for_progress.is_terminal):
        found = run_together(core, group)
        results += found
        for result in found if as_json else ():
            typer.echo(orjson.dumps(result.to_dict()).decode())
        if other is not None:
            others += run_together(other, group)
    if as_json:
        return
    console().print(_summary(results))
    if others:
        _differences(results, others)


def _read(sources: Sequence[Path]) -> Iterator[Recorded]:
    for source in sources:
        try:
            yield from read_traces(source)
        except OSError as error:
            fail(f"{source}: {error.strerror or error}", Exit.USAGE)
        except UnreadableTrace as error:
            fail(str(error), Exit.USAGE)


def _summary(results: Sequence[Result]) -> Table:
    table = Table("label", "sessions", "fired", "stopped", "highest level")
    labels = sorted({result.label or "-" for result in results})
    for label in labels:
        those = [result for result in results if (result.label or "-") == label]
        levels = Counter(result.level for result in those)
        table.add_row(
            label,
            str(len(those)),
            str(sum(bool(result.findings) for result in those)),
            str(sum(result.first is not None for result in those)),
            ", ".join(f"{level.value} {levels[level.value]}" for level in Level if levels[level.value]),
        )
    return table


def _differences(results: Sequence[Result], others: Sequence[Result]) -> None:
    changed = [
        (new, old) for new, old in zip(results, others, strict=True) if (new.level, new.first) != (old.level, old.first)
    ]
    say(f"{len(changed)} of {len(results)} sessions fare differently")
    for new, old in changed:
        say(f"  {new.session_id}: {_story(old)} -> {_story(new)}")


def _story(result: Result) -> str:
    if result.first is None:
        return result.level
    return f"{result.first.level} at {result.first.seq} by {result.first.detector}"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(backtest)
