"""The files that an action reads, and those that it changes.

Misses: files that programs open on their own, or by code given to them; names without a folder and without a known
    extension (`cat Makefile.local2`); names piped to `xargs`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import STDIN, Invocation
from haltline.detectors.features.observation_protocol import Observed
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading

MAX_ACCESSES = 64
"""Maximum number per action."""

_PATH = re.compile(r"\A(?:(?:~\w*|\.{1,2}|[\w@%+-][\w.@%+=,*?-]*|\.\w[\w.-]*)?(?:/[\w.@%+=,*?\[\]-]*)+|\.\w[\w.*-]*)")
_FILE = expression_of("a word is a file")
_READS_NO_FILES = words_of("programs that read no files")
_SCRIPT_FIRST = frozenset(("sed", "awk", "gawk", "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "jq", "yq"))
_ALL_CHANGED = frozenset(("tee", "touch", "rm", "rmdir", "unlink", "shred", "truncate", "mkdir", "chmod", "chown"))
_NARROWS = re.compile(r"\A(?:0?[0-7]00|(?:[go]+(?:-[rwxXst]+|=)|u=[rwxX]+)(?:,(?:[go]+(?:-[rwxXst]+|=)|u=[rwxX]+))*)")
"""Modes that restrict a file to its owner, or remove rights of others."""
_LAST_CHANGED = frozenset(("cp", "ln", "install", "rsync", "scp"))
_EFFECTS_CHANGE = frozenset((Effect.WRITE, Effect.MUTATE, Effect.DESTRUCTIVE))


class Access(NamedTuple):
    """A file or folder in canonical form, and whether it is changed."""

    path: str
    changes: bool


def accesses(act: Observed) -> tuple[Access, ...]:
    """The paths that an attempt touches, each once; one that is both read and changed counts as changed."""
    found: dict[str, bool] = {}
    changes = act.effect in _EFFECTS_CHANGE and not act.runs
    for path in _named(act):
        found[path] = changes
    if act.runs and act.tool.reading is Reading.SHELL and act.text:
        for invocation in invocations(act.text, cwd=act.cwd):
            for path, changed in _of_program(invocation):
                found[path] = found.get(path, False) or changed
            if len(found) >= MAX_ACCESSES:
                break
    return tuple(Access(path, changed) for path, changed in found.items() if path)[:MAX_ACCESSES]


def _named(act: Observed) -> Iterator[str]:
    """Paths that the event names: as targets, or, for a tool that runs nothing, as arguments."""
    for target in act.event.targets:
        kind, equals, value = target.partition("=")
        if equals and kind in ("path", "file", "file_path"):
            yield canonical(value)
    if act.runs or not act.args:
        return
    use = act.tool.use
    if use is not None and use.patch:
        yield from (target[5:] for target in act.targets if target.startswith("path="))
    for name in tools.arguments("path") if use is None else use.paths:
        named = act.args.get(name)
        if named is None:
            continue
        for item in named if isinstance(named, list) else (named,):
            if isinstance(item, str) and 0 < len(item) <= 512 and "://" not in item and "\n" not in item:
                yield canonical(item)


def _of_program(invocation: Invocation) -> Iterator[tuple[str, bool]]:
    """Each path of a command, and whether it is changed."""
    for _, target in invocation.writes:
        if not target.startswith("/dev/"):
            yield invocation.path(target), True
    name, argv = invocation.name, invocation.argv[1:]
    if name == "dd":
        for argument in argv:
            key, _, file = argument.partition("=")
            if key in ("if", "of") and file:
                yield invocation.path(file), key == "of"
        return
    if name in _READS_NO_FILES or not argv:
        return
    operands = [a for a in argv if not a.startswith("-") and a != STDIN]
    if name in _SCRIPT_FIRST and not any(a in ("-e", "-f") for a in argv):
        operands = operands[1:]
    if name == "find":
        operands = operands[:1]  # the others are its conditions
    operands = [a.partition("::")[0] for a in operands]  # a test within its file
    paths = [a for a in operands if is_path(a, name) and len(a) <= 512]
    in_place = name in ("sed", "perl") and any(re.match(r"-[a-z]*i", a) for a in argv)
    for path in paths:
        last = name in _LAST_CHANGED and path is operands[-1]
        changed = name in _ALL_CHANGED and not (name == "chmod" and _NARROWS.fullmatch(operands[0]) is not None)
        yield _folder_of_glob(invocation.path(path)), in_place or changed or name == "mv" or last


def _folder_of_glob(path: str) -> str:
    """The folder of a glob: `src/*.py` is about the folder `src`."""
    if "*" not in path and "?" not in path:
        return path
    return path[: min(path.find(wild) for wild in "*?" if wild in path)].rpartition("/")[0]


def is_path(word: str, program: str = "") -> bool:
    """Return whether a word of a command line looks like the name of a file."""
    if _FILE.fullmatch(word):
        return True
    if program == "git":
        return False  # `origin/main`, `feature/x`
    return _PATH.fullmatch(word) is not None and not word.startswith("//")
