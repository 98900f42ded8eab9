"""The table of settings on its page is that of the parser. To write it: python -m tests.docs.test_configuration."""

import re
from pathlib import Path

from haltline.cli.settings_file import read
from haltline.cli.settings_table import SECTIONS, SETTINGS
from tests.docs.pages import DOCS, between, fences

PAGE = DOCS / "configuration.md"


def table() -> str:
    """The table of each section, as Markdown."""
    lines = []
    for section, text in SECTIONS.items():
        lines += [
            f"### [{section}]",
            "",
            text,
            "",
            "| key | variable | value | meaning | left out |",
            "| --- " * 5 + "|",
        ]
        for one in (setting for setting in SETTINGS if setting.section == section):
            lines.append(f"| `{one.key}` | `{one.variable}` | {one.kind} | {one.help} | {one.default} |")
        lines.append("")
    return "\n".join(lines)


def test_the_table_of_settings_is_that_of_the_parser() -> None:
    assert between(PAGE, "settings") == table(), "python -m tests.docs.test_configuration writes it"


def test_the_file_of_the_page_is_one(tmp_path: Path) -> None:
    (document,) = (content for language, content in fences(PAGE) if language == "toml")
    file = tmp_path / "haltline.toml"
    file.write_text(document, encoding="utf-8")
    assert read(str(file))["HALTLINE_AUDIT_TABLE"].value == "s3://audit/haltline"


if __name__ == "__main__":
    new = re.sub(
        r"(<!-- settings -->\n).*(<!-- /settings -->)",
        lambda marks: f"{marks[1]}{table()}{marks[2]}",
        PAGE.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    PAGE.write_text(new, encoding="utf-8")
