import pytest

from haltline.detectors.commands.model import Badness
from haltline.detectors.commands.tool_name_severity import badness, target

SCRATCH, PLAIN, SEVERE = Badness


@pytest.mark.parametrize(
    ("action", "what", "expected"),
    [
        ("delete_asset", "asset_id=fact_sales", PLAIN),
        ("delete_asset", "asset_id=tmp_sales", SCRATCH),
        ("delete_asset", "asset_id=prod_sales", SEVERE),
        ("drop_table", "database=sales,schema=public,table=orders", PLAIN),
        ("drop_table", "database=prod,schema=public,table=orders", SEVERE),
        ("drop_database", "name=sales", SEVERE),
        ("drop_database", "name=test_sales", SCRATCH),
        ("delete", "bucket=sales", SEVERE),
        ("delete_bucket", "name=sales", SEVERE),
        ("delete_backup", "id=7", SEVERE),
        ("delete_file", "path=/srv/data/x.csv", PLAIN),
        ("delete_folder", "path=node_modules", SCRATCH),
        ("delete_folder", "path=/", SEVERE),
        ("truncate_table", "unknown", PLAIN),
    ],
)
def test_badness(action: str, what: str, expected: Badness) -> None:
    assert badness(action, what) is expected


def test_targets_in_canonical_form() -> None:
    assert target("asset_id", 7) == "asset_id=7", "a number"
    assert target("path", "/srv//data/./x/") == "path=/srv/data/x", "a path"
