"""Human-readable tables: columns if the terminal is wide enough, else one record at a time."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from haltline.cli.common import console, printable

MAX_COLUMNS: Final = 14
_BORDER = 3
"""The width of a column without its text: a line, and a space on both sides."""


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    first_style: Sequence[str] = (),
) -> int:
    """Print rows of cells and return their number; without rows, print nothing.

    No word is cut: on a terminal where the longest words of the columns do not fit side by side, each row is printed as
    lines `column: cell`, without its empty cells; so is a row of more than MAX_COLUMNS. If the output is not a
    terminal, a table is up to 200 characters wide, and longer words are wrapped. `first_style`: for each row, the style
    of its first cell.
    """
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    out = console()
    cells = [[Text(printable(cell)) for cell in row] for row in rows]
    if not cells:
        return 0
    for row, style in zip(cells, first_style, strict=False):
        row[0].stylize(style)
    sizes = [
        [Measurement.get(out, out.options, text) for text in (Text(name), *(row[at] for row in cells))]
        for at, name in enumerate(columns)
    ]
    widths = _widths(
        [max(size.minimum for size in column) for column in sizes],
        [max(size.maximum for size in column) for column in sizes],
        out.width - _BORDER * len(columns) - 1,
    )
    if len(columns) <= MAX_COLUMNS and (widths is not None or not sys.stdout.isatty()):
        table = Table(title=title or None)
        for at, name in enumerate(columns):
            table.add_column(name, width=None if widths is None else widths[at], overflow="fold")
        for row in cells:
            table.add_row(*row)
        out.print(table)
        return len(cells)
    if title:
        out.print(Text(title, style="italic"))
    for number, row in enumerate(cells, start=1):
        out.rule(Text(f"row {number}"), align="left", style="dim")
        for name, cell in zip(columns, row, strict=True):
            if cell:
                out.print(Text(f"{name}: ").append(cell), soft_wrap=True)
    return len(cells)


def _widths(least: Sequence[int], most: Sequence[int], available: int) -> list[int] | None:
    """A width for each column between its least and its most, the wide ones as even as possible; None: not possible."""
    for even in range(available, -1, -1):
        widths = [max(low, min(high, even)) for low, high in zip(least, most, strict=True)]
        if sum(widths) <= available:
            return widths
    return None
