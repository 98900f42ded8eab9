"""What a variable, or a program, chooses for the programs that follow: a context, a project, a server, a stack.

The table is `rows/choices.txt`. A choice is a variable of the environment, also for programs that store it in a file of
their own, and is read as if the command line named it.

A choice that may not have been made (behind `||` or in `if`, in a call that failed) chooses nothing, as it would make
what follows look harmless; one of production counts.

Misses: choices in files and by aliases; a context that another process changes.
"""

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import NamedTuple

from msgspec.structs import replace

from haltline.detectors.commands.model import holds_one
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.rows import cells_of, expression_of
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.wrappers import SYNONYMS
from haltline.schemas import expressions as re

PAGE = "PAGE"
"""The page that a browser shows."""
BY = "BY"
"""The tool that ran the command line, and where: another one has an environment of its own."""
MOVED = "MOVED"
"""The session went to another folder, and which one is unknown."""
FOLDER_OF = "_IN"
"""The end of the variable with the folder in which a choice holds."""
_VALUED = (
    "--name --namespace -n -p --profile -a --app --subscription -s --context --kubeconfig -c --cluster --user -chdir"
)
_USER = re.compile(r"(?<=://)[^@/\s]{1,200}@")
_LASTS = expression_of("a variable that lasts")
_MAY_SKIP = expression_of("a part of a command line may not run")
_MOVES = re.compile(r"(?:\A|[;&|\n])\s{0,8}(?:cd|pushd|popd)\b")
_FAILS = expression_of("an output says that a program failed", re.IGNORECASE | re.MULTILINE)
_ANSWER_CHARS = 4096
_PART_OF = {"KUBE_CONTEXT": ("KUBE_NAMESPACE",)}
"""What each choice has of its own, so that the one before does not hold: a context has its namespace."""
_UNKNOWN = "unknown"
_MAX_CHARS, _MAX_CHOSEN = 200, 32


class _Choice(NamedTuple):
    variable: str
    programs: frozenset[str]
    options: tuple[str, ...]
    in_folder: bool
    """It holds in the folder in which it was made."""


class _Choosing(NamedTuple):
    words: tuple[str, ...]
    before: str
    sources: tuple[str, ...]
    """Of the value: `$1`, an option, or the value itself."""
    choice: _Choice


def _read() -> tuple[dict[str, _Choice], dict[str, list[_Choosing]]]:
    choices: dict[str, _Choice] = {}
    choosing: dict[str, list[_Choosing]] = {}
    for name, programs, options, by in cells_of("choices"):
        choice = _Choice(name.rstrip("@"), frozenset(programs.split()), tuple(options.split()), name.endswith("@"))
        choices[choice.variable] = choice
        for line in filter(None, by.split(";")):
            program, *words, value = line.split()
            before, sources = value.partition("{")[0], tuple(value.partition("{")[2].rstrip("}").split(","))
            choosing.setdefault(program, []).append(_Choosing(tuple(words), before, sources, choice))
    return choices, choosing


_CHOICES, _CHOOSING = _read()
_READERS = frozenset(program for choice in _CHOICES.values() for program in choice.programs)
_CUES = tuple(
    (called, tuple({one.words[-1] if one.words else called for one in choosing}))
    for program, choosing in _CHOOSING.items()
    for called in (program, *(other for other, path in SYNONYMS.items() if path == (program,)))
)
"""The names of programs that choose something, with the words of which one must follow."""


def may_choose(text: str) -> bool:
    """Return False if a command line chooses nothing for later ones."""
    if "export " in text or "unset " in text:
        return True
    for called, cues in _CUES:  # noqa: SIM110 - for nearly every event: any() is a generator
        if called in text and holds_one(text, cues):
            return True
    return False


def chosen_by(invocation: Invocation) -> Iterator[str]:
    """Yield `NAME=value` of what a program chooses for those that follow."""
    for words, before, sources, choice in _CHOOSING.get(invocation.name, ()):
        options = invocation.options(_VALUED, single_dash_words=True)
        operands = tuple(word for word in words if word[0] != "-")
        if options.operands[: len(operands)] != operands or not all(map(options.has, words[len(operands) :])):
            continue
        for source in sources:
            others = options.operands[len(operands) :]
            value = (
                (others[0] if others else "")
                if source == "$1"
                else options.value(source)
                if source[:1] == "-"
                else source
            )
            if value:
                yield f"{choice.variable}={before}{value[:_MAX_CHARS]}"
                if choice.in_folder:
                    yield f"{choice.variable}{FOLDER_OF}={invocation.path('.')}"
                break
        else:
            yield f"{choice.variable}="  # something else is chosen, and what is unknown
        yield from (f"{part}=" for part in _PART_OF.get(choice.variable, ()))


