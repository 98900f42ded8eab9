"""The summary as tables."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.quality.judging import BASELINES, OURS, SYSTEMS, Judged
from benchmarks.quality.sessions import Kind
from benchmarks.quality.summary import MEASURES, NAMES, Count, Summary
from benchmarks.reporting.table import table_of
from haltline.cli.common import printable


def show(summary: Summary, judged: Sequence[Judged], console: Console) -> None:
    """Print tables, then a line for each target."""
    events = sum(j.result.events for j in judged)
    clockless = sum(j.result.clock == "steps" for j in judged)
    kinds = ", ".join(f"{sum(j.known.kind is kind for j in judged)} {kind.value}" for kind in Kind)
    console.print(
        f"{len(judged):,} sessions ({kinds}), {events:,} actions; {clockless} without a clock (5 s an action)"
    )
    console.print(
        "stop: judged a runaway to be paused; hint: one for which a hint is enough; sound: judged to be none; "
        "solved: not judged, but solved according to its source; modern: a modern agent that keeps verifying a "
        "finished task, "
        "by a mechanical label\n"
        "told: a hint or a stop; asked: a person about an act, which stops nothing else; "
        "within 5: from where the runaway begins to 5 events behind the signal; "
        "in brackets: 95 % intervals (Wilson), in %\n",
        highlight=False,
    )
    console.print(_detectors(summary))
    console.print(_groups(summary, "Runaways, by source and class", (Kind.STOP, Kind.HINT)))
    console.print(_groups(summary, "Modern agents, by source", (Kind.MODERN, Kind.MODERN_SOUND)))
    console.print(_groups(summary, "False alarms, by source", (Kind.SOUND, Kind.SOLVED)))
    for system in SYSTEMS:
        rules = ", ".join(f"{rule} {count}" for rule, count in summary.rules[system].items())
        console.print(f"  {system}: {rules or 'nothing'}", highlight=False)
    if not summary.targets:
        console.print("No target: none of these sessions has a label")
    for target, count in summary.targets:
        text = f"at most {target.at_most:.1%}" if target.at_most is not None else f"at least {target.at_least:.0%}"
        low, high = count.interval
        result = f"{target.name}: {count.part} of {count.of}, {count.share:.1%} ({low:.1%} to {high:.1%}); {text}"
        console.print(f"{'PASS' if target.met(count) else 'FAIL'}  {result}", highlight=False)


def show_sessions(judged: Sequence[Judged], console: Console) -> None:
    """Print every session in which a system gave a hint or stop, with haltline's verdict and its place."""
    for kind in Kind:
        those = [
            j for j in judged if j.known.kind is kind and (j.fired or any(s.found is not None for s in j.seen.values()))
        ]
        console.print(f"\n{NAMES[kind].rstrip(':')}: {len(those)} in which something fired", style="bold")
        for j in those:
            reported = j.known.judgement
            truth = (
                f", from {reported.begins}, signal at {reported.signal}"
                if reported is not None and reported.signal
                else ""
            )
            head = f"{j.known.session_id} ({j.known.session.label or 'unlabelled'}, {j.result.events} actions{truth})"
            _line(console, f"{head}: {j.result.level}")
            for detector, fired in j.fired.items():
                level = fired.level.value
                _line(console, f"    {fired.seq:>4} {detector} {fired.severity.value} {level}: {fired.reason}")
            for name in BASELINES:
                seen = j.seen[name]
                if seen.found is not None:
                    stopped = f", stopped at {seen.stopped}" if seen.stopped is not None else ""
                    _line(console, f"         {name}: {seen.rule} at {seen.found}{stopped}")


def _line(console: Console, text: str) -> None:
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def _detectors(summary: Summary) -> Table:
    severities = ["low", "medium", "high", "critical"]
    table = table_of(
        "Sessions by detector (severity: the highest in a session; by kind: fired / stopped / asked; "
        "a stop is PAUSE or above, an ask is about one act)",
        ["detector", "fired", *severities, *(kind.value for kind in Kind)],
    )
    for row in summary.detectors:
        names = [kind.value for kind in Kind]
        kinds = (f"{row['fired_in'][name]} / {row['stopped_in'][name]} / {row['asked_in'][name]}" for name in names)
        table.add_row(row["detector"], str(row["fired"]), *(str(row["by_severity"][s]) for s in severities), *kinds)
    return table


def _groups(summary: Summary, title: str, kinds: Sequence[Kind]) -> Table:
    columns = [(kind, measure) for kind in kinds for measure in MEASURES[kind]]
    table = table_of(
        f"{title}: {OURS} and the published rules of its peers on the same sessions",
        ["", "system", *(f"{kind.value}: {measure}" for kind, measure in columns)],
        texts=2,
    )
    for group in summary.groups:
        counts = [group.counts.get(column) for column in columns]
        if any(counts):
            first = group.system == SYSTEMS[0]
            if first:
                table.add_section()
            table.add_row(group.name if first else "", group.system, *map(_count, counts))
    return table


def _count(count: Count | None) -> str:
    if count is None:
        return "-"
    low, high = count.interval
    return f"{count.part}/{count.of} ({100 * low:.0f}-{100 * high:.0f})"
