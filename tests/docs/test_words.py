"""The code is written in the words that the pages use: names, comments, docstrings, messages."""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.retired import KEPT, NAMES, RETIRED

FOLDERS = ("cli", "console", "detectors", "interventions", "schemas", "src", "streams")
FILES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))


@cache
def tokens(file: Path) -> tuple[tokenize.TokenInfo, ...]:
    return tuple(tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline))


def names(file: Path) -> Iterator[tuple[str, str]]:
    """Each name with its file and line."""
    for token in tokens(file):
        if token.type == tokenize.NAME:
            yield token.string, f"{file.relative_to(ROOT)}:{token.start[0]}"


def texts(file: Path) -> Iterator[tuple[str, str]]:
    """Each comment and string with its file and line."""
    for token in tokens(file):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string, f"{file.relative_to(ROOT)}:{token.start[0]}"


def test_no_name_is_a_retired_word() -> None:
    """Fields that are persisted or part of the API, in KEPT, have the names that they always had."""
    found = {
        name: place
        for file in FILES
        for name, place in names(file)
        if name not in KEPT and not NAMES.isdisjoint(name.lower().split("_"))
    }
    assert found == {}


@pytest.mark.parametrize("pattern", RETIRED, ids=RETIRED.get)
def test_no_comment_docstring_or_message_uses_a_retired_word(pattern: str) -> None:
    search = re.compile(pattern, re.I).search
    found = {place: text[:200] for file in FILES for text, place in texts(file) if search(text) and text not in KEPT}
    assert found == {}, f"retired: {pattern}; write instead: {RETIRED[pattern]}"


def test_a_retired_word_would_be_found(tmp_path: Path) -> None:
    file = ROOT / "tests" / "docs" / "retired.py"
    assert any(NAMES & set(text.strip('"').split()) for text, _ in texts(file))
