"""Python source that is edited by insertions at places of its syntax tree; all else is unchanged."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

_LAYOUT: Final = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})
Statement = ast.stmt
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


class CannotEdit(ValueError):
    """The program's form cannot be edited; the message is the reason."""


@dataclass
class Source:
    """A program, with LF line ends. Raises CannotEdit if it is not Python."""

    text: str
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.tree = ast.parse(self.text)
            self.tokens = list(tokenize.generate_tokens(io.StringIO(self.text).readline))
        except (SyntaxError, tokenize.TokenError, ValueError, RecursionError, MemoryError) as error:
            raise CannotEdit(f"expected a Python program, got: {error}") from error
        self._lines = self.text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._edits: list[tuple[int, int, str]] = []

    # Places.

    def offset(self, line: int, column: int) -> int:
        """The offset of a place from `ast`, whose columns are bytes of UTF-8."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The offsets of a node's beginning and end."""
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0),
        )

    def first_line(self, statement: Statement) -> int:
        """The first line of a statement, including its decorators."""
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        return min([statement.lineno, *(one.lineno for one in decorators)])

    def indent(self, statement: Statement) -> str:
        """The indentation of a statement. Raises CannotEdit if another statement precedes it on the line."""
        line = self._lines[self.first_line(statement) - 1]
        before = line[: len(line) - len(line.lstrip())]
        column = min([statement.col_offset, *(one.col_offset - 1 for one in getattr(statement, "decorator_list", []))])
        if len(before) != column:
            raise CannotEdit(f"line {statement.lineno}: expected a statement on a line of its own")
        return before

    def closing(self, call: ast.Call) -> tuple[int, int, bool, bool]:
        """The ends of a call's last inner token and of the call, whether it has arguments, and a comma after them."""
        end = self.span(call)[1]
        inside = [one for one in self._by_end if one[0] <= end and one[2].type not in _LAYOUT]
        if not inside or inside[-1][0] != end or inside[-1][2].string != ")":
            raise CannotEdit(f"line {call.lineno}: expected a call that ends with a parenthesis")
        last_end, _, last = inside[-2]
        empty = not call.args and not call.keywords
        return last_end, end - 1, not empty, last.string == "," and not empty

    @cached_property
    def _by_end(self) -> list[tuple[int, int, tokenize.TokenInfo]]:
        """Tokens sorted by their end; columns of `tokenize` are in characters."""
        return [
            (self._starts[one.end[0] - 1] + one.end[1], self._starts[one.start[0] - 1] + one.start[1], one)
            for one in self.tokens
            if one.string
        ]

    # Changes.

    def insert(self, at: int, text: str, *, first: bool = False) -> None:
        """Insert a text at an offset. Later insertions at one offset come later, or before all others with `first`."""
        count = len(self._edits) + 1
        self._edits.append((at, -count if first else count, text))

    def line_start(self, line: int) -> int:
        """The offset at which a line begins; the line after the last is at the end."""
        return min(self._starts[line - 1], len(self.text))

    def lines_of(self, statement: Statement) -> Iterator[int]:
        """The lines of a statement that may be indented. Raises CannotEdit if it has a multi-line string."""
        first, last = self.first_line(statement), statement.end_lineno or statement.lineno
        for one in self.tokens:
            if one.start[0] < one.end[0] and first <= one.start[0] <= last and one.type not in _LAYOUT:
                raise CannotEdit(f"line {one.start[0]}: expected a statement without a text of several lines")
        if self._lines[last - 1].rstrip().endswith("\\"):
            raise CannotEdit(f"line {last}: expected a statement that ends with its line")
        yield from range(first, last + 1)

    def result(self) -> str:
        """The program with its changes. Raises CannotEdit if the result is not valid, or a comment is lost."""
        pieces, at = [], 0
        for place, _, text in sorted(self._edits):
            pieces += [self.text[at:place], text]
            at = place
        new = "".join([*pieces, self.text[at:]])
        try:
            changed = Source(new)
            compile(new, "program", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise CannotEdit(f"expected a result that compiles, got: {error}") from error
        comments = [sorted(t.string for t in one.tokens if t.type == tokenize.COMMENT) for one in (self, changed)]
        if comments[0] != comments[1]:
            raise CannotEdit("expected every comment in the result, got others")
        return new

    # Content.

    @cached_property
    def imported(self) -> dict[str, str]:
        """The qualified name of each imported name: `pydantic_ai.Agent` for `Agent`."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    found[one.asname or one.name.partition(".")[0]] = (
                        one.name if one.asname else one.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        return found

    @cached_property
    def modules(self) -> set[str]:
        """All imported modules and their imported members."""
        plain = {one.name for node in ast.walk(self.tree) if isinstance(node, ast.Import) for one in node.names}
        return plain | set(self.imported.values())

    @cached_property
    def bound(self) -> dict[str, int]:
        """Each name that the program binds anywhere, with a line where it does."""
        found = {}
        for node in ast.walk(self.tree):
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = line
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[node.name] = line
            elif isinstance(node, ast.arg):
                found[node.arg] = line
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found |= {one.asname or one.name.partition(".")[0]: line for one in node.names}
        return found

    def dotted(self, expression: ast.expr) -> str:
        """The qualified name of a called expression, without type parameters; empty if it has none."""
        parts: list[str] = []
        while isinstance(expression, ast.Attribute | ast.Subscript):
            if isinstance(expression, ast.Attribute):
                parts.append(expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name) or expression.id not in self.imported:
            return ""
        return ".".join([self.imported[expression.id], *reversed(parts)])

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call, in the order of the text, except in f-strings, where offsets are unreliable."""
        inside = {
            id(below) for node in ast.walk(self.tree) if isinstance(node, ast.JoinedStr) for below in ast.walk(node)
        }
        return [call for call in self.every_call if id(call) not in inside]

    @cached_property
    def every_call(self) -> list[ast.Call]:
        """Like `calls`, including calls inside f-strings."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return sorted(found, key=lambda one: (one.lineno, one.col_offset))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node."""
        return {below: node for node in ast.walk(self.tree) for below in ast.iter_child_nodes(node)}

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The node and its ancestors."""
        yield node
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement_of(self, node: ast.AST) -> Statement:
        """The statement that contains a node."""
        return next(one for one in self.above(node) if isinstance(one, ast.stmt))


def normal(text: str) -> tuple[str, str]:
    """The text with LF, and its original line end. Raises CannotEdit for mixed line ends."""
    if text.startswith("\ufeff"):
        raise CannotEdit("expected UTF-8 without a byte order mark, got one")
    ends = set(re.findall(r"\r\n|\r|\n", text))
    if len(ends) > 1 or "\r" in ends:
        raise CannotEdit(f"expected one kind of line ends, LF or CRLF, got {', '.join(sorted(map(repr, ends)))}")
    return text.replace("\r\n", "\n"), next(iter(ends), "\n")
