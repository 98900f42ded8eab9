"""The values that a small program computes, and the calls that it makes, as far as its text shows them.

Misses: computed numbers; texts that are built character by character.
"""

from dataclasses import dataclass, field
from itertools import islice, product
from typing import NamedTuple

from haltline.detectors.commands.shell.decoding import from_base64
from haltline.schemas import expressions as re

MAX_TEXTS = 64
MAX_TEXT_CHARS = 64 * 1024
_HOLE = re.compile(r"\{(\w*)\}")
_UNKNOWN = ("$",)


class CodeCall(NamedTuple):
    """One relevant call of a program."""

    kind: str
    """`path` or `tree` (a path with everything below it), `shell` or `sql` (a text that is executed), `url` (deleted),
    `thing` (`kind=name`), `away` (a path that is moved), `request` (a URL; `name` is the method), `act:EFFECT`,
    `opaque` (an executed text that is unknown)."""

    name: str
    argument: str


class Value(NamedTuple):
    """The possible values of an expression: texts, the name that it refers to, whether it is a list."""

    texts: tuple[str, ...] = ()
    ref: str = ""
    listed: bool = False
    constant: str = ""
    """The source of a number, a boolean, a null value, `[]` or `{}`."""


NONE = Value()


@dataclass(slots=True)
class CallSite:
    """One call with what it is called on and its arguments."""

    ref: str
    """The full name of what is called: `shutil.rmtree`."""

    base: tuple[str, ...] = ()
    """The texts of the object whose method is called."""

    items: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """The name without its last part."""
        return self.ref.rpartition(".")[0]

    @property
    def last(self) -> str:
        """The last part of the name."""
        return self.ref.rpartition(".")[2]

    @property
    def first(self) -> Value:
        """The first positional argument."""
        return self.items[0] if self.items else NONE

    @property
    def target(self) -> Value:
        """The first argument, positional or by name."""
        return self.items[0] if self.items else next(iter(self.keywords.values()), NONE)

    @property
    def second(self) -> Value:
        """The second positional argument."""
        return self.items[1] if len(self.items) > 1 else NONE

    @property
    def values(self) -> tuple[Value, ...]:
        """All arguments."""
        return (*self.items, *self.keywords.values())

    @property
    def texts(self) -> list[str]:
        """The texts of all arguments."""
        return [text for value in self.values for text in value.texts]


def decoded(text: str) -> str:
    """Return the text that base64 encodes; empty if it is invalid."""
    return from_base64(text) or ""


def formatted(text: str, call: CallSite) -> str:
    """Return `'DROP TABLE {}'.format(name)` with the call's arguments filled in."""
    given = iter(call.items)

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        value = call.keywords.get(name, NONE) if name and not name.isdigit() else next(given, NONE)
        return value.texts[0] if value.texts else found[0]

    return _HOLE.sub(fill, text)[:MAX_TEXT_CHARS]


def joined(one: Value, other: Value) -> tuple[str, ...]:
    """Return the texts of `one + other`, which are those of both for lists."""
    left, right = _known(one), _known(other)
    if one.listed or other.listed:
        return (*left, *right)[:MAX_TEXTS]
    return tuple(f"{a}{b}"[:MAX_TEXT_CHARS] for a, b in islice(product(left, right), MAX_TEXTS))


def joined_paths(parts: list[Value]) -> tuple[str, ...]:
    """Return the paths of `os.path.join(*parts)`; those of a single part are its texts."""
    first, *more = parts
    texts = first.texts
    for part in more:
        left = texts or _known(Value(ref=first.ref))
        pairs = islice(product(left, _known(part)), MAX_TEXTS)
        texts = tuple(b if b.startswith("/") else f"{a.rstrip('/')}/{b}" for a, b in pairs)
    return texts


def _known(value: Value) -> tuple[str, ...]:
    return value.texts or ((f"${value.ref}",) if value.ref else _UNKNOWN)
