"""What a shell remembers between its commands, and the builtins that change it.

Misses: `getopts`, `let`, arithmetic; `shopt` and `set` options that change the meaning of later words.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.shell import pipes
from haltline.detectors.commands.shell.expand import MAX_VALUE_CHARS, Environment
from haltline.detectors.commands.shell.invocation import STDIN, Invocation

_MAX_PATH_CHARS = 4096
_MAX_ALIASES = 64
_MAX_EXPORTED = 32


@dataclass(slots=True)
class ShellState:
    """The working directory, the variables and the aliases of a shell."""

    start: str | None
    """The canonical working directory of the session, if known."""

    cwd: str | None
    environment: Environment = field(default_factory=dict)
    exported: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)
    on: str = ""
    """The other machine, or the container, on which it runs."""

    def export(self, *assigned: str) -> None:
        """Set variables, as `NAME=value`, for the programs that follow."""
        self.exported = (*self.exported[-_MAX_EXPORTED:], *assigned)

    def child(self, *, remote: bool = False, on: str = "") -> "ShellState":
        """Return the state of a child process; a remote one has another file system and no variables."""
        if remote:
            return ShellState(None, None, {}, (), self.aliases, on)
        return replace(self, environment=dict(self.environment))


def _cd(state: ShellState, invocation: Invocation) -> None:
    operands = [argument for argument in invocation.argv[1:] if not argument.startswith("-")]
    if not operands:
        state.cwd = state.start if invocation.argv[1:] == ("-",) else "~"
    else:
        moved = canonical(operands[0], state.cwd)
        state.cwd = None if moved == "." or len(moved) > _MAX_PATH_CHARS else moved


def _read(state: ShellState, invocation: Invocation) -> None:
    each = pipes.items(invocation.upstream, invocation.stdin)
    for name in invocation.options("-d -p -t -u -n -N -a").operands:
        state.environment[name] = each
        if each == (STDIN,):
            del state.environment[name]


def _mapfile(state: ShellState, invocation: Invocation) -> None:
    each = pipes.items(invocation.upstream, invocation.stdin, by_line=True)
    for name in invocation.options("-d -n -O -s -u -C -c").operands[:1]:
        state.environment[name] = each


def _set(state: ShellState, invocation: Invocation) -> None:
    if "--" in invocation.argv:
        given = invocation.argv[invocation.argv.index("--") + 1 :]
        state.environment |= {str(at): (value,) for at, value in enumerate(given[:9], 1)}
        state.environment |= {"@": given, "*": given}


def _alias(state: ShellState, invocation: Invocation) -> None:
    for argument in invocation.argv[1:]:
        name, equals, text = argument.partition("=")
        if equals and len(state.aliases) < _MAX_ALIASES:
            state.aliases[name] = text[:MAX_VALUE_CHARS]


def _unset(state: ShellState, invocation: Invocation) -> None:
    for name in invocation.argv[1:]:
        state.environment.pop(name, None)
        state.export(f"{name}=")


def _declare(state: ShellState, invocation: Invocation) -> None:
    for argument in invocation.argv[1:]:
        name, equals, value = argument.partition("=")
        if equals:
            state.environment[name] = (value[:MAX_VALUE_CHARS],)
            state.export(f"{name}={value}")


BUILTINS: Mapping[str, Callable[[ShellState, Invocation], None]] = {
    **dict.fromkeys(("cd", "pushd"), _cd),
    "read": _read,
    **dict.fromkeys(("mapfile", "readarray"), _mapfile),
    "unset": _unset,
    "set": _set,
    "alias": _alias,
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly"), _declare),
}
