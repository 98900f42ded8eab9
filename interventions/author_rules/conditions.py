"""The conditions of tripwires, such as `args.amount > 500 and not (args.account matches "test-*")`.

They are read by Python's parser, and nothing of them is run by Python: the only names are those of the call, the only
functions `has`, `len` and `lower`, and every condition ends after at most as many steps as it has parts.

    condition   = [ "not" ] comparison | condition ( "and" | "or" ) condition | "(" condition ")"
    comparison  = value [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "matches" ) value ]
    value       = number | text | true | false | null | list | path | function "(" value ")" | "(" condition ")"
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, TypeAlias

from haltline.schemas import expressions as re

MAX_DEPTH: Final = 32
"""Maximum nesting of conditions and lists."""

ROOTS: Final = frozenset({"action", "args", "targets", "effect", "agent_id", "session_id", "mission_id", "session"})
"""The first names of paths."""

Scope: TypeAlias = Mapping[str, Any]
Condition: TypeAlias = Callable[[Scope], bool]
_Value: TypeAlias = Callable[[Scope], Any]

_TOKEN: Final = re.compile(
    r"""(?<!\\)(?P<text>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')|(?<![\w.])[A-Za-z_]\w*(?:\.[\w-]+)*""", re.DOTALL
)
_WORDS: Final = {"true": "True", "false": "False", "null": "None", "matches": "@"}
"""What is written otherwise in Python."""


class Unknown(Exception):
    """A condition that cannot be evaluated for a call: what is missing, or of the wrong type."""


def compiled(text: str, roots: frozenset[str] = ROOTS) -> Condition:
    """Return the condition as a function of a call's fields, which raises Unknown. `roots`: the first names of paths.

    Raises: ValueError: it is invalid; states where, what was expected and what was received.
    """
    try:
        value = _read(ast.parse(f"({_TOKEN.sub(_as_python, text)})", mode="eval").body, roots)
    except (SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"expected a condition, got {text!r:.120}") from None

    def condition(scope: Scope) -> bool:
        return _truth(value(scope))

    return condition


def _as_python(token: "re.Match[str]") -> str:
    """Return a text or a word as Python writes it; a path is one subscript for each step, which may have a hyphen."""
    if token["text"] is not None:
        return repr(re.sub(r"\\(.)", r"\1", token[0][1:-1]))
    first, *steps = token[0].split(".")
    return _WORDS.get(token[0]) or "".join((first, *(f"[{step!r}]" for step in steps)))


def _read(node: ast.AST, roots: frozenset[str], depth: int = 0) -> _Value:
    """Return the value of a part of a condition, as a function of a call's fields."""
    if depth > MAX_DEPTH:
        raise ValueError(f"expected at most {MAX_DEPTH} conditions in each other, got more")
    read = partial(_read, roots=roots, depth=depth + 1)
    match node:
        case ast.BoolOp(op=op, values=values):
            parts, joined = [read(one) for one in values], any if isinstance(op, ast.Or) else all
            return lambda scope: joined(_truth(part(scope)) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            negated = read(operand)
            return lambda scope: not _truth(negated(scope))
        case ast.Compare(left=left, ops=[op], comparators=[right]) | ast.BinOp(left=left, op=op, right=right) if (
            type(op) in _COMPARE
        ):
            one, compare, other = read(left), _COMPARE[type(op)], read(right)
            return lambda scope: compare(one(scope), other(scope))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return lambda _: -number
        case ast.Constant(value=str() | int() | float() | None as constant):
            return lambda _: constant
        case ast.List(elts=elts):
            items = [read(one) for one in elts]
            return lambda scope: [item(scope) for item in items]
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            function, value = _FUNCTIONS[name], read(argument)
            return lambda scope: function(value, scope)
        case ast.Name() | ast.Subscript():
            steps = tuple(_steps(node))
            if steps[0] not in roots:
                raise ValueError(f"expected a path that begins with {', '.join(sorted(roots))}, got {steps[0]!r}")
            return lambda scope: _looked_up(scope, steps)
    raise ValueError(f"expected a condition or a value, got {ast.unparse(node)!r:.80}")


def _steps(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Subscript(value=before, slice=ast.Constant(value=str() as step)):
            yield from _steps(before)
            yield step
        case _:
            raise ValueError(f"expected a path, got {ast.unparse(node)!r:.80}")


def _looked_up(scope: Scope, steps: Sequence[str]) -> Any:
    value: Any = scope
    for number, step in enumerate(steps, start=1):
        if not isinstance(value, Mapping) or step not in value:
            raise Unknown(f"{'.'.join(steps[:number])} is missing")
        value = value[step]
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unknown(f"expected true or false, got {type(value).__name__}")
    return value


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return compare(left, right)
        return bool(compare(_number(left), _number(right)))

    return ordered


def _number(value: Any) -> int | float:
    if isinstance(value, str):  # "500", as a model may write it, counts as a number
        try:
            return float(value)
        except ValueError:
            pass
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:  # noqa: PLR0124 - NaN
        raise Unknown(f"expected a number, got {type(value).__name__}")
    return value


def _contained(left: Any, right: Any) -> bool:
    if isinstance(right, str) and not isinstance(left, str):
        raise Unknown(f"expected a text in a text, got {type(left).__name__}")
    if not isinstance(right, (list, tuple, str, Mapping)):
        raise Unknown(f"expected a list or a text after 'in', got {type(right).__name__}")
    return left in right


def _matched(left: Any, right: Any) -> bool:
    """Return whether a text, or one of a list, matches a glob."""
    texts = left if isinstance(left, (list, tuple)) else [left]
    if not isinstance(right, str) or not all(isinstance(text, str) for text in texts):
        raise Unknown("expected texts on both sides of 'matches'")
    return any(fnmatchcase(text, right) for text in texts)


_COMPARE: Final[Mapping[type[ast.AST], Callable[[Any, Any], bool]]] = {
    ast.Eq: lambda left, right: bool(left == right),
    ast.NotEq: lambda left, right: bool(left != right),
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: _contained,
    ast.MatMult: _matched,
}


def _has(value: _Value, scope: Scope) -> bool:
    try:
        value(scope)
    except Unknown:
        return False
    return True


def _len(value: _Value, scope: Scope) -> int:
    found = value(scope)
    if not isinstance(found, (str, list, tuple, Mapping)):
        raise Unknown(f"expected a text or a list, got {type(found).__name__}")
    return len(found)


def _lower(value: _Value, scope: Scope) -> str:
    found = value(scope)
    if not isinstance(found, str):
        raise Unknown(f"expected a text, got {type(found).__name__}")
    return found.lower()


_FUNCTIONS: Final[Mapping[str, Callable[[_Value, Scope], Any]]] = {"has": _has, "len": _len, "lower": _lower}
