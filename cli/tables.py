"""Human-readable tables: columns if the terminal is wide enough, else one record at a time."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from haltline.cli.common import console, printable

MAX_COLUMNS: Final = 14
_UNLIMITED: Final = 100_000
_SHORTEST: Final = 8


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
    table = Table(*columns, title=title or None)
    for row in cells:
        table.add_row(*row)
    is_wide_enough = Measurement.get(out, out.options.update(max_width=_UNLIMITED), table).minimum <= out.width
    for at, column in enumerate(table.columns):
        column.overflow = "fold"
        column.no_wrap = is_wide_enough and not any(" " in row[at].plain for row in cells)  # ids stay whole
    if len(columns) <= MAX_COLUMNS and (is_wide_enough or not sys.stdout.isatty()):
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


def width() -> int:
    """The columns of the terminal, or those of COLUMNS; without both, more than any line has."""
    is_given = os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if is_given or sys.stdout.isatty() else _UNLIMITED


def print_lines(columns: Sequence[str], rows: Iterable[Sequence[str]], *, cut: int, numbers: Iterable[int]) -> None:
    """Print rows of cells, each as one line, below a line of headings; without rows, print nothing.

    Where a line is too long, the column `cut` is shortened. `numbers`: the columns that are aligned to the right.
    """
    import typer
    from rich.cells import cell_len, set_cell_size

    lines = [list(columns), *([printable(cell) for cell in row] for row in rows)]
    if len(lines) == 1:
        return
    sizes = [max(cell_len(line[at]) for line in lines) for at in range(len(columns))]
    too_long = sum(sizes) + 2 * (len(sizes) - 1) - width()
    sizes[cut] = max(sizes[cut] - max(0, too_long), _SHORTEST)
    right = set(numbers)
    for number, line in enumerate(lines):
        if cell_len(line[cut]) > sizes[cut]:
            line[cut] = f"{set_cell_size(line[cut], sizes[cut] - 1)}…"
        spaces = [" " * (size - cell_len(cell)) for cell, size in zip(line, sizes, strict=True)]
        cells = [f"{space}{cell}" if at in right else f"{cell}{space}"
                 for at, (space, cell) in enumerate(zip(spaces, line, strict=True))]  # fmt: skip
        typer.secho("  ".join(cells).rstrip(), dim=number == 0)
