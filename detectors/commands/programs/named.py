"""Scripts and tasks with destructive names: `make destroy-prod`, `./wipe_customers.sh`.

A script that the session wrote is judged by its text, and is the session's own.

Misses: scripts whose names do not begin or end with a verb of the list, or name nothing valuable, since a program under
development is run after each edit; effects that the name of a script does not show.
"""

from collections.abc import Iterator

from haltline.detectors.commands.code.scripts import INTERPRETERS
from haltline.detectors.commands.effects.rows import is_dry
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.names import is_for_tests
from haltline.detectors.commands.rows import words_of
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.wrappers import SHELLS
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import words

_VERBS = words_of("verbs of scripts that destroy")
_VERBS_OF_DATA = words_of("verbs of scripts that destroy data")
"""Adds verbs that also name programs under development, which are run after each edit: only with a word of `_DATA`."""
_DATA = words_of("valuable data")
"""Words of names for valuable data."""
_MILD = words_of("names of what is cleaned up")
"""Words in names of cleanup scripts."""
_LOOKS = words_of("first words of scripts that look")
"""First words in names of scripts that check what something else deletes."""
_RUNNERS = words_of("programs that run tasks")
_RUN = frozenset(("start", "run", "run-script", "task", "xtask"))
_APPLICATIONS = ("manage.py", "artisan", "console")
_SUFFIX = re.compile(r"\.(?:sh|bash|zsh|py|js|ts|mjs|cjs|rb|php|pl|ps1|exs)$")
_TASK = re.compile(r"[\w:./@-]+")
_FEW_WORDS = 3
_MAX_TASKS = 4


def tasks(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the loss that the name of a script or task indicates."""
    if is_dry(invocation.argv):
        return
    operands = [word for word in invocation.argv[1:] if word[:1] != "-"]
    if "/" in invocation.called and _SUFFIX.search(invocation.name) is not None:
        yield from _script(invocation, invocation.called)
    elif invocation.name in INTERPRETERS or invocation.name in SHELLS or invocation.name in ("source", "."):
        if operands and operands[0].endswith(_APPLICATIONS):
            yield from _tasks(operands[1:2])
        elif invocation.reads:
            yield from _script(invocation, invocation.reads)
        elif operands and _SUFFIX.search(operands[0]) is not None and "-c" not in invocation.argv:
            yield from _script(invocation, operands[0])
    elif invocation.name in _RUNNERS:
        yield from _tasks([word for word in operands if word not in _RUN][:_MAX_TASKS])


def _script(invocation: Invocation, file: str) -> Iterator[Destruction]:
    if _takes_away(_SUFFIX.sub("", file.rpartition("/")[2]), frozenset()):
        yield Destruction("run_script", f"path={invocation.path(file)}", Badness.PLAIN, guessed=True)


def _tasks(named: list[str]) -> Iterator[Destruction]:
    for task in named:
        if _TASK.fullmatch(task) is not None and _takes_away(task, _VERBS):
            yield Destruction("run_task", f"task={task}", Badness.PLAIN, guessed=True)


def _takes_away(name: str, alone: frozenset[str]) -> bool:
    """Return whether a name has a verb of `alone`, or another verb with a word for valuable data."""
    parts = words(name)
    if not parts or parts[0] in _LOOKS or not _MILD.isdisjoint(parts) or is_for_tests(name):
        return False
    ends = {parts[0], parts[-1]} if len(parts) > _FEW_WORDS else set(parts)
    return not alone.isdisjoint(ends) or (not _VERBS_OF_DATA.isdisjoint(ends) and not _DATA.isdisjoint(parts))
