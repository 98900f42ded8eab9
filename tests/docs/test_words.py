"""The code is written in the words that the pages use: names, comments, docstrings, messages."""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT
from tests.docs.retired import RETIRED

FOLDERS = ("cli", "console", "detectors", "examples", "interventions", "schemas", "src", "streams")
FILES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
PAGES = sorted(
    file
    for ending in ("*.js", "*.html")
    for file in (ROOT / "console" / "pages").rglob(ending)
    if "vendor" not in file.parts  # a library's own words
)
SCRIPTS = sorted(
    file
    for folder in ("examples", "clients/typescript/examples", "clients/typescript/src")
    for file in (ROOT / folder).rglob("*.*")
    if file.suffix in {".go", ".java", ".mjs", ".ts"}
)
DOCUMENTS = [ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "clients/typescript/README.md"]
"""Those that test_pages.py does not read."""
SHOWN = re.compile(r"/\*(?s:.*?)\*/|//.*|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`|>[^<>]+<")
"""Comments and texts of a page or a script: what is between quotation marks, and between tags."""


@cache
def tokens(file: Path) -> tuple[tokenize.TokenInfo, ...]:
    return tuple(tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline))


def texts(file: Path, of: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Each comment and string with its file and line, of a file in which there is something of a pattern."""
    for token in tokens(file) if of.search(file.read_text(encoding="utf-8")) else ():
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string, f"{file.relative_to(ROOT)}:{token.start[0]}"


def shown(file: Path) -> tuple[tuple[str, str], ...]:
    """Each comment and text of JavaScript, HTML, TypeScript, Go or Java with its file and line."""
    source = file.read_text(encoding="utf-8")
    where = file.relative_to(ROOT)
    return tuple(
        (found[0], f"{where}:{source.count(chr(10), 0, found.start()) + 1}") for found in SHOWN.finditer(source)
    )


def used(of: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Each comment, string and text, and each line of a document, with its file and line; of code like `texts`."""
    for file in FILES:
        yield from texts(file, of)
    for file in (*PAGES, *SCRIPTS):
        yield from shown(file)
    for file in DOCUMENTS:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            yield line, f"{file.relative_to(ROOT)}:{number}"


def test_no_comment_docstring_or_message_uses_a_retired_word() -> None:
    any_of_them = re.compile("|".join(f"(?:{pattern})" for pattern in RETIRED), re.I)
    suspicious = [(text, place) for text, place in used(any_of_them) if any_of_them.search(text)]
    found = {
        place: f"retired: {pattern}; write instead: {instead}: {text[:200]}"
        for pattern, instead in RETIRED.items()
        for text, place in suspicious
        if re.search(pattern, text, re.I)
    }
    assert found == {}


CODE = sorted(file for folder in (*FOLDERS, "benchmarks", "tests") for file in (ROOT / folder).rglob("*.py"))
NAMED = re.compile(
    rf"`(?:python -m )?(?:haltline\.)?((?:{'|'.join((*FOLDERS, 'benchmarks', 'tests'))})(?:\.\w+)+)"
    rf"|\b((?:{'|'.join((*FOLDERS, 'benchmarks', 'tests'))})(?:/\w+)+)\.py\b"
)
"""A module with dots, of which the last names may be of something in it; or the path of one."""


def exists(named: str) -> bool:
    """Whether it is a module, or a name in one."""
    module, rest = ROOT, named.split(".")
    while rest and (module / rest[0]).is_dir():
        module /= rest.pop(0)
    if rest and (module / f"{rest[0]}.py").is_file():
        module = module / f"{rest.pop(0)}.py"
    elif module != ROOT:
        module /= "__init__.py"
    return not rest or (module.is_file() and rest[0] in {token.string for token in tokens(module)})


def test_modules_that_comments_and_docstrings_name_exist() -> None:
    gone = [
        f"{place}: {named}"
        for file in CODE
        for text, place in texts(file, NAMED)
        if text.startswith(("#", '"""'))
        for dotted, path in NAMED.findall(text)
        if not exists(named := dotted or path.replace("/", "."))
    ]
    assert gone == []
