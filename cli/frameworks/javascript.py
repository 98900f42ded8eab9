"""Puts an agent in JavaScript or TypeScript behind a guard, using the tokens of Pygments; all else is unchanged."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from pygments.lexers.javascript import TypeScriptLexer  # type: ignore[import-untyped]  # no types; rich brings it
from pygments.token import Comment, Name, String, Whitespace  # type: ignore[import-untyped]  # as above

from haltline.cli.frameworks.rows import Framework, WrapArgument
from haltline.cli.frameworks.source import CannotEdit, normal

ENDINGS: Final = (".js", ".mjs", ".ts", ".mts", ".tsx", ".jsx")
_OPENS: Final = {"(": ")", "[": "]", "{": "}", "${": "}"}


class _Token(NamedTuple):
    at: int
    text: str
    kind: object

    @property
    def end(self) -> int:
        return self.at + len(self.text)


def imports_haltline(text: str) -> bool:
    """Return whether a program imports the npm package."""
    return any(module.partition("/")[0] == "haltline" for _, module, _, _ in _imports(_tokens(text)))


def guarded_javascript(text: str, framework: Framework, change: WrapArgument, agent_id: str, file: str) -> str:
    """The program with the argument of each such call wrapped in `guarded(..., session)`. Raises CannotEdit."""
    if not file.endswith(ENDINGS):
        raise CannotEdit(f"expected a program in JavaScript or TypeScript, got {file}")
    plain, line_end = normal(text)
    tokens = _tokens(plain)
    imports = list(_imports(tokens))
    names: dict[str, str] = {}
    for of, module, _, _ in imports:
        if module in change.modules:
            names |= of
    for name in names.values():
        if name in change.unguarded:
            raise CannotEdit(f"expected no {name}, got one: {change.unguarded[name]}")
    after = max((last for _, _, _, last in imports), default=-1) + 1
    taken = {token.text for token in tokens if token.kind in Name}
    if "guarded" in taken or "httpSession" in taken:
        raise CannotEdit("expected no guarded and no httpSession of the program's own, got one")
    session = next(name for name in ("session", "haltlineSession", "_haltlineSession") if name not in taken)
    edits = []
    for place, token in enumerate(tokens[after:], start=after):
        if names.get(token.text) not in change.calls or token.kind not in Name or tokens[place - 1].text in {".", "?."}:
            continue
        if place + 1 == len(tokens) or tokens[place + 1].text != "(":
            line = plain.count("\n", 0, token.at) + 1
            raise CannotEdit(f"line {line}: expected {token.text} only in calls that can be changed, got another use")
        edits += [(tokens[place + 1].end, "guarded("), (_end_of_argument(plain, tokens, place + 1), f", {session})")]
    if not edits:
        raise CannotEdit(
            f"expected a call of {', '.join(change.calls)}, imported from {' or '.join(change.modules)}; got none"
        )
    setup = [line.format(agent_id=agent_id).replace("const session", f"const {session}") for line in framework.setup]
    edits.append((tokens[after - 1].end, "".join(f"\n{line}" for line in setup)))
    for at, new in sorted(edits, reverse=True):
        plain = plain[:at] + new + plain[at:]
    return plain.replace("\n", line_end)


def _tokens(text: str) -> list[_Token]:
    """The significant tokens; a quoted string is one token."""
    found: list[_Token] = []
    for at, kind, part in TypeScriptLexer().get_tokens_unprocessed(text):
        if kind in Comment or kind in Whitespace or not part.strip():
            continue
        if _is_text(kind) and found and _is_text(found[-1].kind) and found[-1].end == at:
            found[-1] = _Token(found[-1].at, found[-1].text + part, kind)
        elif kind in Name or kind in String or part.isidentifier():
            found.append(_Token(at, part, kind))
        else:  # Pygments may join several signs, such as `})`
            signs = [part] if part in {"?.", "=>"} else part
            found += [_Token(at + n, sign, kind) for n, sign in enumerate(signs)]
    return found


def _is_text(kind: object) -> bool:
    return kind in String and kind not in String.Interpol


def _imports(tokens: list[_Token]) -> Iterator[tuple[dict[str, str], str, int, int]]:
    """For each import at the program's beginning: original names by local name, module, first and last token."""
    at = 0
    while at < len(tokens):
        if tokens[at].text in {";"} or (tokens[at].kind in String and at + 1 < len(tokens)):  # such as "use strict";
            at += 1
            continue
        if tokens[at].text != "import":
            return
        end = next((n for n in range(at, len(tokens)) if tokens[n].kind in String), None)
        if end is None or tokens[at + 1].text == "(":
            return
        words = [token.text for token in tokens[at + 1 : end]]
        names: dict[str, str] = {}
        if "{" in words and words[0] != "type":
            for part in " ".join(words[words.index("{") + 1 : words.index("}")]).split(","):
                name = part.removeprefix("type ").split()
                names |= {name[-1]: name[0]} if name else {}
        last = end + (end + 1 < len(tokens) and tokens[end + 1].text == ";")
        yield names, tokens[end].text.strip("'\""), at, last
        at = last + 1


def _end_of_argument(text: str, tokens: list[_Token], opens: int) -> int:
    """The end of a call's only argument. Raises CannotEdit if there are none, several, or a spread one."""
    waits: list[str] = []
    comma = None
    for place in range(opens, len(tokens)):
        sign = tokens[place].text
        if _is_text(tokens[place].kind):
            continue
        if sign in _OPENS:
            waits.append(_OPENS[sign])
        elif sign in _OPENS.values():
            if waits.pop() != sign:
                break
            if not waits:
                last = tokens[place - 1] if comma is None else tokens[comma - 1]
                if place == opens + 1 or tokens[opens + 1].text == "." or comma not in (None, place - 1):
                    break
                return last.end
        elif sign == "," and len(waits) == 1:
            comma = comma or place
    line = text.count("\n", 0, tokens[opens].at) + 1
    raise CannotEdit(f"line {line}: expected a call with one argument, got another one")
