"""Rows that say what a call does, by domain: text files with a line for each, of which every head says the form.

Misses: nothing of its own; each file's reader says what it misses.
"""

from collections import defaultdict
from functools import cache
from importlib.resources import files
from itertools import chain

from haltline.schemas import expressions as re

_BAR = re.compile(r"\s\|(?=\s|$)")


def rows_of(name: str) -> list[str]:
    """Return the lines of `NAME.txt` without blank ones, comments, which begin with `#`, and indented examples."""
    return [line for line in _lines(name) if not line.startswith((" ", "#"))]


def cells_of(name: str) -> list[list[str]]:
    """Return the cells of the lines of `NAME.txt`, which a bar between blanks separates."""
    return [cells(line) for line in rows_of(name)]


def cells(line: str) -> list[str]:
    """Return the cells of a line."""
    return [cell.strip() for cell in _BAR.split(line)]


def words_of(name: str) -> frozenset[str]:
    """Return a set of `words.txt`."""
    return frozenset(texts_of(name))


def texts_of(name: str) -> tuple[str, ...]:
    """Return the words of a line of `words.txt` in their order; `@name` there stands for those of another line."""
    return _words()[name]


def expression_of(name: str, flags: int = 0) -> re.Pattern[str]:
    """Return the expression with these alternatives, in `expressions.txt`."""
    return re.compile("|".join(_alternatives()[name]), flags)


@cache
def _words() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, words in cells_of("words"):
        each = (found[word[1:]] if word[0] == "@" and word[1:] else (word.replace("·", " "),) for word in words.split())
        found[name] = tuple(dict.fromkeys(chain.from_iterable(each)))
    return found


@cache
def _alternatives() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, alternative in cells_of("expressions"):
        found[name].append(alternative)
    return dict(found)


def examples_of(name: str) -> list[tuple[str, bool, str]]:
    """Return the examples of `NAME.txt`: the row, whether it applies, and a command line."""
    found: list[tuple[str, bool, str]] = []
    row = ""
    for line in _lines(name):
        mark, _, example = line.strip().partition(" ")
        if not line.startswith((" ", "#")):
            row = line
        elif line.startswith(" ") and mark in ("+", "-"):
            found.append((row, mark == "+", example))
    return found


def place_of(row: str) -> str:
    """Return the file and line of a row, as `commands/rows/git.txt:12`; the folder if it is in none."""
    for file in files(__name__).iterdir():
        text = file.read_text(encoding="utf-8") if file.name.endswith(".txt") else ""
        for number, line in enumerate(text.splitlines(), 1):
            if line.partition(" #")[0].strip() == row:
                return f"commands/rows/{file.name}:{number}"
    return "commands/rows"


def _lines(name: str) -> list[str]:
    text = files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return [line.rstrip() for line in text.splitlines() if line.strip()]
