"""The values in a small program, as far as its text shows them, and the calls that are made with them.

Misses: computed numbers; texts that are built character by character.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice, product
from typing import NamedTuple

MAX_TEXTS = 64
MAX_TEXT_CHARS = 64 * 1024


class CodeCall(NamedTuple):
    """One relevant call of a program."""

    kind: str
    """`path` or `tree` (a path with everything below it), `shell` or `sql` (a text that is executed), `url` (deleted),
    `thing` (`kind=name`), `away` (a path that is moved), `request` (a URL; `name` is the method), `act:EFFECT`,
    `opaque` (an executed text that is unknown)."""

    name: str
    argument: str


class Value(NamedTuple):
    """An expression: its possible texts, the name that it refers to, its named parts."""

    texts: tuple[str, ...] = ()
    ref: str = ""
    """The name with its attributes and calls: `boto3.client.delete_bucket`."""
    listed: bool = False
    constant: str = ""
    """The source of a number, a boolean, a null value, `[]` or `{}`."""
    named: tuple[tuple[str, "Value"], ...] = ()
    """The fields of an object."""


NONE = Value()


@dataclass(slots=True)
class Call:
    """One call with what it is called on and its arguments."""

    ref: str
    base: tuple[str, ...] = ()
    """The texts of the object whose method is called."""
    items: list[Value] = field(default_factory=list)
    named: dict[str, Value] = field(default_factory=dict)
    """The arguments by name, and the fields of objects among the arguments."""

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
        return self.items[0] if self.items else next(iter(self.named.values()), NONE)

    @property
    def texts(self) -> list[str]:
        """The texts of all arguments."""
        return [text for value in (*self.items, *self.named.values()) for text in value.texts]


def joined(one: Value, other: Value) -> Value:
    """Return `one + other`, which has the texts of both for lists."""
    left, right = _known(one), _known(other)
    if one.listed or other.listed:
        return Value((*left, *right)[:MAX_TEXTS], listed=True)
    return Value(tuple(f"{a}{b}"[:MAX_TEXT_CHARS] for a, b in islice(product(left, right), MAX_TEXTS)))


def joined_paths(parts: Iterable[Value]) -> tuple[str, ...]:
    """Return the paths of `os.path.join(*parts)`; those of a single part are its texts."""
    first, *more = parts
    texts = first.texts
    for part in more:
        pairs = islice(product(texts or _known(first), _known(part)), MAX_TEXTS)
        texts = tuple((b if b.startswith("/") else f"{a.rstrip('/')}/{b}")[:MAX_TEXT_CHARS] for a, b in pairs)
    return texts


def _known(value: Value) -> tuple[str, ...]:
    return value.texts or (f"${value.ref}",)
