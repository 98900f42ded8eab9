"""MkDocs hook: links to code lead to copies of it, and what code or results say is made from them.

A page has `<!-- generated: NAME -->` where a table of `TABLES` stands on the site, and marks of the benchmarks where
figures do.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from benchmarks.reporting import tables
from benchmarks.reporting.report import load
from haltline.cli.settings_table import SECTIONS, SETTINGS
from haltline.detectors import PATTERNS
from haltline.detectors.cross_session import ACROSS_BY_ID
from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.setting_schema import schema_of
from haltline.interventions.levels.default_levels import default_level, default_mode
from haltline.schemas.findings import Severity
from haltline.streams.runtime.metrics import METRICS, PREFIX
from tests.conformance.table import table as capabilities_table
from tests.ladder.ladder import table as ladder_table

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
_PART = re.compile(r"(?m)^(Fires|Quiet|Misses):\s")
_GENERATED = re.compile(r"<!-- generated: ([a-z-]+) -->")
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
    """Fill in what is generated, and point links at copies, which are plain text and have no anchors."""
    markdown = _GENERATED.sub(lambda mark: TABLES[mark[1]](), tables.written(markdown, load(tables.COMMITTED)))
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


def settings_tables() -> str:
    """The table of each section of haltline.toml, under its heading."""
    columns = ("key", "variable", "value", "meaning", "left out")
    return "\n".join(
        f"### [{section}]\n\n{text}\n\n"
        + _table(
            columns,
            (
                (f"`{one.key}`", f"`{one.variable}`", one.kind, one.help, one.default)
                for one in SETTINGS
                if one.section == section
            ),
        )
        for section, text in SECTIONS.items()
    )


def metrics_table() -> str:
    """Every metric of every process."""
    rows = (
        (f"`{PREFIX}{one.name}`", one.kind.__name__.lower(), ", ".join(f"`{label}`" for label in one.labels), one.help)
        for one in METRICS
    )
    return _table(("metric", "kind", "labels", "meaning"), rows)


def detectors_table(*, across: bool) -> str:
    """The rules within a session, or across sessions: what each finds, and what it does by default."""
    chosen = [pattern for rule, pattern in sorted(PATTERNS.items()) if (rule in ACROSS_BY_ID) == across]
    rows = (
        (f"[`{one.id}`](rules.md#{one.id})", _plain(_parts(one)[0]), ", ".join(_levels(one)), _mode(one))
        for one in chosen
    )
    return _table(("rule", "finds", "levels", "mode"), rows)


TABLES: Final[dict[str, Callable[[], str]]] = {
    "settings": settings_tables,
    "metrics": metrics_table,
    "detectors": lambda: detectors_table(across=False),
    "detectors-across": lambda: detectors_table(across=True),
    "capabilities": capabilities_table,
    "ladder": ladder_table,
}


def rules_page() -> str:
    """Every rule with its docstring, default levels and settings, as Markdown."""
    head = (
        "# Rules and settings\n\nMade from the detectors' docstrings and settings when this site is built. "
        "[Detectors](detectors.md) is the overview. A policy sets them under `rules:`.\n"
    )
    return "\n".join([head, *(line for rule in sorted(PATTERNS) for line in _rule(PATTERNS[rule]))])


def _rule(pattern: type[Pattern[Any]]) -> Iterator[str]:
    summary, *parts = _parts(pattern)
    yield f"## {pattern.id}\n\n{_plain(summary)}\n"
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield f"**{name}:** {_plain(text)}\n"
    levels = ", ".join(f"{one.value} {default_level(pattern.id, one).value}" for one in Severity)
    yield f"Mode: {_mode(pattern)}. Levels: {levels}.\n"
    settings = schema_of(pattern)["properties"]
    if settings:
        yield _table(
            ("setting", "default", "bounds", "stricter", "meaning"), map(_setting, settings, settings.values())
        )


def _setting(name: str, setting: dict[str, Any]) -> Sequence[str]:
    bounds = ", ".join(f"{words} {setting[key]}" for key, words in _BOUNDS.items() if key in setting)
    default = f"`{setting['default']}`" if "default" in setting and len(str(setting["default"])) < 80 else ""
    return f"`{name}`", default, bounds, setting["x-stricter"], _plain(setting.get("description", ""))


def _parts(pattern: type[Pattern[Any]]) -> list[str]:
    """The docstring of its module: the summary, then names and texts in turns."""
    return _PART.split(inspect.getdoc(inspect.getmodule(pattern)) or "")


def _mode(pattern: type[Pattern[Any]]) -> str:
    return default_mode(pattern.id).value + (", off unless a policy names it" if pattern.optional else "")


def _levels(pattern: type[Pattern[Any]]) -> Iterable[str]:
    """Those that its findings lead to, in the order of their severities."""
    return dict.fromkeys(default_level(pattern.id, one).value for one in Severity)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _plain(text: str) -> str:
    """One paragraph, without the line breaks of the source."""
    return " ".join(text.split()).replace("<", "&lt;")


def _copy_of(path: str) -> str:
    return f"source/{path}.txt"
