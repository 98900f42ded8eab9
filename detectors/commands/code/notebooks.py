"""Notebook cells, split into shell lines, SQL statements and the program.

Misses: magics of other extensions; `{name}` in a shell line, which is not replaced.
"""

import re

_CELL = re.compile(r"\A\s*%%(?P<magic>\w+)[^\n]*\n(?P<body>.*)\Z", re.DOTALL)
_LINE = re.compile(
    r"^[ \t]*(?:\w+\s*=\s*)?(?:!!?|%(?:sx|system|sc)\s+(?:\w+=)?|%(?=(?:rm|rmdir|mv|cp)\b)|%%?(?:sh|bash)\s+)"
    r"(?P<command>[^\n]+)$",
    re.MULTILINE,
)
_SQL_LINE = re.compile(r"^[ \t]*(?:\w+\s*=\s*)?%sql\s+(?P<statement>[^\n]+)$", re.MULTILINE)
_SHELLS = frozenset(("bash", "sh", "script", "cmd", "powershell", "system", "sx"))


def parted(text: str) -> tuple[list[str], list[str], str]:
    """Return the command lines, the statements, and the remaining program."""
    if "%" not in text and "!" not in text:
        return [], [], text
    cell = _CELL.match(text)
    if cell is not None and cell["magic"] in _SHELLS:
        return [cell["body"]], [], ""
    if cell is not None and "sql" in cell["magic"]:
        return [], [cell["body"]], ""
    commands = [found["command"] for found in _LINE.finditer(text)]
    statements = [found["statement"] for found in _SQL_LINE.finditer(text)]
    return commands, statements, _SQL_LINE.sub("", _LINE.sub("", text))
