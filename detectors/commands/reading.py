"""The destructive effects of programs: one reader for each program, in one table."""

from collections.abc import Iterator
from dataclasses import replace

from haltline.detectors.commands import files, surroundings, tool_name_severity
from haltline.detectors.commands.code import interpreter as code
from haltline.detectors.commands.code import scripts
from haltline.detectors.commands.code.creations import code_creations
from haltline.detectors.commands.code.values import CodeCall
from haltline.detectors.commands.creations import creations
from haltline.detectors.commands.effects import programs as effects
from haltline.detectors.commands.effects import requests
from haltline.detectors.commands.model import (
    LOSSES,
    MAX_COMMAND_CHARS,
    MAX_FOUND,
    ActEffect,
    Badness,
    Destruction,
    cached_by_text,
)
from haltline.detectors.commands.paths import badness, canonical
from haltline.detectors.commands.prefilter import may_destroy, may_destroy_by_code
from haltline.detectors.commands.programs import databases, named
from haltline.detectors.commands.programs import table as readers
from haltline.detectors.commands.rows import words_of
from haltline.detectors.commands.script_files import (
    cells,
    moved,
    original,
    run_files,
    scripts_of_package,
    texts_written,
)
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.runs import commands_in
from haltline.detectors.commands.sql import sql_destructions
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_MAX_DEPTH = 3
_MAX_OF_FILE = 16
_MAX_PATH_CHARS = 4096
_STEPS_OF_A_PROGRAM = 20
_CODE_SUFFIXES = frozenset(("py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "r", "lua", "jl", "ipynb", "go"))
_WITHOUT_BACKTICKS = frozenset(("py", "ipynb", "go", "lua", "r"))
_CODE_LINE = re.compile(r"python|node|ruby|perl|php|deno|bun|lua")
_OPENED_TO_ALL = re.compile(r"chmod(?:Sync)?\(\s*['\"]([^'\"\n]+)['\"]\s*,\s*['\"]?0?o?[0-7]?(?:777|666|767|776)\b")
_SCHEDULES = re.compile(r"/cron(?:tab|\.d|tabs)(?:/|$)|/spool/cron/")
_ITEM_DELETED = re.compile(r"\((?:Get-Item|Get-ChildItem|gi|gci)\s++['\"]?([^()'\"]+)['\"]?\)\.Delete\(", re.IGNORECASE)
_USER = re.compile(r"^\s*(?:root|www-data|nobody|ubuntu|\w+)\s+(?=(?:/\S*/)?[a-z][\w.-]*\s)")
"""The user in a line of a system crontab."""
_RUN_HERE = re.compile(r"\./([\w.-]+)")


PRODUCING = words_of("programs that leave files")
"""Programs that may leave files which the command line does not name."""
_HELP = "--help"
_VERSION = "--version"
"""As the last argument it is an option of the program itself; elsewhere it may take a value."""


def destructions(command: str, *, cwd: str | None = None) -> tuple[Destruction, ...]:
    """Return what a shell command line would destroy, in order, without duplicates.

    The text may have several lines, heredocs and embedded programs. `cwd` is the working directory of the session, if
    known; relative paths are resolved below it. Reads MAX_COMMAND_CHARS. Never raises.
    """
    text = command[:MAX_COMMAND_CHARS]
    # In a device directory even a bare name is a disk, which the words alone do not show.
    if not may_destroy(text) and not (cwd and canonical(cwd).startswith("/dev")):
        return ()
    return parsed_destructions(text, cwd=cwd)


def parsed_destructions(command: str, *, cwd: str | None = None) -> tuple[Destruction, ...]:
    """Like `destructions`, without the prefilter that avoids parsing most command lines."""
    return _read_command(command, cwd)[0]


def is_read_whole(text: str, *, cwd: str | None = None, by_code: bool = False) -> bool:
    """Return whether a command line, or a program, is within all limits of parsing."""
    if len(text) > MAX_COMMAND_CHARS:
        return False
    if by_code:
        return not may_destroy_by_code(text) or not _read_code(text, cwd)[1]
    return not may_destroy(text) or not _read_command(text, cwd)[1]


@cached_by_text
def _read_command(command: str, cwd: str | None) -> tuple[tuple[Destruction, ...], bool]:
    """Return what the command destroys, and whether a part of it is unread."""
    work = StepBudget()
    found = tuple(dict.fromkeys((*_of_command(command, cwd, 0, work), *_of_net(command, cwd, work))))
    return _worst(found), work.cut


def _of_net(command: str, cwd: str | None, work: StepBudget) -> tuple[Destruction, ...]:
    """Return the deletions by .NET methods in PowerShell: `[IO.File]::Delete('x')`, `(Get-Item x).Delete()`."""
    stands = Invocation(argv=("powershell",), cwd=cwd, start=cwd)
    found = [files.lost_path("delete", stands, name, everything=True) for name in _ITEM_DELETED.findall(command)]
    if "]::" in command:
        found += _of_code(command.replace("[", "").replace("]::", "."), cwd, work)
    return tuple(found)


def _worst(found: tuple[Destruction, ...]) -> tuple[Destruction, ...]:
    if len(found) <= MAX_FOUND:
        return found
    severe = tuple(d for d in found if d.badness is Badness.SEVERE)[:MAX_FOUND]
    others = tuple(d for d in found if d.badness is not Badness.SEVERE)
    return severe + others[: MAX_FOUND - len(severe)]


def code_destructions(text: str, *, cwd: str | None = None) -> tuple[Destruction, ...]:
    """Return what a program, or a notebook's cell, would destroy, in any language; like `destructions`."""
    text = text[:MAX_COMMAND_CHARS]
    return _read_code(text, cwd)[0] if may_destroy_by_code(text) else ()


@cached_by_text
def _read_code(text: str, cwd: str | None) -> tuple[tuple[Destruction, ...], bool]:
    work = StepBudget()
    return _worst(_of_code(text, cwd, work)), work.cut


def _of_code(text: str, cwd: str | None, work: StepBudget) -> tuple[Destruction, ...]:
    shells, statements, program = scripts.parts_of_cell(text)
    found: list[Destruction] = []
    for command in shells:
        if not work.take(_STEPS_OF_A_PROGRAM):
            break
        found += _of_command(command, cwd, 0, work)
    for statement in statements:
        found += sql_destructions(statement, work=work)
    stands = Invocation(argv=("python",), cwd=canonical(cwd) if cwd else None, start=canonical(cwd) if cwd else None)
    for call in code.calls(program, 0, work):
        found += _of_call(call, stands, 0, work)
    for match in _OPENED_TO_ALL.finditer(program, 0, MAX_COMMAND_CHARS) if "chmod(" in program else ():
        found.append(replace(files.lost_path("chmod", stands, match[1]), effect=ActEffect.EXPOSES))
    return tuple(dict.fromkeys(found))


def remakers(command: str, *, cwd: str | None = None) -> tuple[str, ...]:
    """Return the directories where programs run after all destructions of a command line; empty text if unknown."""
    places: dict[str, None] = {}
    scripts_run = frozenset(_RUN_HERE.findall(command))
    work = StepBudget()
    for invocation in invocations(command, cwd=cwd, work=work):
        if any(act.effect in LOSSES for act in _of_invocation(invocation, 0, work)):
            places.clear()
        elif invocation.name in PRODUCING or invocation.name in scripts_run:
            places[invocation.cwd or ""] = None
            for argument in invocation.argv:
                if argument.startswith(("/", "~/")) and argument.count("/") > 1:
                    places[argument.rpartition("/")[0]] = None
    return tuple(places)


def _of_command(  # noqa: PLR0912 - one case after another
    command: str, cwd: str | None, depth: int, work: StepBudget
) -> Iterator[Destruction]:
    renamed: dict[str, str] = {}
    written: dict[str, str] = {}
    for invocation in invocations(command, cwd=cwd, work=work):
        if not work.take(_STEPS_OF_A_PROGRAM):
            return
        for found in _of_invocation(invocation, depth, work):
            if renamed and len(found.target) <= _MAX_PATH_CHARS:
                work.take(found.target.count("/"))
                origin = original(found.target, renamed)
                bad = badness(origin.removeprefix("path="), everything=True)
                yield replace(found, target=origin, badness=bad) if origin else found
            else:
                yield found
        if invocation.name in ("mv", "ln"):
            renamed.update(moved(invocation))
        if invocation.name in ("mv", "cp") and written:
            operands = [word for word in invocation.argv[1:] if not word.startswith("-")]
            text = written.get(invocation.path(operands[0])) if len(operands) == 2 else None
            if text is not None:
                written[invocation.path(operands[1])] = text
        if written and depth < _MAX_DEPTH:
            for file in run_files(invocation):
                text = written.get(file)
                if text is not None:
                    yield from _of_file(file, text, invocation.cwd, depth + 1, work)
        texts = texts_written(invocation)
        written.update(texts)
        for file, text in texts.items():
            if _SCHEDULES.search(file) is not None and depth < _MAX_DEPTH:
                for line in commands_in("crontab", text):
                    yield from _of_command(_USER.sub("", line), cwd, depth + 1, work)


def _of_file(file: str, text: str, cwd: str | None, depth: int, work: StepBudget) -> Iterator[Destruction]:
    """Yield what a file destroys when it is run, by its contents."""
    name = file.rpartition("/")[2].lower()
    suffix = name.rpartition(".")[2]
    first = text[:80].partition("\n")[0]
    if suffix == "sql":
        yield from sql_destructions(text, work=work)
    elif suffix in _CODE_SUFFIXES or (first.startswith("#!") and _CODE_LINE.search(first)):
        program = cells(text) if suffix == "ipynb" else text
        if may_destroy_by_code(program, backticks=suffix not in _WITHOUT_BACKTICKS and "python" not in first):
            yield from _of_code(program, cwd, work)
    elif not may_destroy(text):
        return
    elif name == "package.json":
        for command in scripts_of_package(text):
            yield from _of_command(command, cwd, depth + 1, work)
    elif name in ("makefile", "gnumakefile", "justfile") or suffix == "mk":
        for line in commands_in("make", text):
            yield from _of_command(line, cwd, depth + 1, work)
    else:
        for line in commands_in("crontab", text):
            yield from _of_command(line, cwd, depth + 1, work)
        yield from _of_command(text, cwd, depth + 1, work)


def file_destructions(file: str, text: str, *, cwd: str | None = None) -> tuple[Destruction, ...]:
    """Return what a file destroys when it is run: shell, SQL, a Makefile or a program, by its name and first line."""
    found = dict.fromkeys(_of_file(file, text[:MAX_COMMAND_CHARS], cwd, 0, StepBudget()))
    if not found:
        return ()
    # A script may first remove its own output, which it creates again.
    text = text[:MAX_COMMAND_CHARS]
    made = (*creations(text, cwd=cwd), *code_creations(text, cwd=cwd, folders=False))
    remade = {target for target in made if not target.startswith("path=/")}
    return tuple(one for one in found if one.placed not in remade)[:_MAX_OF_FILE]


def _of_invocation(invocation: Invocation, depth: int, work: StepBudget) -> Iterator[Destruction]:
    return surroundings.with_places(_losses_of(invocation, depth, work), invocation)


def _losses_of(invocation: Invocation, depth: int, work: StepBudget) -> Iterator[Destruction]:
    yield from files.redirections(invocation)
    if not invocation.argv:
        return
    if depth < _MAX_DEPTH:
        for call in scripts.calls(invocation, work):
            yield from _of_call(call, invocation, depth, work)
        if invocation.name.lower() in ("pwsh", "powershell"):
            yield from _of_net(" ".join(invocation.argv[1:]), invocation.cwd, work)
    arguments = invocation.before_dashes()
    if _HELP not in arguments and arguments[-1:] != (_VERSION,):
        reader, by_table = readers.reader(invocation.name), tuple(effects.acts(invocation))
        if reader is None and not any(act.effect in LOSSES and _names_a_thing(act, invocation) for act in by_table):
            reader = databases.generic  # a guess
        found = tuple(surroundings.seen_in(reader(invocation), invocation)) if reader is not None else ()
        yield from found or (() if by_table else surroundings.seen_in(named.tasks(invocation), invocation))
        yield from databases.statements_of_clouds(invocation)
        for act in by_table:
            # The program's own reader knows the loss more precisely.
            if not (found and (act.effect in LOSSES or any(act.target == one.target for one in found))):
                yield from surroundings.seen_in((act,), invocation)


def losses_by(invocation: Invocation) -> tuple[Destruction, ...]:
    """Return what one program would destroy, without what its arguments run."""
    return tuple(_of_invocation(invocation, _MAX_DEPTH, StepBudget()))


def _names_a_thing(act: Destruction, invocation: Invocation) -> bool:
    """Return whether an act names its target rather than the command line alone."""
    return not act.target.partition("=")[2].startswith(f"{invocation.argv[0]} ")


def begins_with_program(text: str) -> bool:
    """Return whether a text begins with the name of a program that has a reader or rows in the table."""
    words = text.split(maxsplit=2)
    if words[:1] == ["sudo"]:
        words = words[1:]
    return bool(words) and (readers.reader(words[0]) is not None or words[0] in effects.TABLE.rows)


def _of_call(call: CodeCall, invocation: Invocation, depth: int, work: StepBudget) -> Iterator[Destruction]:
    """Yield what a call inside a small program destroys."""
    if call.kind == "shell":
        yield from _of_command(call.argument, invocation.cwd, depth + 1, work)
    elif call.kind == "sql":
        yield from sql_destructions(call.argument, work=work)
    elif call.kind == "url":
        if not surroundings.is_own_server(call.argument):
            yield requests.deletion(call.argument)
    elif call.kind == "thing":
        yield Destruction(call.name, call.argument, tool_name_severity.badness(call.name, call.argument))
    elif call.kind == "away":
        lost = files.lost_path(call.name, invocation, call.argument, everything=True)
        yield replace(lost, badness=min(lost.badness, Badness.PLAIN), reversible=True)
    elif call.kind == "request":
        act = requests.act(call.name, call.argument)
        yield act or Destruction(f"http_{call.name.lower()}", f"url={call.argument}", Badness.PLAIN)
    elif call.kind.startswith("act:"):
        yield Destruction(call.name, call.argument, Badness.PLAIN, ActEffect(call.kind[4:]))
    elif call.kind in ("path", "tree"):
        verb = call.name.rpartition(".")[2]
        yield files.lost_path(verb, invocation, call.argument, everything=call.kind == "tree")


def reader_of(invocation: Invocation) -> str:
    """Return the module whose reader finds a loss by the program; empty if none does."""
    reader = readers.reader(invocation.name) or databases.generic
    if invocation.argv and any(True for _ in reader(invocation)):
        module = getattr(reader, "func", reader).__module__
        return module.removeprefix("haltline.detectors.").replace(".", "/") + ".py"
    if any(True for _ in files.redirections(invocation)):
        return "commands/files.py"
    return ""
