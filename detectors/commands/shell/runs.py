"""Texts and programs that a program runs in turn: `ssh`, `su`, `xargs`, `parallel`, `find -exec`, `eval`, `trap`.

Misses: the limits of `wrappers` and `carriers`; items that only the run time shows.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from haltline.detectors.commands.model import MAX_COMMAND_CHARS
from haltline.detectors.commands.shell import pipes, wrappers
from haltline.detectors.commands.shell.carriers import CARRIERS, carried
from haltline.detectors.commands.shell.expand import MAX_VALUE_CHARS
from haltline.detectors.commands.shell.finder import find_commands, find_results
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.detectors.commands.step_budget import StepBudget

_MAX_ITEMS = 128
"""The maximum number of piped items that are each inserted into a command line."""


class Run(NamedTuple):
    """A text, or a program with its arguments, that another program runs."""

    text: str = ""
    argv: tuple[str, ...] = ()
    is_remote: bool = False
    is_here: bool = False
    """In the same shell rather than in a child process."""
    is_fed: bool = False
    """It reads the input of the program that runs it."""
    on: str = ""
    """The machine, if it is remote and named."""


Runner = Callable[[Invocation, StepBudget], Iterator[Run]]


def runs(invocation: Invocation, work: StepBudget) -> Iterator[Run]:
    """Yield what a program runs, in order."""
    runner = _RUNNERS.get(invocation.name)
    if runner is not None:
        yield from runner(invocation, work)
    carrier = CARRIERS.get(invocation.name.lower())
    texts = carried(invocation) if len(invocation.argv) > 1 and runner is not _ssh else []
    for text in texts if carrier is None else (*carrier(invocation), *texts):
        if text:
            yield Run(text)


def _option(*names: str, remote: bool = False) -> Runner:
    """Return a runner of programs with an option whose value is a command line."""

    def run(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
        script = parse(invocation.argv[1:], frozenset(names)).value(*names)
        if script:
            yield Run(script, is_remote=remote)

    return run


def _ssh(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
    text, reads_input = wrappers.ssh_script(invocation.argv)
    words = text.split() if text is not None else []
    if invocation.stdin is not None and words and words[0] in wrappers.SHELLS and "-c" not in words:
        reads_input = True
    script = invocation.stdin if reads_input else text
    if script is not None:
        yield Run(script, is_remote=True, is_fed=not reads_input, on=wrappers.ssh_host(invocation.argv))


def _source(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
    if invocation.argv[1:2] == ("/dev/stdin",) and invocation.stdin is not None:
        yield Run(invocation.stdin, is_here=True)


def _eval(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
    yield Run(" ".join(invocation.argv[1:]), is_here=True)


def _watch(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
    yield Run(wrappers.watch_script(invocation.argv))


def _trap(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
    if len(invocation.argv) > 2:
        yield Run(invocation.argv[1])


def _xargs(invocation: Invocation, work: StepBudget) -> Iterator[Run]:
    argv, placeholder = wrappers.xargs_command(invocation.argv)
    each = pipes.items(invocation.upstream, invocation.stdin, by_line=placeholder != "")
    return _with_items(argv, placeholder, each, work)


def _parallel(invocation: Invocation, work: StepBudget) -> Iterator[Run]:
    argv, written = wrappers.parallel_command(invocation.argv)
    each = pipes.items(invocation.upstream, invocation.stdin) if written is None else written
    return _with_items(argv, "{}", each, work)


def _find(invocation: Invocation, work: StepBudget) -> Iterator[Run]:
    results = find_results(invocation)
    for argv in find_commands(invocation):
        yield from _with_items(argv, "{}", results, work)


def _with_items(argv: tuple[str, ...], placeholder: str, items: tuple[str, ...], work: StepBudget) -> Iterator[Run]:
    """Yield a program with external items in place of a placeholder, or after its arguments."""
    if not argv:
        return
    if len(items) > _MAX_ITEMS:
        work.cut = True
    if len(argv) == 1 and " " in argv[0] and "{" not in placeholder + argv[0]:
        argv = (argv[0] + " {}",)
    if " " in argv[0]:  # a whole command line, as `parallel` accepts
        for item in items[:_MAX_ITEMS]:
            yield Run(" ".join(argv).replace("{}", item))
    elif placeholder and any(placeholder in argument for argument in argv):
        for item in items[:_MAX_ITEMS]:
            # An unknown item may also be a name within a text: `mysql -e "DROP TABLE {}"`.
            whole = item[:MAX_VALUE_CHARS]
            inside = whole.strip("<>")
            filled = tuple(a.replace(placeholder, whole if a == placeholder else inside) for a in argv)
            if sum(map(len, filled)) > MAX_COMMAND_CHARS:
                return
            yield Run(argv=filled)
    else:
        yield Run(argv=(*argv, *items))


_RUNNERS: Mapping[str, Runner] = {
    "eval": _eval,
    **dict.fromkeys(("source", "."), _source),
    "watch": _watch,
    "trap": _trap,
    "ssh": _ssh,
    **dict.fromkeys(("su", "runuser"), _option("-c", "--command")),
    "vagrant": _option("-c", "--command", remote=True),
    "gcloud": _option("--command", remote=True),
    **dict.fromkeys(("fly", "flyctl"), _option("-C", "--command", remote=True)),
    "xargs": _xargs,
    "parallel": _parallel,
    "find": _find,
}
