"""`haltline backtest`: what a policy would have done with recorded sessions."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    Exit,
    PolicyFile,
    console,
    fail,
    printable,
    say,
)
from haltline.cli.operator.audit_query import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.policy_option import read_plugins, read_policy
from haltline.cli.sources import KAFKA, Since, Sink, Until, Where, is_table, opened, progress, say_missing
from haltline.schemas.decisions import Level
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.replay.backtest import Recorded, Result, related
from haltline.streams.replay.backtest import together as run_together
from haltline.streams.replay.traces import UnreadableTrace, read_traces

if TYPE_CHECKING:
    from haltline.streams.replay.whatif import Totals

_STORY = 6
"""Decisions of a session that would be killed: the last ones."""
_SHOWN = 50
"""Sessions of a list for people."""


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
        Path | None, typer.Option(help="Another policy: print the sessions that differ.", metavar="FILE")
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
        typer.Option("--together", help="All sessions are of one fleet: look across them, by agent and target too."),
    ] = False,
    since: Since = "",
    until: Until = "",
    at: Cluster,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    sink: Sink = None,
    as_json: AsJson = False,
) -> None:
    """Run recorded sessions through the detectors and say what would have been decided.

    Each session is by itself, but for those of one tree (that name a parent or a root), or with --together. What
    operators label decisions (`haltline label`, `missed`) is read from kafka and audit: then precision is reported.

    With --json: one object a line for each session, with its findings and decisions; with --against also what the
    other policy does, and a last line with the totals; with --sweep one object a line for each value. Sessions
    without times get a step of 5 s for each action; their object says "clock": "steps".

    Example: haltline backtest --policy new.yaml --against current.yaml sessions.jsonl.gz

    Example: haltline backtest audit --from -7d --sweep rules.destructive_volume.settings.max_deletes=2,3,5,8
    """
    from haltline.streams.replay.whatif import parse_sweep  # noqa: PLC0415  # with every detector

    if (against is not None and sweep is not None) or (plot is not None and sweep is None):
        fail("expected one of --against and --sweep, and --plot with --sweep only", Exit.USAGE)
    if plot is not None and (plot.suffix != ".svg" or not plot.parent.is_dir()):
        fail(f"--plot: expected a file FILE.svg in a folder that is there, got {plot}", Exit.USAGE)
    plugins = read_plugins()
    first = read_policy(policy)
    second = read_policy(against) if against is not None else None
    where = Where(since, until, at.bootstrap, at.topics, at.client_config, table, options_of(storage_option), sink)
    try:
        values = parse_sweep(sweep) if sweep is not None else None
        if values is not None and plot is not None:
            _require_numbers(values.values)
        sessions = list(_read(sources, where))
        if not sessions:
            fail(f"{', '.join(sources)}: expected sessions in this range, got none", Exit.NO)
        groups = [sessions] if together else related(sessions)

        def results_of(one: Policy, each: Callable[[Result], None] = lambda _: None) -> list[Result]:
            core = Core(one, plugins)
            shown = Console(stderr=True)
            found: list[Result] = []
            for group in track(groups, "Sessions", console=shown, disable=not shown.is_terminal):
                for result in run_together(core, group):
                    found.append(result)
                    each(result)
            return found

        if values is not None:
            _swept(values.place, values.run(first, results_of, plugins), plot, as_json=as_json)
            return
    except (BadPolicy, OSError) as error:
        fail(error, Exit.USAGE)
    if second is None:
        results = results_of(first, _print if as_json else lambda _: None)
        if not as_json:
            console().print(_summary(results))
            _totals(results)
        return
    results = results_of(first)
    _compared(results, results_of(second), as_json=as_json)


def _read(sources: Sequence[str], where: Where) -> Iterator[Recorded]:
    from haltline.streams.replay.history import sessions_of  # noqa: PLC0415  # deltalake is large

    for source in sources:
        if source == KAFKA or is_table(source):
            with (
                opened(source, where) as found,
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
            fail(str(error), Exit.USAGE)


def _print(result: Result) -> None:
    typer.echo(orjson.dumps(result.to_dict()).decode())


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


def _totals(results: Sequence[Result]) -> None:
    from haltline.streams.replay.whatif import totals_of  # noqa: PLC0415  # with every detector

    say(_totals_line(totals_of(results)))


def _totals_line(totals: "Totals") -> str:
    parts = [f"{totals.stopped} of {totals.sessions} sessions stopped, {totals.nudged} nudged"]
    if totals.quality is not None:
        shares = {name: getattr(totals.quality, name) for name in ("precision", "recall")}
        parts += [f"{name} {'-' if share is None else f'{share:.0%}'}" for name, share in shares.items()]
    if totals.cost_prevented_usd:
        parts.append(f"{totals.cost_prevented_usd:g} USD of refused calls prevented")
    if totals.cost_after_stop_usd:
        parts.append(f"{totals.cost_after_stop_usd:g} USD spent after the stop")
    return "; ".join(parts)


def _compared(results: Sequence[Result], others: Sequence[Result], *, as_json: bool) -> None:
    from haltline.streams.replay.whatif import APPEARS, MOVES, SAME, VANISHES, change_of, totals_of  # noqa: PLC0415  # with every detector

    pairs = [(new, old, change_of(new, old)) for new, old in zip(results, others, strict=True)]
    counts = Counter(change for _, _, change in pairs)
    if as_json:
        for new, old, change in pairs:
            comparison = {
                **new.to_dict(),
                "change": change,
                "against": {"level": old.level, "first": old.to_dict()["first"]},
            }
            typer.echo(orjson.dumps(comparison).decode())
        both = {"policy": totals_of(results).to_dict(), "against": totals_of(others).to_dict()}
        typer.echo(orjson.dumps({"summary": {"changes": dict(counts), **both}}).decode())
        return
    console().print(_summary(results))
    say(f"now: {_totals_line(totals_of(results))}")
    say(f"against: {_totals_line(totals_of(others))}")
    say(f"{len(pairs) - counts[SAME]} of {len(results)} sessions differ")
    say(f"trips: {counts[APPEARS]} appear, {counts[VANISHES]} vanish, {counts[MOVES]} are at another place or level")
    differ = [(new, old, change) for new, old, change in pairs if change != SAME]
    for new, old, change in differ[:_SHOWN]:
        say(f"  {new.session_id}: {_story(old)} -> {_story(new)} ({change})")
    _and_more(len(differ))
    killed = [new for new, old, _ in pairs if new.level == Level.KILL.value != old.level]
    for new in killed[:_SHOWN]:
        say(f"would be killed: {new.session_id}" + (f" ({new.label})" if new.label else ""), style="bold")
        for decision in new.decisions[-_STORY:]:  # how it ended
            say(f"  at {decision.seq}: {decision.level} by {decision.detector}: {decision.reason}")
    _and_more(len(killed))


def _and_more(count: int) -> None:
    if count > _SHOWN:
        say(f"and {count - _SHOWN} more; --json has all")


def _story(result: Result) -> str:
    if result.first is None:
        return result.level
    return f"{result.first.level} at {result.first.seq} by {result.first.detector}"


def _swept(place: str, found: "Sequence[tuple[Any, Totals]]", plot: Path | None, *, as_json: bool) -> None:
    labels = sorted({label for _, totals in found for label in totals.stopped_by_label})
    if as_json:
        for value, totals in found:
            typer.echo(orjson.dumps({"setting": place, "value": value, **totals.to_dict()}).decode())
    else:
        by_label = [f"stopped: {label}" for label in labels] if labels != ["-"] else []
        shown = Table(place.rpartition(".")[2], "stopped", "nudged", *by_label, "precision", "recall")
        for value, totals in found:
            shares = ("precision", "recall")
            shown.add_row(
                printable(str(value)),
                str(totals.stopped),
                str(totals.nudged),
                *(str(totals.stopped_by_label.get(label, 0)) for label in labels if by_label),
                *("-" if (s := getattr(totals.quality, name, None)) is None else f"{s:.0%}" for name in shares),
            )
        console().print(shown)
    if plot is not None:
        _draw(place, found, labels, plot)
        if not as_json:
            say(f"drawn: {plot}")


def _draw(place: str, found: "Sequence[tuple[Any, Totals]]", labels: Sequence[str], plot: Path) -> None:
    from haltline.streams.incident.picture import curves  # noqa: PLC0415  # only here

    lines = {
        "stopped": [(float(value), float(totals.stopped)) for value, totals in found],
        "nudged": [(float(value), float(totals.nudged)) for value, totals in found],
    }
    for label in labels if labels != ["-"] else ():
        name = f"stopped: {label}"
        lines[name] = [(float(value), float(totals.stopped_by_label.get(label, 0))) for value, totals in found]
    sessions = found[0][1].sessions
    plot.write_text(curves(f"What becomes of {sessions} sessions", place, "sessions", lines), encoding="utf-8")


def _require_numbers(values: Sequence[Any]) -> None:
    """Ends the command where a value has no place on an axis."""
    if strange := [value for value in values if not isinstance(value, int | float) or isinstance(value, bool)]:
        fail(f"--plot: expected numbers as values, got {strange[0]!r}", Exit.USAGE)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(backtest)
