"""The start and end of loops in a shell text.

Misses: loops whose `done` is in a variable or an alias.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from haltline.detectors.commands.shell.syntax import Item, Simple, Text, Word

RESERVED = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{", "coproc"))
FOR = frozenset(("for", "select"))
_CONDITIONAL = frozenset(("while", "until"))


@dataclass(frozen=True, slots=True)
class Loop:
    """`for name in words; do ... done`."""

    name: str
    words: tuple[Word, ...]
    end: int
    """The index of `done` among the items."""


def literal(word: Word) -> str:
    """Return a word without quotes, variables and substitutions; empty for any other word."""
    part = word[0]
    return part.value if len(word) == 1 and isinstance(part, Text) and not part.quoted else ""


def for_loops(items: Sequence[Item]) -> dict[int, Loop]:
    """Return the `for` loops among the items, by the index of their first item."""
    found: dict[int, Loop] = {}
    waiting: list[tuple[int, list[Word], int]] = []
    for index, item in enumerate(items):
        if not isinstance(item, Simple):
            continue
        for at, word in enumerate(item.words):
            keyword = literal(word)
            if keyword in FOR or keyword in _CONDITIONAL:
                waiting.append((index, item.words, at))
            elif keyword == "done" and waiting:
                start, head, first = waiting.pop()
                if literal(head[first]) in FOR and len(head) > first + 2 and literal(head[first + 2]) == "in":
                    found[start] = Loop(literal(head[first + 1]), tuple(head[first + 3 :]), index)
            if keyword in FOR or keyword not in RESERVED:
                break
    return found
