r"""One tokenizer for small programs in any language.

A parser for each language would be more precise, but its results would vary with its release (Python's own `ast`
rejects the syntax of newer versions). This one always reads the same: names, strings, punctuation and lines.

Misses: strings that only the language's grammar separates from punctuation (regular expressions of JavaScript and Perl,
`%q{}`, heredocs of Perl, PHP and Ruby), character escapes other than `\x72` and `\u0072`.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from haltline.detectors.commands.step_budget import StepBudget

_TOKEN = re.compile(
    r"""(?P<space>[ \t\f\r]+|\\\n)
    |(?P<line>\n[ \t]*)
    |(?P<comment>/\*.*?(?:\*/|\Z)|<\#.*?(?:\#>|\Z)|//[^\n]*|\#(?!\{)[^\n]*)
    |(?P<words>\bqw\s*(?:\([^)]*+\)?|\[[^\]]*+\]?|\{[^}]*+\}?|/[^/]*+/?)|%[wWx](?:\([^)]*+\)?|\[[^\]]*+\]?|\{[^}]*+\}?))
    |(?P<text>(?P<prefix>[rRbBuUfF]{0,2})(?:'''(?:[^\\]|\\.)*?(?:'''|\Z)|\"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\Z)
        |'(?:[^'\\\n]|\\.)*(?:'|(?=\n)|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)|`(?:[^`\\]|\\.)*(?:`|\Z)))
    |(?P<name>[^\W\d]\w*|\$[^\W\d]\w*|@[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<mark>=>|==|!=|<=|>=|\+=|&&|\|\||->|::|\?\.|[^\w\s])""",
    re.VERBOSE | re.DOTALL,
)
_BRACES = re.compile(
    r"^[ \t]*(?:const|let|var|import\s*\{|import\s+\w+\s+from|package\s|use\s|func\s|fn\s|public\s|\#include|<\?php)|=>"
    r"|\brequire\(|\bawait\b[^;\n]{0,200};|\bfunction\b|\{\s*$|;\s*$",
    re.MULTILINE,
)
_PYTHON = re.compile(
    r"^[ \t]*(?:import[ \t][\w., ]+$|from[ \t]+[\w.]+[ \t]+import|def[ \t]+\w+\("
    r"|with[ \t].+:$|for[ \t].+:$|try:|print\()",
    re.M,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.)|\n)", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_FILLED = re.compile(r"[$#]?\{([^\W\d][\w.]*)[^{}]*\}")


class Token(NamedTuple):
    """A name, a string, a number, a punctuation mark, or the start of a line with its indentation."""

    kind: str
    text: str
    prefix: str = ""
    quote: str = ""


def tokens(text: str, work: StepBudget | None = None) -> list[Token]:
    """Return the tokens of a program without comments, within the step budget."""
    work = work or StepBudget()
    braces = _BRACES.search(text) is not None and _PYTHON.search(text) is None
    found: list[Token] = []
    known: dict[str, Token] = {}
    at, end = 0, len(text)
    while at < end and work.take():
        match = _TOKEN.match(text, at)
        if match is None:
            at += 1
            continue
        kind = match.lastgroup
        at = match.end()
        if kind == "space":
            continue
        if kind in ("name", "number", "mark"):  # most tokens, and most of them repeat
            token_text = match[0]
            if token_text == "\\" and found and found[-1].kind == "name":
                token_text = "::"  # the namespace separator of PHP
            token = known.get(token_text)
            if token is None:
                token = known[token_text] = Token(kind, "." if token_text in ("::", "?.", "->") else token_text)
            found.append(token)
        elif kind == "comment":
            start = match[0][:2]
            if (start == "//" and not braces) or (start[0] == "#" and start != "#!" and braces and start[1:] != " "):
                found.append(Token("mark", start[0]))  # a division, or a private name
                at = match.start() + 1
        elif kind == "line":
            found.append(Token("line", match[0][1:]))
        elif kind == "words":
            found.append(_words(match[0]))
        elif kind in {"text", "prefix"}:
            found.append(_text(match))
    return found


def _words(text: str) -> Token:
    """`qw(a b)` and `%w[a b]` are lists of words, `%x(...)` is a command line."""
    opened = next(at for at, char in enumerate(text) if char in "([{/")
    body = text[opened + 1 :].rstrip(")]}/")
    return Token("text", body, "", "`") if text.startswith("%x") else Token("text", body, "qw", "'")


def _text(match: re.Match[str]) -> Token:
    prefix = match["prefix"].lower()
    body = match["text"][len(prefix) :]
    for quote in ("'''", '"""', "'", '"', "`"):
        if body.startswith(quote):
            body = body[len(quote) :].removesuffix(quote)
            break
    if "r" not in prefix and "\\" in body:
        body = _ESCAPE.sub(_escaped, body)
    return Token("text", body, prefix, quote[:1])


def _escaped(match: re.Match[str]) -> str:
    if match[1] or match[2]:
        return chr(int(match[1] or match[2], 16))
    char = match[3]
    if char is None or char == "\n":
        return ""
    return _PLAIN_ESCAPES.get(char, char if char in "'\"`\\$/" else f"\\{char}")


def fills(token: Token) -> bool:
    """Return whether names in braces in the string are replaced by their values."""
    return "f" in token.prefix or (token.quote == "`" and "${" in token.text) or "#{" in token.text


def filled(text: str, value: Callable[[str], str | None]) -> str:
    """Replace the names in the braces of a text by their values; unknown ones become `$name`."""
    return _FILLED.sub(lambda found: value(found[1]) or f"${found[1]}", text)
