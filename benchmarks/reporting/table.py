"""A table of figures, and the formats of figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """Rows of text, and lines below them."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[str] = field(default_factory=tuple)
    """Lines below the table; empty ones are left out."""

    def markdown(self) -> str:
        """Return the table as Markdown, without the title."""
        lines = [line for line in self.lines if line]
        table = [self.columns, ["---"] * len(self.columns), *self.rows] if self.rows else []
        text = "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in table)
        return text + "".join(f"\n{line}\n" for line in lines)

    def show(self, console: Console) -> None:
        """Print the table in a terminal."""
        table = table_of(self.title, self.columns)
        for row in self.rows:
            table.add_row(*row)
        if self.rows:
            console.print(table)
        for line in self.lines:
            if line:
                console.print(line, highlight=False)


def table_of(title: str, columns: Sequence[str], texts: int = 1) -> RichTable:
    """Return a table for a terminal whose first `texts` columns are text and the others numbers."""
    table = RichTable(title=title or None, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < texts else "right", no_wrap=1 < texts > number)
    return table


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that this percentage of the values does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def ratio(one: float | None, other: float | None) -> float | None:
    """Return the ratio; None when a value is missing."""
    return one / other if one and other else None


def times(value: float | None) -> str:
    """A ratio."""
    if value is None:
        return "-"
    return f"{value:.2f} times" if value < 10 else f"{value:.1f} times"


def ms(value: float) -> str:
    """Milliseconds."""
    return f"{value:.1f} ms"


def us(value: float | None) -> str:
    """Microseconds."""
    if value is None:
        return "-"
    return f"{value:.1f} us" if value < 100 else f"{value:.0f} us"


def mib(value: float | None) -> str:
    """Bytes, in a suitable unit."""
    if value is None:
        return "-"
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value:.0f} bytes"
