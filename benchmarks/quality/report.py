"""The figures as tables, for a terminal and for pages."""

import re
from collections.abc import Mapping
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
    """Return the tables by name: by set, by class of runaway, the peers' by set; and the README's.

    Sessions that are played again without their calls of `task_done` are for the targets only.
    """
    measured = Measured(
        {
            system: [one for one in those if "without" not in one.known.group]
            for system, those in measured.outcomes.items()
        }
    )
    groups = {system: measured.rows(system, lambda known: known.group) for system in measured.outcomes}
    ours = groups.pop(OURS)
    return {
        "runaways": _runaways("Runaways, by set", "sessions", ours),
        "others": _others(ours),
        "classes": _runaways("Runaways, by class", "class", dict(sorted(measured.rows(OURS, _class_of).items()))),
        "peers": _peers(groups),
        "summary": _summary(ours),
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


def _class_of(known: Known) -> str:
    return known.judgement.pattern or "not told"


def _runaways(title: str, name: str, rows: Mapping[str, Row]) -> Table:
    return Table(
        title,
        [name, "a call refused", "late calls made", "held", "held too early"],
        [
            [
                one,
                str(row.count(Kind.STOP, lambda one: one.refused)),
                "{:,} of {:,}".format(*row.late),
                str(row.held),
                str(sum(one.early for one in row.of(Kind.STOP))),
            ]
            for one, row in rows.items()
            if row.of(Kind.STOP)
        ],
    )


def _others(groups: Mapping[str, Row]) -> Table:
    return Table(
        "Sessions that should go on, by set",
        ["sessions", "", "a call refused", "calls refused", "stopped for good", "hinted"],
        [
            [
                name,
                what,
                str(row.count(kind, lambda one: one.refused)),
                f"{sum(one.refused for one in row.of(kind)):,} of {sum(one.calls for one in row.of(kind)):,}",
                str(row.count(kind, lambda one: one.for_good)),
                str(row.count(kind, lambda one: one.hinted)),
            ]
            for name, row in groups.items()
            for kind, what in _NAMES.items()
            if row.of(kind)
        ],
    )


def _peers(groups: Mapping[str, Mapping[str, Row]]) -> Table:
    rows = []
    for name in next(iter(groups.values()), ()):  # a training measures no peers
        for system, by_name in groups.items():
            row = by_name[name]
            refused, made, late = row.count(_healthy(row), lambda one: one.refused), *row.late
            runaways = [f"{made:,} of {late:,}", f"{row.held.part} of {row.held.of}"] if late else ["-", "-"]
            rows.append([name, system, *runaways, f"{refused.part} of {refused.of}"])
    columns = ["sessions", "by", "late calls made", "held", "sound or solved with a refused call"]
    return Table("Peers' rules, by set", columns, rows)


def _healthy(row: Row) -> Kind:
    return Kind.SOLVED if row.of(Kind.SOLVED) else Kind.SOUND


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
        kind = _healthy(row)
        refused, held = (row.count(kind, lambda one: one.refused), row.count(kind, lambda one: one.for_good))
        made, late = row.late
        runaways = [f"{row.held.part} of {row.held.of}", f"{made:,} of {late:,}"] if late else ["-", "-"]
        rows.append([name, *runaways, f"{refused.part} of {refused.of}", str(held.part)])
    return Table("In short", columns, rows)
