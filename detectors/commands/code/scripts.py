"""Small programs inside a command line (`python -c`, `node - <<EOF`, `perl -e`), and command lines inside a notebook.

This module finds the texts; `interpreter` reads programs.

Misses: script files, unless the session itself wrote them (see `file_destructions` in `reading`); magics of other
    extensions; `{name}` in a shell line of a notebook, which is not replaced.
"""

from collections.abc import Iterator, Mapping

from haltline.detectors.commands.code import interpreter
from haltline.detectors.commands.code.values import CodeCall
from haltline.detectors.commands.rows import cells_of, expression_of
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    name: tuple(options.split()) for names, options, _ in cells_of("interpreters") for name in names.split(",")
}
PROGRAMS = frozenset(_OPTIONS)
INTERPRETERS = frozenset(name for names, _, kind in cells_of("interpreters") if not kind for name in names.split(","))
_EVALUATE = frozenset(("eval", "runner", "r", "php:eval", "php-eval", "ev"))
_SHELLS = frozenset(("shell", "console", "tinker", "shell_plus"))
_LETTERS = re.compile(r"-[a-zA-Z]{1,4}")
_CELL = re.compile(r"\A\s*%%(?P<magic>\w++)[^\n]*+\n(?P<body>.*)\Z", re.DOTALL)
_LINE = expression_of("a command line of a notebook", re.MULTILINE)
_SQL_LINE = re.compile(r"^[ \t]*(?:\w+\s*=\s*)?%sql\s+(?P<statement>[^\n]+)$", re.MULTILINE)
_SHELL_MAGICS = frozenset(("bash", "sh", "script", "cmd", "powershell", "system", "sx"))


def calls(invocation: Invocation, work: StepBudget | None = None) -> list[CodeCall]:
    """Return the relevant calls of an interpreter's program text; empty for other programs."""
    options = _OPTIONS.get(invocation.name)
    text = _script(invocation, options) if options is not None else None
    return interpreter.calls(text, 0, work) if text else []


def _script(invocation: Invocation, script_options: tuple[str, ...]) -> str | None:
    """Return the program text of an option or of stdin, or None."""
    arguments = list(_until_script(invocation.argv[1:], script_options))
    options = parse(arguments, frozenset((*script_options, "-W", "-X", "-I", "-M")))
    texts = options.values(*script_options)
    if texts:
        return "\n".join(texts)
    operands = options.operands
    if operands and operands[0] in _EVALUATE:
        return " ".join(operands[1:])
    if not operands or operands[0] == "-" or not _SHELLS.isdisjoint(operands[:2]):
        return invocation.stdin
    return None


def _until_script(arguments: tuple[str, ...], script_options: tuple[str, ...]) -> Iterator[str]:
    """Yield the interpreter's own arguments; those after the program text belong to the program."""
    taken = False
    for argument in arguments:
        yield argument
        if taken:
            return
        short = _LETTERS.fullmatch(argument) is not None and f"-{argument[-1:]}" in script_options
        taken = argument in script_options or short


def parts_of_cell(text: str) -> tuple[list[str], list[str], str]:
    """Return the command lines and the SQL statements of a notebook cell, and the remaining program."""
    if "%" not in text and "!" not in text:
        return [], [], text
    cell = _CELL.match(text)
    if cell is not None and cell["magic"] in _SHELL_MAGICS:
        return [cell["body"]], [], ""
    if cell is not None and "sql" in cell["magic"]:
        return [], [cell["body"]], ""
    commands = [found["command"] for found in _LINE.finditer(text)]
    statements = [found["statement"] for found in _SQL_LINE.finditer(text)]
    return commands, statements, _SQL_LINE.sub("", _LINE.sub("", text))