def may_skip(text: str) -> bool:
    """Return whether parts of a command line may not run, or may fail without an effect on the rest."""
    return _MAY_SKIP.search(text) is not None


def moves(text: str) -> bool:
    """Return whether a command line may leave the session in another folder."""
    return _MOVES.search(text) is not None


def says_failed(output: str) -> bool:
    """Return whether an output says that a program failed, whatever the outcome of the call."""
    return _FAILS.search(output[:_ANSWER_CHARS]) is not None


def unsure(assigned: Iterable[str]) -> Iterator[str]:
    """Yield what choices that may not have been made leave, as `NAME=value`: production, or nothing."""
    for one in assigned:
        name, _, value = one.partition("=")
        yield one if name == BY or is_production(value) else f"{name}="


def named(invocation: Invocation) -> Invocation:
    """Return a program as if its command line named what its variables choose."""
    choosing = _CHOOSING.get(invocation.name, ())
    if any(one.words[:1] == invocation.argv[1:2] and invocation.name in one.choice.programs for one in choosing):
        return invocation  # it chooses, or is about the choices themselves
    assigned = dict(one.partition("=")[::2] for one in invocation.assigned)
    chosen: list[str] = []
    for variable in reversed(assigned):  # the last choice counts
        choice = _CHOICES.get(variable)
        if choice is None or invocation.name not in choice.programs or not assigned[variable]:
            continue
        there = assigned.get(f"{variable}{FOLDER_OF}")
        if there is not None and there != invocation.path("."):
            continue
        given = (*invocation.argv[1:], *chosen)
        if not any(word.partition("=")[0] in choice.options for word in given):
            chosen.append(f"{choice.options[0]}={assigned[variable]}")
    if not chosen:
        return invocation
    before = invocation.before_dashes()
    return replace(invocation, argv=(invocation.argv[0], *before, *chosen, *invocation.argv[1 + len(before) :]))


def is_choice(variable: str) -> bool:
    """Return whether a variable chooses something for some programs."""
    return variable.removesuffix(FOLDER_OF) in _CHOICES


def reads_choices(program: str) -> bool:
    """Return whether all choices of a program are in the table, so that other variables of it choose nothing for it."""
    return program in _READERS


def for_later_calls(exported: str) -> str:
    """Return what an exported variable is to later calls, as `NAME=value`: production, or something unknown.

    Most tools run each command line in a new process, without it; others in the same shell.
    """
    name, _, value = exported.partition("=")
    if not value or is_production(value):
        return exported
    return f"{name}={_UNKNOWN}" if name in _CHOICES else f"{name}="


def kept(before: dict[str, str], exported: Iterable[str]) -> dict[str, str]:
    """Return the choices of a session after a command line that exports these; without users in addresses."""
    after = dict(before)
    for one in exported:
        name, _, value = one.partition("=")
        if name == BY and after.get(BY) != value:
            after = {BY: value} | ({PAGE: after[PAGE]} if PAGE in after else {})
        elif name == MOVED:
            for variable in [v for v in after if after.get(f"{v}{FOLDER_OF}") == "."]:
                del after[variable], after[f"{variable}{FOLDER_OF}"]
        elif name == PAGE or name.removesuffix(FOLDER_OF) in _CHOICES or _LASTS.fullmatch(name) is not None:
            after.pop(name, None)
            if value:
                after[name] = _USER.sub("", value)[:_MAX_CHARS]
    return dict([*after.items()][-_MAX_CHOSEN:])


def as_line(chosen: dict[str, str]) -> str:
    """Return a line that makes the choices, to be read before a command line; empty without any."""
    assigned = " ".join(f"{name}={quote(value)}" for name, value in chosen.items() if name not in {PAGE, BY})
    return f"export {assigned}\n" if assigned else ""
