"""From programs to what they destroy: one table of readers, one for each program."""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands import cloud, containers, databases, files, git, machine, scripts, stores, system
from haltline.detectors.commands.invocation import Invocation
from haltline.detectors.commands.model import MAX_COMMAND_CHARS, MAX_FOUND, Badness, Destruction
from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.prefilter import may_destroy
from haltline.detectors.commands.shell import invocations
from haltline.detectors.commands.sql import sql_destructions

_MAX_DEPTH = 3

_TOOLS: Mapping[str, Callable[[Invocation], Iterator[Destruction]]] = {
    **files.TOOLS,
    **git.TOOLS,
    **databases.TOOLS,
    **containers.TOOLS,
    **cloud.TOOLS,
    **system.TOOLS,
    **machine.TOOLS,
    **stores.TOOLS,
}
_HELP = frozenset(("--help", "--version"))


def destructions(command: str, *, cwd: str | None = None) -> tuple[Destruction, ...]:
    """What a shell command line would destroy, in its order, each thing once.

    The line may have many lines, heredocs and programs inside. `cwd` is the directory where the session stands, if
    that is known: then relative paths come out absolute. Reads the first 16 KiB. Never raises.
    """
    text = command[:MAX_COMMAND_CHARS]
    # In a device directory even a bare name is a disk: the words alone do not show it.
    if not may_destroy(text) and not (cwd and canonical(cwd).startswith("/dev")):
        return ()
    return parsed_destructions(text, cwd=cwd)


def parsed_destructions(command: str, *, cwd: str | None = None) -> tuple[Destruction, ...]:
    """As `destructions`, without the look that saves most command lines the parsing."""
    found = tuple(dict.fromkeys(_of_command(command, cwd, 0)))
    if len(found) <= MAX_FOUND:
        return found
    severe = tuple(d for d in found if d.badness is Badness.SEVERE)[:MAX_FOUND]
    others = tuple(d for d in found if d.badness is not Badness.SEVERE)
    return severe + others[: MAX_FOUND - len(severe)]


def _of_command(command: str, cwd: str | None, depth: int) -> Iterator[Destruction]:
    for invocation in invocations(command, cwd=cwd):
        yield from files.redirections(invocation)
        if not invocation.argv:
            continue
        if depth < _MAX_DEPTH:
            for call in scripts.calls(invocation):
                yield from _of_call(call, invocation, depth)
        reader = _reader(invocation.name)
        if reader is not None and _HELP.isdisjoint(invocation.before_dashes()):
            yield from reader(invocation)


def _reader(name: str) -> Callable[[Invocation], Iterator[Destruction]] | None:
    return _TOOLS.get("mkfs" if name.startswith("mkfs.") else name)


def _of_call(call: scripts.Call, invocation: Invocation, depth: int) -> Iterator[Destruction]:
    """What a call inside a small program destroys."""
    if call.kind == "shell":
        yield from _of_command(call.argument, invocation.cwd, depth + 1)
    elif call.kind == "sql":
        yield from sql_destructions(call.argument)
    else:
        verb = call.name.rpartition(".")[2]
        yield files.lost_path(verb, invocation, call.argument, everything=call.kind == "tree")
