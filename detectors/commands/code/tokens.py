r"""One tokenizer for small programs in any language.

A parser for each language would be more precise, but its results would vary with its release (Python's own `ast`
rejects the syntax of newer versions). This one always reads the same: names, strings, punctuation and lines.

Misses: strings that only the language's grammar separates from punctuation (regular expressions of JavaScript and Perl,
`%q{}`, heredocs of Perl, PHP and Ruby), character escapes other than `\x72` and `\u0072`.
"""

from collections.abc import Callable
from typing import NamedTuple

from haltline.detectors.commands.rows import expression_of
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_TOKEN = r"""[^\S\n]*+(?:
    (?P<name>(?!qw\b)[^\W\d]\w*+(?!['"`])|[$@][^\W\d]\w*)
    |(?P<line>\n[ \t]*)
    |(?P<comment>\\\n|/\*.*?(?:\*/|\Z)|<\#.*?(?:\#>|\Z)|COMMENT[^\n]*)
    |(?P<words>\bqw\s*(?:\([^)]*+\)?|\[[^\]]*+\]?|\{[^}]*+\}?|/[^/]*+/?)|%[wWx](?:\([^)]*+\)?|\[[^\]]*+\]?|\{[^}]*+\}?))
    |(?P<text>(?P<prefix>[rRbBuUfF]{0,2})(?:'''[^\\']*+(?:(?:\\.?+|'(?!''))[^\\']*+)*+(?:'''|\Z)
        |\"\"\"[^\\"]*+(?:(?:\\.?+|"(?!""))[^\\"]*+)*+(?:\"\"\"|\Z)
        |'[^'\\\n]*+(?:\\.?+[^'\\\n]*+)*+(?:'|(?=\n)|\Z)|"[^"\\]*+(?:\\.?+[^"\\]*+)*+(?:"|\Z)|`[^`\\]*+(?:\\.?+[^`\\]*+)*+(?:`|\Z)))
    |(?P<name_>[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<end>\Z)
    |(?P<mark>=>|==|!=|<=|>=|\+=|&&|\|\||->|::|\?\.|[^\w\s]))"""
_BY_LINES, _BY_BRACES = (
    re.compile(_TOKEN.replace("COMMENT", begin), re.VERBOSE | re.DOTALL)
    for begin in (r"\#(?!\{)", r"(?://|\#(?=[!\ ]))")
)
"""The tokens of languages with indented blocks, where `//` is a division, and of others, where `#x` is a private name.
"""
_BRACES = expression_of("a line of a language with braces", re.MULTILINE)
_PYTHON = expression_of("a line of Python", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.)|\n)", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_FILLED = re.compile(r"[$#]?\{([^\W\d][\w.]*+)[^{}]*+\}")


class Token(NamedTuple):
    """A name, a string, a number, a punctuation mark, or the start of a line with its indentation."""

    kind: str
    text: str
    prefix: str = ""
    quote: str = ""


_MEMBER = Token("mark", ".")


def tokens(text: str, work: StepBudget | None = None) -> list[Token]:
    """Return the tokens of a program without comments, within the step budget."""
    work = work or StepBudget()
    braces = _PYTHON.search(text) is None and _BRACES.search(text) is not None
    found: list[Token] = []
    known: dict[str, Token] = {}  # most tokens repeat
    for match in (_BY_BRACES if braces else _BY_LINES).finditer(text):
        if not work.take():
            break
        if match.lastgroup in ("comment", "end"):
            continue
        source = match[match.lastindex or 0]
        token = known.get(source)
        if token is None:
            token = known[source] = _token(match, source)
        if source == "\\" and found and found[-1].kind == "name":
            token = _MEMBER  # the namespace separator of PHP
        found.append(token)
    return found


def _token(match: re.Match[str], source: str) -> Token:
    kind = match.lastgroup or ""
    if kind == "words":
        return _words(source)
    if kind == "text":
        return _text(match)
    if source in ("::", "?.", "->"):
        return _MEMBER
    return Token("line", source[1:]) if kind == "line" else Token(kind.rstrip("_"), source)


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
