"""MkDocs hook: links to code lead to copies of it, and the page of rules is made from the detectors themselves."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from haltline.detectors import PATTERNS
from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.setting_schema import schema_of
from haltline.interventions.levels.default_levels import default_level, default_mode
from haltline.schemas.findings import Severity

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
_PART = re.compile(r"(?m)^(Fires|Quiet|Misses):\s")
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of rules, and each file that a page links to. As text, so that a browser shows it."""
    files.append(File.generated(config, "rules.md", content=rules_page()))
    pages = Path(config.docs_dir).rglob("*.md")
    linked = {_code(page, path) for page in pages for path, _ in _LINK.findall(page.read_text(encoding="utf-8"))}
    for path in sorted(
        path for path in linked if path is not None
    ):  # what is missing stays a broken link, and fails the build
        files.append(File.generated(config, _copy_of(path), abs_src_path=str(_ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Point the links at the copies. Anchors belong to rendered pages, and a copy is plain text."""
    source = Path(page.file.abs_src_path or "")
    up = "../" * page.file.src_uri.count("/")

    def leads(link: re.Match[str]) -> str:
        path = _code(source, link[1])
        return link[0] if path is None else f"]({up}{_copy_of(path)})"

    return _LINK.sub(leads, markdown)


def _code(page: Path, link: str) -> str | None:
    """The path of the file outside of docs/ that a page's link leads to, from the root; None for every other link."""
    target = (page.parent / link).resolve()
    outside = target.is_file() and target.is_relative_to(_ROOT) and not target.is_relative_to(_ROOT / "docs")
    return target.relative_to(_ROOT).as_posix() if outside else None


def rules_page() -> str:
    """Every rule with its docstring, default levels and settings, as Markdown."""
    head = (
        "# Rules and settings\n\nMade from the detectors' docstrings and settings when this site is built. "
        "[Detectors](detectors.md) is the overview. A policy sets them under `rules:`.\n"
    )
    return "\n".join([head, *(line for rule in sorted(PATTERNS) for line in _rule(PATTERNS[rule]))])


def _rule(pattern: type[Pattern[Any]]) -> Iterator[str]:
    summary, *parts = _PART.split(inspect.getdoc(inspect.getmodule(pattern)) or "")
    yield f"## {pattern.id}\n\n{_plain(summary)}\n"
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield f"**{name}:** {_plain(text)}\n"
    state = "Off unless a policy names it. " if pattern.optional else ""
    levels = ", ".join(f"{one.value} {default_level(pattern.id, one).value}" for one in Severity)
    yield f"{state}Mode: {default_mode(pattern.id).value}. Levels: {levels}.\n"
    settings = schema_of(pattern)["properties"]
    if settings:
        yield "| setting | default | bounds | stricter | meaning |\n| --- | --- | --- | --- | --- |"
        for name, setting in settings.items():
            bounds = ", ".join(f"{words} {setting[key]}" for key, words in _BOUNDS.items() if key in setting)
            default = f"`{setting['default']}`" if "default" in setting and len(str(setting["default"])) < 80 else ""
            cells = (f"`{name}`", default, bounds, setting["x-stricter"], _plain(setting.get("description", "")))
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""


def _plain(text: str) -> str:
    """One paragraph, without the line breaks of the source."""
    return " ".join(text.split()).replace("<", "&lt;")


def _copy_of(path: str) -> str:
    return f"source/{path}.txt"
