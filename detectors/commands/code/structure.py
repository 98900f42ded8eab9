"""Where the parts of a small program begin and end: brackets, blocks, imports, the parameters of a function.

Misses: blocks that end with a word (`end`, `fi`) where their lines are not indented.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from haltline.detectors.commands.code.tokens import Token

_MAX_IMPORT_TOKENS = 200
_PASSED_OVER = frozenset(("new", "await", "not", "!", "@", "*", "&", "async", "return"))
_SEPARATE_IMPORTS = frozenset(",{}()*:")
_END = Token("end", "")


class Function(NamedTuple):
    """A function of the program: its parameters, and the tokens of its body."""

    parameters: tuple[str, ...]
    start: int
    end: int


class Structure:
    """The tokens of a program. Every index may be past the end."""

    def __init__(self, read: list[Token]) -> None:
        self.tokens = read
        self.end = len(read)
        self._closings = _pairs(read)

    def at(self, at: int) -> Token:
        """Return the token at an index."""
        return self.tokens[at] if at < self.end else _END

    def is_(self, at: int, *marks: str) -> bool:
        """Return whether the token at an index is one of these marks or names."""
        return at < self.end and self.tokens[at].text in marks and self.tokens[at].kind in ("mark", "name")

    def name_at(self, at: int) -> str:
        """Return the name at an index; empty if another token is there."""
        return self.tokens[at].text if at < self.end and self.tokens[at].kind == "name" else ""

    def closing(self, at: int) -> int:
        """Return the index of the bracket that closes the one at an index."""
        return self._closings.get(at, self.end)

    def past(self, at: int) -> int:
        """Return the index after line breaks and words that do not change a value."""
        while at < self.end and (self.tokens[at].kind == "line" or self.tokens[at].text in _PASSED_OVER):
            at += 1
        return at

    def _end_of_block(self, at: int, after: int) -> int:
        """Return the end of a block of lines that are indented more than the one at an index."""
        before = at
        while before >= 0 and self.tokens[before].kind != "line":
            before -= 1
        indentation = len(self.tokens[before].text) if before >= 0 else 0
        on_one_line = self.at(after + 1).kind != "line"
        for end in range(after + 1, self.end):
            token = self.tokens[end]
            is_code = end + 1 < self.end and self.tokens[end + 1].kind != "line"
            if token.kind == "line" and (on_one_line or (is_code and len(token.text) <= indentation)):
                return end
        return max(after + 1, self.end)

    def import_line(self, at: int) -> tuple[list[Token], int]:
        """Return the rest of an import, which may continue within brackets, and the index after it."""
        line: list[Token] = []
        while at < self.end and len(line) < _MAX_IMPORT_TOKENS:
            token = self.tokens[at]
            if token.text == ";" or (token.kind == "line" and not (line and line[-1].text in (",", "(", "{"))):
                break
            if token.kind != "line":
                line.append(token)
            at += 1
        return line, at

    def function(self, at: int) -> Function:
        """Return the function whose `def`, `function` or similar word is at an index."""
        after = at + 2
        parameters: list[str] = []
        if self.is_(after, "("):
            close = self.closing(after)
            parameters = _parameters(self.tokens[after + 1 : close])
            after = close + 1
        start = after
        while after < self.end and self.tokens[after].text not in ("{", ":") and self.tokens[after].kind != "line":
            after += 1
        end = self.closing(after) if self.is_(after, "{") else self._end_of_block(at, after)
        return Function(tuple(name for name in parameters if name != "self"), start, end)


def _pairs(read: Sequence[Token]) -> dict[int, int]:
    """Return the index of the closing bracket by the index of the opening one."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(read):
        if token.kind == "mark":
            if token.text in "([{":
                opened.append(at)
            elif token.text in ")]}" and opened:
                found[opened.pop()] = at
    return found


def imported(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each imported name with its alias, or an empty text."""
    name, alias, is_alias = "", "", False
    for word in (*texts, ","):
        if word in _SEPARATE_IMPORTS:
            if name:
                yield name, alias
            name, alias, is_alias = "", "", False
        elif word == "as":
            is_alias = True
        elif is_alias:
            alias = word
        else:
            name += word


def _parameters(read: Sequence[Token]) -> list[str]:
    """Return the names of a function's parameters, without their types and defaults."""
    found: list[str] = []
    is_named = False
    for token in read:
        if token.text in (",", "("):
            is_named = False
        elif token.text in (":", "="):
            is_named = True
        elif token.kind == "name" and not is_named:
            found.append(token.text)
            is_named = True
    return found
