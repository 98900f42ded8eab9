"""MkDocs hook: links to code lead to copies of it, and the page of rules is made from the detectors themselves."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from haltline.detectors import PATTERNS
from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.setting_schema import schema_of
from haltline.interventions.levels.default_levels import default_level, default_mode
from haltline.schemas.findings import Severity

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")
_PART = re.compile(r"(?m)^(Fires|Quiet|Misses):\s")
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of rules, and each file that a page links to. As text, so that a browser shows it."""
    files.append(File.generated(config, "rules.md", content=rules_page()))
    pages = [page.read_text(encoding="utf-8") for page in Path(config.docs_dir).glob("*.md")]
    for path in sorted({path for page in pages for path, _ in _LINK.findall(page)}):
        if (_ROOT / path).is_file():  # what is missing stays a broken link, and fails the build
            files.append(File.generated(config, _copy_of(path), abs_src_path=str(_ROOT / path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point the links at the copies. Anchors belong to rendered pages, and a copy is plain text."""
    return _LINK.sub(lambda link: f"]({_copy_of(link[1])})" if (_ROOT / link[1]).is_file() else link[0], markdown)


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
