"""The words by which calls and their results are known: the rows of `commands/rows/vocabulary.txt`."""

from functools import cache

from haltline.detectors.commands.rows import cells_of


def set_of(name: str) -> frozenset[str]:
    """Return a set of words."""
    return frozenset(texts_of(name))


def texts_of(name: str) -> tuple[str, ...]:
    """Return the words in their order."""
    return _rows()[name]


@cache
def _rows() -> dict[str, tuple[str, ...]]:
    return {name: tuple(word.replace("·", " ") for word in words.split()) for name, words in cells_of("vocabulary")}
