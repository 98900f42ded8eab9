"""One program that a command line would run, after all that wraps it was taken off."""

from msgspec import Struct

from haltline.detectors.commands.paths import canonical

STDIN = "<stdin>"
"""Stands for arguments that come down a pipe and are not known."""


class Invocation(Struct, frozen=True):
    """A program, its arguments, and what is known of its surroundings."""

    argv: tuple[str, ...]
    """Name first; empty for a command that is redirections only."""

    stdin: str | None = None
    """What it reads, where that is written in the command line."""

    reads: str = ""
    """The file that its input comes from."""

    writes: tuple[tuple[str, str], ...] = ()
    """Operator and file of each output redirection."""

    cwd: str | None = None
    """Where it runs, canonical; None: where the session stands, and that is not known."""

    start: str | None = None
    """Where the session stands, canonical, where that is known."""

    assigned: tuple[str, ...] = ()
    """`NAME=value` before it, or exported earlier."""

    upstream: "Invocation | None" = None
    """The program whose output it reads."""

    called: str = ""
    """The program as it was written, with its folder."""

    @property
    def name(self) -> str:
        """The program's name without its folder."""
        return self.argv[0].rpartition("/")[2] if self.argv else ""

    def path(self, argument: str) -> str:
        """An argument that names a file, canonical."""
        return argument if argument == STDIN else canonical(argument, self.cwd)

    def before_dashes(self) -> tuple[str, ...]:
        """The arguments up to `--`, where `--help` and `--dry-run` are options and not operands."""
        arguments = self.argv[1:]
        return arguments[: arguments.index("--")] if "--" in arguments else arguments
