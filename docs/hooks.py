"""MkDocs hook: a link from a page to a file of the repository leads to a copy of that file in the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add each file that a page links to. As text, so that a browser shows it."""
    pages = [page.read_text(encoding="utf-8") for page in Path(config.docs_dir).glob("*.md")]
    for path in sorted({path for page in pages for path, _ in _LINK.findall(page)}):
        if (_ROOT / path).is_file():  # what is missing stays a broken link, and fails the build
            files.append(File.generated(config, _copy_of(path), abs_src_path=str(_ROOT / path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point the links at the copies. Anchors belong to rendered pages, and a copy is plain text."""
    return _LINK.sub(lambda link: f"]({_copy_of(link[1])})" if (_ROOT / link[1]).is_file() else link[0], markdown)


def _copy_of(path: str) -> str:
    return f"source/{path}.txt"
