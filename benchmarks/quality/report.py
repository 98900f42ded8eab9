"""The summary as people read it."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.quality.judging import BASELINES, OURS, Judged, Seen
from benchmarks.quality.sessions import Fate
from benchmarks.quality.summary import GROUPS, Counts, Overlap, Summary
from haltline.streams.cli.common import printable


def show(summary: Summary, judged: Sequence[Judged], console: Console) -> None:
    """Tables, then a line for each target."""
    sessions, events = len(judged), sum(j.result.events for j in judged)
    clockless = sum(j.result.clock == "steps" for j in judged)
    console.print(f"{sessions:,} sessions, {events:,} actions; {clockless} without a clock (5 s for each action)\n")
    console.print(_detectors(summary))
    console.print(_sources(summary))
    console.print(_systems(summary))
    for row in summary.systems:
        rules = ", ".join(f"{rule} {count}" for rule, count in row.rules.items())
        console.print(f"  {row.system}: {rules or 'nothing'}", highlight=False)
    console.print(_overlaps(summary))
    if not summary.targets:
        console.print("No target: of none of these sessions it is known that it was sound")
    for target in summary.targets:
        share = f"{target.count} of {target.of}, {target.count / target.of:.2%}"
        said = f"{target.name}: {share}; wanted fewer than {target.below:.0%}"
        console.print(f"{'PASS' if target.met else 'FAIL'}  {said}", highlight=False)


def show_sessions(judged: Sequence[Judged], summary: Summary, console: Console) -> None:
    """Every session in which any system spoke up, with what ours said and where."""
    for fate in Fate:
        those = [j for j in judged if j.known.fate is fate and (j.fired or any(s.found is not None for s in _all(j)))]
        console.print(f"\n{fate.value}: {len(those)} sessions in which something fired", style="bold")
        for j in those:
            head = (
                f"{j.known.session_id} ({j.known.session.label or 'unlabelled'}, {j.result.events} actions{_loops(j)})"
            )
            _line(console, f"{head}: {j.result.level}")
            for detector, fired in j.fired.items():
                level = fired.level.value
                _line(console, f"    {fired.seq:>4} {detector} {fired.severity.value} {level}: {fired.reason}")
            for name in BASELINES:
                if j.seen[name].found is not None:
                    _line(console, f"         {name}: {_told(j.seen[name])}")
    for overlap in summary.overlaps:
        for what in ("both", "ours_only", "baseline_only"):
            ids = getattr(overlap, what)
            if ids:
                who = what.replace("baseline", overlap.baseline).replace("_", " ")
                _line(console, f"\n{overlap.fate}, {overlap.what}, {OURS} and {overlap.baseline}, {who}:")
                _line(console, f"    {', '.join(ids)}")


def _loops(judged: Judged) -> str:
    known = judged.known
    if not known.loops:
        return ""
    return f", by {known.loops} of {known.loop_checks} ledger checks in a loop, first at {known.first_loop_seq}"


def _all(judged: Judged) -> Sequence[Seen]:
    return tuple(judged.seen.values())


def _told(seen: Seen) -> str:
    stopped = f", stopped at {seen.stopped}" if seen.stopped is not None else ""
    return f"{seen.rule} at {seen.found}{stopped}"


def _line(console: Console, text: str) -> None:
    console.print("\n".join(map(printable, text.split("\n"))), markup=False, highlight=False, soft_wrap=True)


def _detectors(summary: Summary) -> Table:
    table = _table(
        "Sessions by detector (severity: the highest in a session; stopped: PAUSE or above)",
        ["detector", "fired", "low", "medium", "high", "critical", "stopped", "sound fired", "sound stopped"],
    )
    for row in summary.detectors:
        counts = (row.fired, *row.by_severity.values(), row.stopped, row.sound_fired, row.sound_stopped)
        table.add_row(row.detector, *map(str, counts))
    return table


def _sources(summary: Summary) -> Table:
    fates = [fate.value for fate in Fate]
    table = _table(f"{OURS} by source: found / stopped / sessions", ["source", *fates])
    for source, row in summary.by_source:
        table.add_row(source, *(_counts(row.groups[fate]) for fate in fates))
    return table


def _systems(summary: Summary) -> Table:
    table = _table(
        f"{OURS} and the published rules of its peers, on the same sessions: found / stopped / sessions",
        ["system", *GROUPS],
    )
    for row in summary.systems:
        table.add_row(row.system, *(_counts(row.groups[group]) for group in GROUPS))
    table.caption = "found: a hint or a stop. looping: by the agents' own ledger, which only some sessions have"
    return table


def _counts(counts: Counts) -> str:
    return f"{counts.found} / {counts.stopped} / {counts.sessions}" if counts.sessions else "-"


def _overlaps(summary: Summary) -> Table:
    table = _table(
        f"Which sessions: {OURS} only / both / baseline only",
        ["baseline", *(f"{fate.value} {what}" for fate in Fate for what in ("found", "stopped"))],
    )
    of: dict[tuple[str, str, str], Overlap] = {(o.baseline, o.fate, o.what): o for o in summary.overlaps}
    for baseline in BASELINES:
        table.add_row(
            baseline, *(_sets(of[baseline, fate.value, what]) for fate in Fate for what in ("found", "stopped"))
        )
    return table


def _sets(overlap: Overlap) -> str:
    return f"{len(overlap.ours_only)} / {len(overlap.both)} / {len(overlap.baseline_only)}"


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table
