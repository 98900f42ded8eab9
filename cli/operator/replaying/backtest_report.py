"""The output and the plots of `haltline backtest`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import typer

from haltline.cli.common import Exit, fail, say
from haltline.cli.tables import print_table
from haltline.schemas.decisions import Level
from haltline.streams.replay.backtest import Result
from haltline.streams.replay.curves import curves
from haltline.streams.replay.whatif import APPEARS, MOVES, SAME, VANISHES, Totals, change_of, totals_of

_STORY = 6
"""The last decisions shown of a session that would be killed."""
_SHOWN = 50
"""The most sessions in a human-readable list."""


def print_line(result: Result) -> None:
    """Print one session as a line of JSON."""
    typer.echo(orjson.dumps(asdict(result)).decode())


def summary(results: Sequence[Result]) -> None:
    """Print the sessions by label, and the totals."""
    _by_label(results)
    say(_totals_line(totals_of(results)))


def _by_label(results: Sequence[Result]) -> None:
    rows = []
    for label in sorted({result.label or "-" for result in results}):
        those = [result for result in results if (result.label or "-") == label]
        levels = Counter(result.level for result in those)
        rows.append(
            (
                label,
                str(len(those)),
                str(sum(bool(result.findings) for result in those)),
                str(sum(result.first is not None for result in those)),
                str(sum(result.held is not None for result in those)),
                str(sum(result.asks > 0 for result in those)),
                ", ".join(f"{level.value} {levels[level.value]}" for level in Level if levels[level.value]),
            )
        )
    print_table(("label", "sessions", "fired", "stopped", "held", "asked", "highest level"), rows)


def _totals_line(totals: Totals) -> str:
    parts = [f"{totals.stopped} of {totals.sessions} sessions stopped, {totals.asks} asked, {totals.nudged} nudged"]
    if totals.quality is not None:
        shares = {name: getattr(totals.quality, name) for name in ("precision", "recall")}
        parts += [f"{name} {'-' if share is None else f'{share:.0%}'}" for name, share in shares.items()]
    if totals.cost_prevented_usd:
        parts.append(f"{totals.cost_prevented_usd:g} USD of refused calls prevented")
    if totals.cost_after_stop_usd:
        parts.append(f"{totals.cost_after_stop_usd:g} USD spent after the stop")
    return "; ".join(parts)


def compared(results: Sequence[Result], others: Sequence[Result], *, as_json: bool) -> None:
    """Print the sessions that differ under two policies."""
    pairs = [(new, old, change_of(new, old)) for new, old in zip(results, others, strict=True)]
    counts = Counter(change for _, _, change in pairs)
    if as_json:
        for new, old, change in pairs:
            comparison = {
                **asdict(new),
                "change": change,
                "against": {"level": old.level, "first": asdict(old)["first"]},
            }
            typer.echo(orjson.dumps(comparison).decode())
        both = {"policy": asdict(totals_of(results)), "against": asdict(totals_of(others))}
        typer.echo(orjson.dumps({"summary": {"changes": dict(counts), **both}}).decode())
        return
    _by_label(results)
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
        for decision in new.decisions[-_STORY:]:  # the last decision
            say(f"  at {decision.seq}: {decision.level} by {decision.detector}: {decision.reason}")
    _and_more(len(killed))


def _and_more(count: int) -> None:
    if count > _SHOWN:
        say(f"and {count - _SHOWN} more; --json has all")


def _story(result: Result) -> str:
    if result.first is None:
        return f"{result.level}, asks" if result.asks else result.level
    return f"{result.first.level} at {result.first.seq} by {result.first.detector}"


def swept(place: str, found: Sequence[tuple[Any, Totals]], plot: Path | None, *, as_json: bool) -> None:
    """Print, and plot if wanted, the results for each value of a setting."""
    labels = sorted({label for _, totals in found for label in totals.stopped_by_label})
    if as_json:
        for value, totals in found:
            typer.echo(orjson.dumps({"setting": place, "value": value, **asdict(totals)}).decode())
    else:
        by_label = [f"stopped: {label}" for label in labels] if labels != ["-"] else []
        shares = ("precision", "recall")
        rows = (
            (
                str(value),
                str(totals.stopped),
                str(totals.asks),
                str(totals.nudged),
                *(str(totals.stopped_by_label.get(label, 0)) for label in labels if by_label),
                *("-" if (s := getattr(totals.quality, name, None)) is None else f"{s:.0%}" for name in shares),
            )
            for value, totals in found
        )
        print_table((place.rpartition(".")[2], "stopped", "asked", "nudged", *by_label, *shares), rows)
    if plot is not None:
        _draw(place, found, labels, plot)
        if not as_json:
            say(f"drawn: {plot}")


def _draw(place: str, found: Sequence[tuple[Any, Totals]], labels: Sequence[str], plot: Path) -> None:
    lines = {
        "stopped": [(float(value), float(totals.stopped)) for value, totals in found],
        "nudged": [(float(value), float(totals.nudged)) for value, totals in found],
    }
    for label in labels if labels != ["-"] else ():
        name = f"stopped: {label}"
        lines[name] = [(float(value), float(totals.stopped_by_label.get(label, 0))) for value, totals in found]
    sessions = found[0][1].sessions
    plot.write_text(curves(f"Outcome of {sessions} sessions", place, "sessions", lines), encoding="utf-8")


def require_numbers(values: Sequence[Any]) -> None:
    """Exit if a value is not a number."""
    if strange := [value for value in values if not isinstance(value, int | float) or isinstance(value, bool)]:
        fail(f"--plot: expected numbers as values, got {strange[0]!r}", Exit.USAGE)
