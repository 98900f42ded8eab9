"""One program that a command line would run, without its wrappers."""

from functools import cache

from msgspec import Struct

from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.shell.options import Options, parse

STDIN = "<stdin>"
"""Stands for unknown arguments from a pipe."""


class Invocation(Struct, frozen=True):
    """A program, its arguments, and the known part of its context."""

    argv: tuple[str, ...]
    """Program name and arguments; empty for a command of redirections only."""

    stdin: str | None = None
    """The input, if the command line contains it."""

    reads: str = ""
    """The file that is redirected to the input."""

    writes: tuple[tuple[str, str], ...] = ()
    """Operator and file of each output redirection."""

    cwd: str | None = None
    """The canonical working directory; None: the unknown working directory of the session."""

    start: str | None = None
    """The canonical working directory of the session, if known."""

    assigned: tuple[str, ...] = ()
    """`NAME=value` before the program, or exported earlier."""

    upstream: "Invocation | None" = None
    """The program whose output is piped into this one."""

    on: str = ""
    """The other machine, or the container, on which it runs."""

    called: str = ""
    """The program as written, with its directory."""

    @property
    def name(self) -> str:
        """The program's name without its directory."""
        return self.argv[0].rpartition("/")[2] if self.argv else ""

    def path(self, argument: str) -> str:
        """Return the canonical form of an argument that names a file."""
        return argument if argument == STDIN else canonical(argument, self.cwd)

    def before_dashes(self) -> tuple[str, ...]:
        """Return the arguments before `--`, where `--help` and `--dry-run` are options and not operands."""
        arguments = self.argv[1:]
        return arguments[: arguments.index("--")] if "--" in arguments else arguments

    def options(self, takes_value: str = "", *, single_dash_words: bool = False) -> Options:
        """Return the parsed arguments. `takes_value` lists the options whose value is the next word."""
        return parse(self.argv[1:], _names(takes_value), single_dash_words=single_dash_words)


@cache
def _names(options: str) -> frozenset[str]:
    return frozenset(options.split())
