"""The figures as tables, for a terminal and for pages."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from benchmarks.quality.measuring import OURS, Measured, Row
from benchmarks.quality.sessions import Kind, Known
from benchmarks.reporting.table import Table

_NAMES = {Kind.SOUND: "sound", Kind.SOLVED: "solved", Kind.HINT: "for a hint"}


def tables(measured: Measured) -> Iterator[Table]:
    """Yield the tables: by set beside the peers, then by source, then by class of runaway."""
    groups = {system: measured.rows(system, lambda known: known.group) for system in measured.outcomes}
    yield _runaways(
        "Runaways, by set",
        [([name, system], groups[system][name]) for name in groups[OURS] for system in groups],
        ["sessions", "by"],
    )
    yield _others(
        "Sessions that should go on, by set",
        [([name, system], groups[system][name]) for name in groups[OURS] for system in groups],
        ["sessions", "by"],
    )
    sources = measured.rows(OURS, lambda known: f"{known.group}: {known.source}")
    yield _runaways("Runaways, by source", [([name], row) for name, row in sorted(sources.items())], ["source"])
    yield _others(
        "Sessions that should go on, by source", [([name], row) for name, row in sorted(sources.items())], ["source"]
    )
    classes = measured.rows(OURS, _class_of)
    yield _runaways("Runaways, by class", [([name], row) for name, row in sorted(classes.items())], ["class"])


def show(measured: Measured, console: Console) -> None:
    """Print the tables, then a line for each target."""
    for table in tables(measured):
        if table.rows:
            table.show(console)
    for target, count in measured.targets:
        wanted = f"at most {target.at_most}" if target.at_most is not None else f"at least {target.at_least}"
        line = f"{target.group}: {target.name}: {count.part} of {count.of}; {wanted}"
        console.print(f"{'PASS' if target.met(count) else 'FAIL'}  {line}", highlight=False)


def markdown(measured: Measured) -> str:
    """Return the tables as they are in docs/quality.md."""
    return "\n".join(f"{table.title}:\n\n{table.markdown()}" for table in tables(measured) if table.rows)


def _class_of(known: Known) -> str:
    return known.judgement.pattern or "not told"


def _runaways(title: str, rows: Sequence[tuple[list[str], Row]], names: list[str]) -> Table:
    columns = [*names, "a call refused", "late calls made", "held", "held too early"]
    return Table(
        title,
        columns,
        [
            [
                *name,
                str(row.count(Kind.STOP, lambda one: one.refused)),
                "{:,} of {:,}".format(*row.late),
                str(row.held),
                str(sum(one.early for one in row.of(Kind.STOP))),
            ]
            for name, row in rows
            if row.of(Kind.STOP)
        ],
    )


def _others(title: str, rows: Sequence[tuple[list[str], Row]], names: list[str]) -> Table:
    columns = [*names, "", "a call refused", "calls refused", "stopped for good", "hinted"]
    return Table(
        title,
        columns,
        [
            [
                *name,
                what,
                str(row.count(kind, lambda one: one.refused)),
                f"{sum(one.refused for one in row.of(kind)):,} of {sum(one.calls for one in row.of(kind)):,}",
                str(row.count(kind, lambda one: one.for_good)),
                str(row.count(kind, lambda one: one.hinted)),
            ]
            for name, row in rows
            for kind, what in _NAMES.items()
            if row.of(kind)
        ],
    )
