"""The parts of shell commands: words, substitutions, redirections."""

from typing import Literal, TypeAlias

from msgspec import Struct, field


class Text(Struct, frozen=True):
    """Literal characters."""

    value: str
    quoted: bool


class Variable(Struct, frozen=True):
    """`$NAME`, `${NAME}` or `${NAME:-default}`; `altered` if an operator changes its value."""

    name: str
    quoted: bool
    default: str | None = None
    altered: bool = False


class Substitution(Struct, frozen=True):
    """`$(commands)`, backticks, or the file of `<(commands)`."""

    items: "tuple[Item, ...]"
    quoted: bool
    is_file: bool = False
    """The word is the name of a file with the output: `<(commands)`."""


class Array(Struct, frozen=True):
    """The value of `NAME=(words)`."""

    words: "tuple[Word, ...]"


Part: TypeAlias = Text | Variable | Substitution | Array
Word: TypeAlias = tuple[Part, ...]


class Redirect(Struct, frozen=True):
    """`2>file`, `<file`, `<<<text`; a heredoc has the operator `<<` and its body as target."""

    descriptor: str
    operator: str
    target: Word


class Simple(Struct):
    """One command with its arguments."""

    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    piped: bool = False
    """Its input is the output of the previous command."""


Item: TypeAlias = Simple | Literal["(", ")"]
