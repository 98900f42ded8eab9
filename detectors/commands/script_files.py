"""The files that a command line writes, moves and runs.

Misses: files that a program writes by itself; scripts that are found by a search path.
"""

from collections.abc import Iterator, Mapping

import msgspec
import orjson

from haltline.detectors.commands.code.scripts import INTERPRETERS
from haltline.detectors.commands.programs.databases import CLIENTS
from haltline.detectors.commands.shell import pipes
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.wrappers import SHELLS
from haltline.schemas import expressions as re

_INCLUDED = re.compile(r"(?:^|\n|;)[^\S\n]*(?:\\ir?|\.read|source|\\\.)\s+([^\s;]+)")
"""Files of statements that commands of a database client include."""
_RUN_SOURCES = frozenset(("go", "tsx", "ts-node", "java", "swift", "kotlin", "scala", "rust-script", "dotnet-script"))
"""Programs that compile and run a source file."""
_RUN_FIRST = frozenset((*INTERPRETERS, "source", ".", "bash", "sh", "zsh", "dash"))
_RUN_OPERANDS = frozenset(("jupyter", "papermill", "nbconvert", "crontab"))
_RUN_BY_NAME: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun"), ("package.json",)),
    **dict.fromkeys(("make", "gmake", "just"), ("Makefile", "makefile", "justfile")),
}
_RUN_BY_OPTION = frozenset((*CLIENTS, "make", "gmake", "docker"))
_READ_INPUT = frozenset((*CLIENTS, *INTERPRETERS, *SHELLS))
_WRITING = (">", ">|", "&>", ">>")


def files_written(command: str, *, cwd: str | None = None) -> dict[str, str]:
    """Return the text of each file that a command line writes, by path, if the command line contains the text."""
    found: dict[str, str] = {}
    for invocation in invocations(command, cwd=cwd):
        found.update(texts_written(invocation))
    return found


def texts_written(invocation: Invocation) -> dict[str, str]:
    """Return the known text of each file that one program writes, by path."""
    files = [target for operator, target in invocation.writes if operator in _WRITING]
    if invocation.name == "tee":
        files += _operands(invocation)
    text = pipes.output(msgspec.structs.replace(invocation, writes=())) if files else None
    return {invocation.path(file): text for file in files} if text else {}


def files_run(command: str, *, cwd: str | None = None) -> tuple[str, ...]:
    """Return the paths of the files that a command line runs."""
    return tuple(file for invocation in invocations(command, cwd=cwd) for file in run_files(invocation))


def run_files(invocation: Invocation) -> list[str]:
    """Return the paths of the files that one program runs: itself, a script, a Makefile, a file of statements."""
    found = [invocation.called] if "/" in invocation.called else []
    return [invocation.path(file) for file in (*found, *_named_files(invocation), *_files_of_input(invocation))]


def _named_files(invocation: Invocation) -> list[str]:
    name, words = invocation.name, invocation.argv
    if name in INTERPRETERS and "-m" in words[1:-1]:
        return [f"{words[words.index('-m', 1) + 1].replace('.', '/')}.py"]
    if name in _RUN_BY_NAME:
        return list(_RUN_BY_NAME[name])
    if name in _RUN_OPERANDS:
        return [word for word in _operands(invocation) if word not in ("nbconvert", "execute", "run")]
    if name in _RUN_FIRST:
        return _operands(invocation)[:1]
    return [word for word in _operands(invocation)[-2:] if "." in word] if name in _RUN_SOURCES else []


def _files_of_input(invocation: Invocation) -> Iterator[str]:
    """Yield the files that a program reads from its input, includes, or takes as an option."""
    name, words, upstream = invocation.name, invocation.argv, invocation.upstream
    if name in _READ_INPUT:
        yield from (upstream.path(word) for word in _operands(upstream)) if upstream and upstream.name == "cat" else ()
        yield from filter(None, (invocation.reads,))
    if name in CLIENTS:
        yield from (file for word in words[1:] for file in _INCLUDED.findall(word))
    if name in _RUN_BY_OPTION:
        yield from (words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-f", "--file"))


def _operands(invocation: Invocation) -> list[str]:
    return [word for word in invocation.argv[1:] if not word.startswith("-")]


def renames(command: str, *, cwd: str | None = None) -> tuple[tuple[str, str], ...]:
    """Return the new and old target of each move in a command line."""
    return tuple(pair for invocation in invocations(command, cwd=cwd) for pair in moved(invocation))


def moved(invocation: Invocation) -> Iterator[tuple[str, str]]:
    """Yield the new and old target of each move by one program; a link ends with `/`."""
    if invocation.name == "ln":
        words = _operands(invocation)
        if len(words) == 2:
            yield f"path={invocation.path(words[1])}/", f"path={invocation.path(words[0])}"
        return
    if invocation.name != "mv":
        return
    options = invocation.options("-S --suffix -t --target-directory")
    into = options.value("-t", "--target-directory")
    operands = (*options.operands, f"{into}/") if into else options.operands
    if len(operands) < 2 or operands[-1] == "/dev/null":
        return
    destination = operands[-1]
    for source in operands[:-1]:
        old = f"path={invocation.path(source)}"
        inside = f"{destination.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}"
        if len(operands) == 2 and not destination.endswith("/"):
            yield f"path={invocation.path(destination)}", old
        yield f"path={invocation.path(inside)}", old


def original(target: str, renamed: Mapping[str, str]) -> str:
    """Return the target's name before it, or a directory above it, was renamed; empty if none was."""
    place = target
    while place:
        # A link has the name of its contents: they are lost, not the link itself.
        origin = renamed.get(place) or (renamed.get(f"{place}/") if place != target else None)
        if origin is not None:
            return origin + target[len(place) :]
        place = place.rpartition("/")[0]
    return ""


def scripts_of_package(text: str) -> list[str]:
    """Return the command lines in a `package.json`."""
    package = _json(text)
    scripts = package.get("scripts") if isinstance(package, dict) else None
    return [line for line in scripts.values() if isinstance(line, str)] if isinstance(scripts, dict) else []


def cells(text: str) -> str:
    """Return the code cells of a notebook, joined by newlines."""
    notebook = _json(text)
    listed = notebook.get("cells") if isinstance(notebook, dict) else None
    found: list[str] = []
    for cell in listed if isinstance(listed, list) else ():
        source = cell.get("source") if isinstance(cell, dict) and cell.get("cell_type", "code") == "code" else None
        if isinstance(source, list):
            source = "".join(line for line in source if isinstance(line, str))
        if isinstance(source, str):
            found.append(source)
    return "\n".join(found)


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
