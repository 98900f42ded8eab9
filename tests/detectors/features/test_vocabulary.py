from pathlib import Path

import pytest

import haltline.detectors
from haltline.detectors.commands.rows import cells_of

SOURCES = "".join(file.read_text() for file in Path(haltline.detectors.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("table", ["vocabulary", "expressions", "masks"])
def test_each_name_of_a_table_is_used(table: str) -> None:
    names = {cells[0] for cells in cells_of(table)}
    assert [
        name for name in names if f'"{name}"' not in SOURCES and f"{name.rpartition(' ')[0]} {{" not in SOURCES
    ] == []
