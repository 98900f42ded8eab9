"""Tables for people: side by side where a terminal is wide enough, else a record at a time. Nothing is cut."""

from collections.abc import Iterable, Sequence
from typing import Final

from haltline.cli.common import console, printable

MAX_COLUMNS: Final = 14


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    first_style: Sequence[str] = (),
) -> int:
    """Prints rows of cells, and returns how many there were.

    On a terminal that is narrower than the longest words of all columns, each row is printed as lines `column: cell`
    without its empty cells; so is a row of more than MAX_COLUMNS. What is not a terminal gets 200 characters.
    `first_style`: a style for each row, for its first cell.
    """
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    out = console()
    cells = [[Text(printable(cell)) for cell in row] for row in rows]
    for row, style in zip(cells, first_style, strict=False):
        row[0].stylize(style)
    table = Table(*columns, title=title or None)
    for row in cells:
        table.add_row(*row)
    is_narrow = out.is_terminal and Measurement.get(out, out.options, table).minimum > out.width
    if not cells:
        return 0
    if not (is_narrow or len(columns) > MAX_COLUMNS):
        out.print(table)
        return len(cells)
    if title:
        out.print(title, style="italic", markup=False)
    for number, row in enumerate(cells, start=1):
        out.rule(f"row {number}", align="left", style="dim")
        for name, cell in zip(columns, row, strict=True):
            if cell:
                out.print(Text(f"{name}: " if name else "").append(cell), soft_wrap=True)
    return len(cells)
