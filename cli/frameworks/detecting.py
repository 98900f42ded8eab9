"""Detects the framework of a program or a project."""

import json
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from haltline.cli.frameworks.rows import Framework
from haltline.cli.frameworks.source import CannotEdit, Source, normal
from haltline.cli.frameworks.table import FRAMEWORKS

MAX_BYTES: Final = 1_000_000
"""Maximum size of a requirements file; a larger one is not read."""
_NAME: Final = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def in_program(text: str) -> list[str]:
    """The frameworks that a program imports, in the table's order; parts of others come last."""
    try:
        modules = Source(normal(text)[0]).modules
    except CannotEdit:
        return []
    return [
        row.name
        for row in FRAMEWORKS.values()
        if any(module == one or module.startswith(f"{one}.") for one in row.imports for module in modules)
    ]


def in_project(folder: Path) -> list[str]:
    """The frameworks that a project's files require, in the table's order."""
    required: set[str] = set()
    for file in [folder / "pyproject.toml", *sorted(folder.glob("requirements*.txt"))[:20]]:
        text = _text_of(file)
        words = _of_pyproject(text) if file.suffix == ".toml" else text.splitlines()
        required |= {_plain(found[1]) for word in words if (found := _NAME.match(word))}
    required |= set(map(_plain, _of_package_json(_text_of(folder / "package.json"))))
    return [row.name for row in FRAMEWORKS.values() if not required.isdisjoint(map(_plain, row.packages))]


def installed() -> list[str]:
    """The frameworks whose libraries are installed in this Python."""
    return [row.name for row in FRAMEWORKS.values() if any(_is_there(one) for one in row.imports)]


def proposed(text: str | None, folder: Path) -> tuple[str, str] | None:
    """The most likely framework and the reason; None: no evidence."""
    found = [] if text is None else in_program(text)
    if found:
        return found[0], "the program imports it"
    if found := in_project(folder):
        return found[0], "this project requires it"
    # haltline's own dependencies are no evidence.
    if text is None and (found := [name for name in installed() if FRAMEWORKS[name].adapter]):
        return found[0], "it is installed"
    return None


def named(text: str) -> Framework:
    """The row with a name or a number. Raises ValueError, which lists the names."""
    names = [*FRAMEWORKS]
    word = text.strip().lower().replace("_", "-")
    if word.isascii() and word.isdigit() and 1 <= int(word[:4]) <= len(names):
        return FRAMEWORKS[names[int(word[:4]) - 1]]
    if word not in FRAMEWORKS:
        raise ValueError(f"expected one of {', '.join(names)}, got {text.strip()[:60]!r}")
    return FRAMEWORKS[word]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # the parent package is missing, or is being imported
        return False


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8") if file.stat().st_size <= MAX_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _of_pyproject(text: str) -> list[str]:
    """The requirements in a pyproject.toml: of the project, its extras, its groups, and Poetry's sections."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    poetry = _table(_table(document, "tool"), "poetry")
    project = _table(document, "project")
    lists = [project.get("dependencies"), *_table(project, "optional-dependencies").values()]
    lists += _table(document, "dependency-groups").values()
    words = [word for one in lists if isinstance(one, list) for word in one if isinstance(word, str)]
    return [*words, *_table(poetry, "dependencies")]


def _of_package_json(text: str) -> list[str]:
    """The packages that a JavaScript project requires."""
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return []
    parts = ("dependencies", "devDependencies", "peerDependencies")
    return [name for part in parts if isinstance(document, dict) for name in _table(document, part)]


def _table(of: dict[str, object], key: str) -> dict[str, object]:
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
