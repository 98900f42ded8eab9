"""What calls and their results are known by: the rows of `commands/rows/vocabulary.txt` and `expressions.txt`."""

from collections import defaultdict
from functools import cache

from haltline.detectors.commands.rows import cells_of
from haltline.schemas import expressions as re


def set_of(name: str) -> frozenset[str]:
    """Return a set of words."""
    return frozenset(texts_of(name))


def texts_of(name: str) -> tuple[str, ...]:
    """Return the words in their order."""
    return _words()[name]


def expression_of(name: str, flags: int = 0) -> re.Pattern[str]:
    """Return the expression with these alternatives."""
    return re.compile("|".join(_alternatives()[name]), flags)


@cache
def _words() -> dict[str, tuple[str, ...]]:
    return {name: tuple(word.replace("·", " ") for word in words.split()) for name, words in cells_of("vocabulary")}


@cache
def _alternatives() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, alternative in cells_of("expressions"):
        found[name].append(alternative)
    return dict(found)
