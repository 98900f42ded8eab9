"""Files of other projects that the console's pages use are those that were published."""

import hashlib
import tomllib
from pathlib import Path

import pytest

VENDORED = Path(__file__).resolve().parents[2] / "console" / "pages" / "static" / "vendor"


@pytest.mark.parametrize("folder", [pytest.param(one, id=one.name) for one in sorted(VENDORED.iterdir())])
def test_every_vendored_file_is_the_one_that_was_published_and_has_a_licence(folder: Path) -> None:
    kept = tomllib.loads((folder / "VENDORED.toml").read_text(encoding="utf-8"))
    assert {"name", "version", "licence", "source"} <= set(kept)
    files = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in folder.iterdir()}
    del files["VENDORED.toml"]
    assert files == kept["sha256"]
    assert "LICENSE.txt" in files
