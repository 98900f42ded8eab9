"""Texts that an expression may read slowly, taken from the expression itself: what it repeats, again and again."""

import importlib
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

sre: Final[Any] = importlib.import_module("re._constants")
_parser: Final[Any] = importlib.import_module("re._parser")
_REPEATS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_OF_CATEGORY: Final = {
    sre.CATEGORY_DIGIT: (r"\d", "1"),
    sre.CATEGORY_NOT_DIGIT: (r"\D", "a "),
    sre.CATEGORY_SPACE: (r"\s", " \n"),
    sre.CATEGORY_NOT_SPACE: (r"\S", "a#"),
    sre.CATEGORY_WORD: (r"\w", "a1_"),
    sre.CATEGORY_NOT_WORD: (r"\W", " #"),
}
_LIKELY: Final = "a =\n#1\"'(/\\.-"
_LONGEST_CHARS: Final = 400
_MOST: Final = 24
_FAILS: Final = "\0"
"""What most expressions do not match, at the end of each text."""

Nodes = Iterable[tuple[Any, Any]]


def text(start: str, unit: str, length: int) -> str:
    """Return a text of this length: a beginning, a unit as often as there is space, and what fails to match."""
    return (start + unit * (length // len(unit) + 1))[: length - 1] + _FAILS


def units(pattern: str, flags: int) -> list[tuple[str, str]]:
    """Return some of the beginnings and units for an expression: at most `_MOST`, always the same."""
    found = list(dict.fromkeys(_units(pattern, flags)))
    return found if len(found) <= _MOST else random.Random(pattern).sample(found, _MOST)


def _units(pattern: str, flags: int) -> Iterator[tuple[str, str]]:
    nodes = _parser.parse(pattern, flags)
    characters: dict[str, None] = {}
    for start, unit in (*_repeated(nodes, ""), *(("", _sample(nodes, way)) for way in range(3))):
        for one in (unit, unit[:-1], unit[:1]):
            if 0 < len(one) < _LONGEST_CHARS:
                yield start[:_LONGEST_CHARS], one
        characters.update(dict.fromkeys(unit))
    yield from (("", character) for character in list(characters)[:30])


def _repeated(nodes: Nodes, start: str) -> Iterator[tuple[str, str]]:
    """Yield what is repeated after which beginning, and each beginning as repeated itself."""
    for kind, value in nodes:
        one = [(kind, value)]
        if kind in _REPEATS:
            for way in range(4):
                yield start, _sample(value[2], way)
                yield "", start + _sample(value[2], way)
        for inner in _inner(kind, value):
            yield from _repeated(inner, start)
        if kind is sre.IN:
            yield from (("", character) for character in _members(value))
        start += _sample(one, 1)
        yield "", start


def _inner(kind: Any, value: Any) -> Iterable[Nodes]:
    if kind in _REPEATS:
        return (value[2],)
    if kind is sre.SUBPATTERN:
        return (value[3],)
    if kind in (sre.ASSERT, sre.ASSERT_NOT):
        return (value[1],)
    if kind is sre.ATOMIC_GROUP:
        return (value,)
    return value[1] if kind is sre.BRANCH else ()


def _sample(nodes: Nodes, way: int) -> str:
    """Return a text that the nodes match, more or less: by the first ways through them, or by others."""
    return "".join(_of_node(kind, value, way) for kind, value in nodes)


def _of_node(kind: Any, value: Any, way: int) -> str:
    if kind is sre.LITERAL:
        return chr(value)
    if kind in (sre.IN, sre.NOT_LITERAL, sre.ANY):
        members = _members(value if kind is sre.IN else [(sre.NEGATE, None), (sre.LITERAL, value or 0)])
        return str(members[way % len(members)])
    if kind in _REPEATS:
        least, most, repeated = value
        return _sample(repeated, way) * int(min(max(least, way % 2 if most else 0), 50))
    if kind is sre.BRANCH:
        return _sample(value[1][way % len(value[1])], way)
    if kind in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
        return "".join(_sample(inner, way) for inner in _inner(kind, value))
    return ""


def _members(items: Nodes) -> str:
    """Return some characters of a set."""
    listed = ""
    excluded = None
    for kind, value in items:
        if kind is sre.NEGATE:
            excluded = ""
            continue
        if kind is sre.CATEGORY:
            every, some = _OF_CATEGORY[value]
        elif kind is sre.RANGE:
            every, some = f"[{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}]", chr(value[0]) + chr(value[1])
        else:
            every, some = re.escape(chr(value)), chr(value)
        listed += some
        if excluded is not None:
            excluded += f"|{every}"
    if excluded is None:
        return listed
    return "".join(one for one in _LIKELY if re.fullmatch(excluded[1:], one) is None) or "é"
