"""The conditions of tripwires, such as `args.amount > 500 and not (args.account matches "test-*")`.

A small language: the only names are those of the call, the only functions `has`, `len` and `lower`, and every condition
ends after at most as many steps as it has tokens. Python's `eval` guarantees none of this, and the expression languages
that do (CEL) need a parser generator for what is one page here.

    condition   = and { "or" and } ;  and = not { "and" not } ;  not = [ "not" ] comparison
    comparison  = value [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "matches" ) value ]
    value       = number | text | true | false | null | list | path | function "(" value ")" | "(" condition ")"
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from haltline.schemas import expressions as re

MAX_DEPTH: Final = 32
"""Maximum nesting of parentheses."""

ROOTS: Final = frozenset({"action", "args", "targets", "effect", "agent_id", "session_id", "mission_id", "session"})
"""The first names of paths."""

Scope: TypeAlias = Mapping[str, Any]
Condition: TypeAlias = Callable[[Scope], bool]
_Value: TypeAlias = Callable[[Scope], Any]

_TOKEN: Final = re.compile(
    r"""(?<!\s)\s*+(?:(?P<number>(?<![\d.])-?\d+(?:\.\d+)?(?![\w.]))|(?<!\\)(?P<text>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')"""
    r"""|(?P<name>[A-Za-z_]\w*(?:\.[\w-]+)*)|(?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|,))""",
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_RESERVED: Final = frozenset({"and", "or", "not", "in", "matches"})


class Unknown(Exception):
    """A condition that cannot be evaluated for a call: what is missing, or of the wrong type."""


def compiled(text: str, roots: frozenset[str] = ROOTS) -> Condition:
    """Return the condition as a function of a call's fields, which raises Unknown. `roots`: the first names of paths.

    Raises: ValueError: it is invalid; states where, what was expected and what was received.
    """
    parser = _Parser(text, roots)
    value = parser.any_of(0)
    parser.end()

    def condition(scope: Scope) -> bool:
        return _truth(value(scope))

    return condition


class _Parser:
    def __init__(self, text: str, roots: frozenset[str]) -> None:
        self._text = text
        self._roots = roots
        self._tokens = _tokens(text)
        self._at = 0

    def any_of(self, depth: int) -> _Value:
        parts = [self._all_of(depth)]
        while self._take("or"):
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else lambda scope: any(_truth(part(scope)) for part in parts)

    def _all_of(self, depth: int) -> _Value:
        parts = [self._negated(depth)]
        while self._take("and"):
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else lambda scope: all(_truth(part(scope)) for part in parts)

    def _negated(self, depth: int) -> _Value:
        negated = False
        while self._take("not"):
            negated = not negated
        value = self._comparison(depth)
        return (lambda scope: not _truth(value(scope))) if negated else value

    def _comparison(self, depth: int) -> _Value:
        left = self._value(depth)
        sign = self._peek()
        if sign not in _COMPARE:
            return left
        self._at += 1
        right = self._value(depth)
        compare = _COMPARE[sign]
        return lambda scope: compare(left(scope), right(scope))

    def _value(self, depth: int) -> _Value:
        if depth > MAX_DEPTH:
            raise ValueError(f"expected at most {MAX_DEPTH} parentheses in each other, got more")
        kind, token = self._next()
        if kind == "number":
            number = float(token) if "." in token else int(token)
            return lambda _: number
        if kind == "text":
            text = re.sub(r"\\(.)", r"\1", token[1:-1])
            return lambda _: text
        if token == "(":
            inner = self.any_of(depth + 1)
            self._want(")")
            return inner
        if token == "[":
            return self._list(depth)
        if kind == "name" and token not in _RESERVED:
            return self._named(token, depth)
        raise ValueError(f"expected a value, got {token!r} in {self._text!r:.120}")

    def _list(self, depth: int) -> _Value:
        items: list[_Value] = []
        while self._peek() != "]":
            items.append(self._value(depth + 1))
            if not self._take(","):
                break
        self._want("]")
        return lambda scope: [item(scope) for item in items]

    def _named(self, name: str, depth: int) -> _Value:
        if name in _WORDS:
            word = _WORDS[name]
            return lambda _: word
        if self._peek() == "(":
            if name not in _FUNCTIONS:
                raise ValueError(f"expected {', '.join(_FUNCTIONS)}, got {name!r} in {self._text!r:.120}")
            self._at += 1
            value = self.any_of(depth + 1)
            self._want(")")
            function = _FUNCTIONS[name]
            return lambda scope: function(value, scope)
        steps = name.split(".")
        if steps[0] not in self._roots:
            raise ValueError(f"expected a path that begins with {', '.join(sorted(self._roots))}, got {name!r}")
        return lambda scope: _looked_up(scope, steps)

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise ValueError(f"expected a value, got the end of {self._text!r:.120}")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, token: str) -> bool:
        found = self._peek() == token and self._tokens[self._at][0] != "text"
        self._at += found
        return found

    def _want(self, token: str) -> None:
        if not self._take(token):
            raise ValueError(f"expected {token!r}, got {self._peek() or 'the end'!r} in {self._text!r:.120}")

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise ValueError(f"expected 'and', 'or' or the end, got {self._peek()!r} in {self._text!r:.120}")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"expected a word, a number, a text or a sign, got {text[at:].lstrip()[:20]!r}")
        tokens.append((found.lastgroup, found[found.lastgroup]))
        at = found.end()
    return tokens


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
        return compare(_number(left), _number(right))

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


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": _ordered(lambda left, right: bool(left < right)),
    "<=": _ordered(lambda left, right: bool(left <= right)),
    ">": _ordered(lambda left, right: bool(left > right)),
    ">=": _ordered(lambda left, right: bool(left >= right)),
    "in": _contained,
    "matches": _matched,
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
