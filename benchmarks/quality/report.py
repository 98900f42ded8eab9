"""The figures as tables, for a terminal and for pages."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.quality.measuring import OURS, Measured, Row
from benchmarks.quality.sessions import Kind, Known
from benchmarks.reporting.table import Table

_ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (_ROOT / "README.md", _ROOT / "docs" / "quality.md")
"""Pages with these tables."""
_MARKED: Final = re.compile(r"(<!-- quality:([a-z-]+) -->\n)(.*?)(<!-- /quality:\2 -->)", re.DOTALL)
_NAMES = {Kind.SOUND: "sound", Kind.SOLVED: "solved", Kind.HINT: "for a hint"}


def tables(measured: Measured) -> dict[str, Table]:
    """Return the tables by name: by set beside the peers, by source, by class of runaway; and the README's."""
    groups = {system: measured.rows(system, lambda known: known.group) for system in measured.outcomes}
    by_set = [([name, system], groups[system][name]) for name in groups[OURS] for system in groups]
    by_source = [([name], row) for name, row in sorted(measured.rows(OURS, _source_of).items())]
    by_class = [([name], row) for name, row in sorted(measured.rows(OURS, _class_of).items())]
    return {
        "runaways": _runaways("Runaways, by set", by_set, ["sessions", "by"]),
        "others": _others("Sessions that should go on, by set", by_set, ["sessions", "by"]),
        "runaways-by-source": _runaways("Runaways, by source", by_source, ["source"]),
        "others-by-source": _others("Sessions that should go on, by source", by_source, ["source"]),
        "classes": _runaways("Runaways, by class", by_class, ["class"]),
        "summary": _summary(groups[OURS]),
    }


def show(measured: Measured, console: Console) -> None:
    """Print the tables, then a line for each target."""
    for name, table in tables(measured).items():
        if table.rows and name != "summary":
            table.show(console)
    for target, count in measured.targets:
        wanted = f"at most {target.at_most}" if target.at_most is not None else f"at least {target.at_least}"
        line = f"{target.group}: {target.name}: {count.part} of {count.of}; {wanted}"
        console.print(f"{'PASS' if target.met(count) else 'FAIL'}  {line}", highlight=False)


def markdown(made: Mapping[str, Table]) -> str:
    """Return the tables as they are in the pages."""
    return "\n".join(f"{table.title}:\n\n{table.markdown()}" for table in made.values() if table.rows)


def written(text: str, made: Mapping[str, Table]) -> str:
    """Return a page with these tables between their comments, `<!-- quality:NAME -->` and `<!-- /quality:NAME -->`.

    What stands there stays where a table has no rows, as it was not measured.
    """
    return _MARKED.sub(lambda mark: mark[1] + (made[mark[2]].markdown() or mark[3]) + mark[4], text)


def _source_of(known: Known) -> str:
    return f"{known.group}: {known.source}"


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


def _summary(groups: Mapping[str, Row]) -> Table:
    columns = [
        "sessions",
        "runaways held",
        "their late calls, made all the same",
        "others with a refused call",
        "others stopped for good",
    ]
    rows = []
    for name, row in groups.items():
        if "without" in name:
            continue  # docs/quality.md has it
        kind = Kind.SOLVED if row.of(Kind.SOLVED) else Kind.SOUND
        refused, held = (row.count(kind, lambda one: one.refused), row.count(kind, lambda one: one.for_good))
        made, late = row.late
        runaways = [f"{row.held.part} of {row.held.of}", f"{made:,} of {late:,}"] if late else ["-", "-"]
        rows.append([name, *runaways, f"{refused.part} of {refused.of}", str(held.part)])
    return Table("In short", columns, rows)
