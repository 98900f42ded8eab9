"""`haltline backtest`: evaluates recorded sessions by a policy."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, PolicyFile, UsageErrors, fail, progress, tracked
from haltline.cli.policy_option import read_plugins, read_policy
from haltline.cli.sources import KAFKA, Where, is_table, opened, say_missing, with_source

if TYPE_CHECKING:
    from haltline.schemas.policy import Policy
    from haltline.streams.replay.backtest import Recorded, Result


@with_source
@with_cluster()
def backtest(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Files of ActionEvents or of recorded traces, one JSON object a line (.jsonl or .jsonl.gz); kafka (a "
            "range of the running topic); audit (the audit table; or its folder or URI).",
            metavar="SOURCE...",
        ),
    ],
    *,
    policy: PolicyFile = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Another policy: print the sessions that differ.", metavar="FILE"),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            help="Try several values of one setting: rules.NAME.settings.X=2,3,5,8.", metavar="SETTING=VALUES"
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="With --sweep: draw the sessions stopped over the values.", metavar="FILE.svg")
    ] = None,
    together: Annotated[
        bool,
        typer.Option("--together", help="Evaluate all sessions as one fleet, with rules across agents and targets."),
    ] = False,
    where: Where,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Run recorded sessions through the rules, and print the decisions.

    Calls that a guard would have refused do not happen: the rules get their refusals instead of the recorded results.

    Each session is evaluated alone, except those of one tree (that name a parent or a root), or with --together. Labels
    of operators (`haltline label`, `missed`) are read from kafka and audit; precision is reported where there are some.

    With --json: one object per line and session, with its findings and decisions, its calls that would not have been
    made (`refused`), and the event from which it is held or killed (`held`); with --against also the other
    policy's, and a last line with the totals; with --sweep one object per line and value. Sessions without times get a
    step of 5 s for each action; their object says "clock": "steps".

    Example: haltline backtest --policy new.yaml --against current.yaml sessions.jsonl.gz

    Example: haltline backtest audit --from -7d --sweep rules.destructive_volume.settings.max_deletes=2,3,5,8
    """
    from haltline.cli.operator.replaying import backtest_report as report
    from haltline.streams.engine.core import Core
    from haltline.streams.policy.loader import BadPolicy
    from haltline.streams.replay.backtest import related
    from haltline.streams.replay.backtest import together as run_together
    from haltline.streams.replay.whatif import parse_sweep

    if (against is not None and sweep is not None) or (plot is not None and sweep is None):
        fail("expected one of --against and --sweep, and --plot with --sweep only", Exit.USAGE)
    if plot is not None and (plot.suffix != ".svg" or not plot.parent.is_dir()):
        fail(f"--plot: expected a file FILE.svg in a folder that exists, got {plot}", Exit.USAGE)
    plugins = read_plugins()
    first = read_policy(policy)
    second = read_policy(against) if against is not None else None
    with UsageErrors(BadPolicy, OSError):
        values = parse_sweep(sweep) if sweep is not None else None
        if values is not None and plot is not None:
            report.require_numbers(values.values)
        sessions = list(read(sources, where, at))
        if not sessions:
            fail(f"{', '.join(sources)}: expected sessions in this range, got none", Exit.NO)
        groups = [sessions] if together else related(sessions)

        def results_of(one: "Policy", each: "Callable[[Result], None]" = lambda _: None) -> "list[Result]":
            core = Core(one, plugins)
            found: list[Result] = []
            for group in tracked(groups, "Sessions"):
                for result in run_together(core, group):
                    found.append(result)
                    each(result)
            return found

        if values is not None:
            report.swept(values.place, values.run(first, results_of, plugins), plot, as_json=as_json)
            return
    if second is None:
        results = results_of(first, report.print_line if as_json else lambda _: None)
        if not as_json:
            report.summary(results)
        return
    results = results_of(first)
    report.compared(results, results_of(second), as_json=as_json)


def read(sources: Sequence[str], where: Where, at: Cluster) -> "Iterator[Recorded]":
    """The sessions of files, of the running topic, or of the audit table; exits if one cannot be read."""
    from haltline.streams.replay.traces import UnreadableTrace, read_traces

    for source in sources:
        if source == KAFKA or is_table(source):
            from haltline.streams.replay.history import sessions_of  # needs the processor's packages; files do not

            with (
                opened(source, where, at) as found,
                progress("Reading", sum(span.count for span in found.spans)) as step,
            ):
                sessions = sessions_of(found, step)
                say_missing(found.missing(found.spans))
            yield from sessions
            continue
        try:
            yield from read_traces(Path(source))
        except OSError as error:
            fail(f"{source}: {error.strerror or error}", Exit.USAGE)
        except UnreadableTrace as error:
            fail(f"{error}. What agents write becomes events by: haltline import {source} > events.jsonl", Exit.USAGE)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(backtest)
