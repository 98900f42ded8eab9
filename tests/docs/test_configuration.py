"""The settings file on its page is valid."""

from pathlib import Path

from haltline.cli.settings_file import read
from tests.docs.pages import DOCS, fences

PAGE = DOCS / "configuration.md"


def test_the_file_of_the_page_is_one(tmp_path: Path) -> None:
    (document,) = (content for language, content in fences(PAGE) if language == "toml")
    file = tmp_path / "haltline.toml"
    file.write_text(document, encoding="utf-8")
    assert read(str(file))["HALTLINE_AUDIT_TABLE"].value == "s3://audit/haltline"
