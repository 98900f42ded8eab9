"""Texts and programs that a program runs in turn: by the rows of `carriers.txt`, and `ssh`, `xargs`, `find -exec`.

Misses: programs that read the command from a file; keys sent to a terminal one by one; items that only the run time
shows; the limits of `wrappers`.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from haltline.detectors.commands.model import MAX_COMMAND_CHARS
from haltline.detectors.commands.rows import cells_of, expression_of, words_of
from haltline.detectors.commands.shell import pipes, wrappers
from haltline.detectors.commands.shell.decoding import decoded_wide
from haltline.detectors.commands.shell.expand import MAX_VALUE_CHARS
from haltline.detectors.commands.shell.finder import find_commands, find_results
from haltline.detectors.commands.shell.invocation import STDIN, Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_MAX_ITEMS = 128
"""The maximum number of piped items that are each inserted into a command line."""
_MAX_WORDS = 256
_ESCAPED = re.compile(r'\\(["/])')
_REMOVAL = expression_of("a removal inside of an argument")
_FORCED = re.compile(r"-[a-zA-Z]*[rRf][a-zA-Z]*|--recursive|--force")
_FOR_TEXTS = words_of("programs whose arguments are texts")
"""Programs that search for, print or store their arguments, and those whose arguments are parsed as commands anyway."""
_WITH_RM = words_of("programs with an rm of their own")
"""Programs with an `rm` subcommand."""
_OF_START_PROCESS = frozenset(("-argumentlist", "-filepath", "-wait", "-nonewwindow"))
_EACH = re.compile(r"\$_(?:\.\w+)*|\$PSItem(?:\.\w+)*")


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


class _Row(NamedTuple):
    """One line of `carriers.txt`."""

    options: frozenset[str]
    where: frozenset[str]
    pattern: re.Pattern[str] | None

    def texts(self, invocation: Invocation) -> Iterator[str]:
        """Yield the texts in which a command line may stand."""
        words = invocation.argv[1:]
        if self.options:
            yield from parse(words, self.options).values(*self.options)
        if not self.where.isdisjoint(("$*", "$1")):
            yield from words[:1] if "$1" in self.where else words
        if "rest" in self.where or "line" in self.where:
            yield " ".join(words) if "rest" in self.where else shlex.join(words)
        if "<" in self.where:
            yield invocation.stdin or ""

    def run(self, invocation: Invocation) -> Iterator[Run]:
        """Yield what a program runs by this line."""
        for text in self.texts(invocation):
            for line in (text,) if self.pattern is None else _found(self.pattern, text):
                line_ = line.replace("\\", "/") if "windows" in self.where else line
                yield Run(line_, is_remote="remote" in self.where, is_here="here" in self.where)


def _found(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for found in pattern.finditer(text):
        for name, value in found.groupdict().items():
            if value and name != "mark":
                plain = _ESCAPED.sub(r"\1", value)
                wide = decoded_wide(value) if name == "wide" else plain
                yield f"rm -rf {shlex.quote(plain)}" if name.startswith("path") else wide


def _read() -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {}
    for names, where, pattern in cells_of("carriers"):
        words = where.split()
        row = _Row(
            frozenset(word for word in words if word[0] == "-"),
            frozenset(word for word in words if word[0] != "-"),
            re.compile(pattern) if pattern else None,
        )
        for name in names.split(","):
            rows.setdefault(name, []).append(row)
    return rows


_ROWS = _read()


def commands_in(program: str, text: str) -> list[str]:
    """Return the command lines in what a program reads: of a Makefile for `make`, of a schedule for `crontab`."""
    return [line for row in _ROWS[program] if row.pattern is not None for line in _found(row.pattern, text)]


def runs(invocation: Invocation, work: StepBudget) -> Iterator[Run]:
    """Yield what a program runs, in order."""
    name = invocation.name.lower()
    runner = _RUNNERS.get(name)
    if runner is not None:
        yield from runner(invocation, work)
    for row in _ROWS.get(name, ()):
        yield from (run for run in row.run(invocation) if run.text)
    if len(invocation.argv) > 1 and runner is not _ssh and invocation.name not in _FOR_TEXTS:
        yield from map(Run, _removals(invocation))


def _removals(invocation: Invocation) -> Iterator[str]:
    """Yield the removing command lines among the arguments of any program: one argument, or the trailing arguments.

    Examples: `hyperfine 'rm -rf /data/x'`, `bwrap --bind / / rm -rf /data/x`. Only some programs are known to run their
    arguments, but an argument that begins like this rarely has another purpose, unless the program handles texts.
    """
    for at, word in enumerate(invocation.argv[1:_MAX_WORDS], 1):
        if len(word) > 5 and "rm" in word and " " in word:
            removal = _REMOVAL.search(word)
            if removal is not None:
                yield removal["text"]
        elif word == "rm" and invocation.name not in _WITH_RM:
            words = invocation.argv[at:]
            if len(words) > 2 and _FORCED.fullmatch(words[1]) and any("/" in argument for argument in words[2:]):
                yield shlex.join(words)


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


def _fd(invocation: Invocation, work: StepBudget) -> Iterator[Run]:
    words = invocation.argv[1:]
    at = next((at for at, word in enumerate(words) if word in ("-x", "-X", "--exec", "--exec-batch")), len(words))
    places = [word for word in words[:at] if not word.startswith("-")][1:] or ["."]
    argv = tuple(word for word in words[at + 1 :] if word != ";")
    return _with_items(argv, "{}", tuple(f"{place}/**" for place in places), work)


def _each_object(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
    """`gci /data/x | % { Remove-Item $_.FullName }`."""
    each = pipes.items(invocation.upstream, None)[0]
    block = " ".join(invocation.argv[1:]).strip(" {}")
    yield Run(_EACH.sub("$_" if each == STDIN else each.replace("\\", "/"), block))


def _started(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
    """`Start-Process rm -ArgumentList '-rf','/data/x'`."""
    words = (part for word in invocation.argv[1:] for part in word.split(","))
    yield Run(argv=tuple(word for word in words if word.lower() not in _OF_START_PROCESS))


def _for_files(invocation: Invocation, _: StepBudget) -> Iterator[Run]:
    """`forfiles /p FOLDER /c "cmd /c del @path"`."""
    words = [word.lower() for word in invocation.argv]
    given = {word: invocation.argv[at + 1] for at, word in enumerate(words[:-1]) if word in ("/p", "/c")}
    each = f"{given.get('/p', '.')}/*"
    yield Run(given.get("/c", "").replace("@path", each).replace("@file", each))


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
    **dict.fromkeys(("source", "."), _source),
    "ssh": _ssh,
    "xargs": _xargs,
    "parallel": _parallel,
    "find": _find,
    **dict.fromkeys(("fd", "fdfind"), _fd),
    **dict.fromkeys(("foreach-object", "%", "foreach"), _each_object),
    **dict.fromkeys(("start-process", "saps"), _started),
    "forfiles": _for_files,
}
PROGRAMS = frozenset((*_RUNNERS, *_ROWS))
"""Programs that run what they are given."""
