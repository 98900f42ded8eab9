from pathlib import Path

import haltline.detectors
from haltline.detectors.commands.rows import cells_of


def test_each_name_of_a_table_is_used() -> None:
    sources = "".join(file.read_text() for file in Path(haltline.detectors.__file__).parent.rglob("*.py"))
    names = {cells[0] for table in ("vocabulary", "expressions", "masks") for cells in cells_of(table)}
    assert [
        name for name in names if f'"{name}"' not in sources and f"{name.rpartition(' ')[0]} {{" not in sources
    ] == []
