"""The pages of the documentation, and the parts of Markdown that the tests need."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pymdownx.slugs import slugify  # type: ignore[import-untyped]  # it ships no types

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
PAGES: Final = [
    README,
    *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *sorted(DOCS.rglob("*.md")),
]
"""Everything that this project's documentation consists of, but for what deploy/ has."""

_FENCE = re.compile(r"(?ms)^( *)(```+)([^\n`]*)\n(.*?)^\1\2 *$")
_SLUG = slugify(case="lower")


def fences(page: Path) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a page: language and content."""
    yield from fences_of(page.read_text(encoding="utf-8"))


def fences_of(text: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a text: language and content."""
    for _, _, language, content in _FENCE.findall(text):
        yield language.strip(), content


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as browsers of repositories and the site make them."""
    found: dict[str, int] = {}
    all_of: set[str] = set()
    for heading in re.findall(r"(?m)^#{1,6} (.+?)\s*$", prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", lambda match: match[1] or "", heading)
        slug = _SLUG(plain, "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        all_of.add(f"{slug}-{count}" if count else slug)
    return all_of


def links(page: Path) -> Iterator[str]:
    """The targets of the page's links and pictures."""
    yield from re.findall(r"\]\(([^)\s]+)\)", prose(page))


def between(page: Path, mark: str) -> str:
    """The text between the two comments of a mark."""
    (found,) = re.findall(rf"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", page.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def rows(table: str) -> list[list[str]]:
    """The rows of a table, without its head."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] for line in table.strip().splitlines()[2:]
    ]
