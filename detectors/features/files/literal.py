"""Text that a session writes to a file word for word: by a writing tool, with `echo`, or as a here-document.

Misses: text assembled from parts; `>>`; here-documents with shell substitutions.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from haltline.detectors.commands.rows import expression_of, texts_of, words_of
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading

if TYPE_CHECKING:
    from haltline.detectors.features.observation import Observation

_READ_CHARS = 8192
_MAX_PATH_CHARS = 160
_MAX_FILES = 8
"""Maximum number per action."""
_WRITES = frozenset((None, Effect.WRITE, Effect.MUTATE))
_ADDS = re.compile(r"insert|append|search|find|message|comment", re.IGNORECASE)
"""Tools that take a path and a text, but do not replace the whole file with it."""

_PATH = r"[\w./~+@%-]+"
_ECHO = re.compile(
    r"(?:^|[;&\n])[ \t]*(?:sudo +)?(?:echo|printf)(?P<options>(?: +-\w+)*) +"
    r"""(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\$`]|\\.)*)"|(?P<bare>[^\s"'$`|&;<>()*?\\-][^"'$`|&;<>()*?\\\n]*+))"""
    rf" *> *(?P<path>{_PATH})[ \t]*(?=$|[;&\n])"
)
_END = r"<<-? *(?P<q{0}>['\"]?)(?P<end{0}>\w++)(?P=q{0})"
_HEREDOC = re.compile(
    r"(?:^|[;&\n(])[ \t]*(?:sudo +)?"
    rf"(?:cat *> *(?P<path1>{_PATH}) *{_END.format(1)}|cat *{_END.format(2)} *> *(?P<path2>{_PATH})"
    rf"|tee +(?P<path3>{_PATH}) *{_END.format(3)})[^\n]*\n"
)
_REPLACED = re.compile(r"\$\(|`")

_MAX_PLACEHOLDER_CHARS = 200
_COMMENT = re.compile(r"^(?:#+|//+|/\*+|<!--|--)\s*|(?:(?<!\s)\s+)?(?:\*/|-->)$")
_BRACKETED = re.compile(r"\A[\[<(]\s*+([^\[\]<>(){}=\"\n]{3,100}?)\s*[\])>]")
_ALPHABETIC = re.compile(r"[a-z]+")
_SAYS_SO = frozenset(("placeholder", "redacted", "here", "omitted", "insert", "unavailable"))
_CONTENTS = frozenset(("content", "contents", "binary", "truncated", "inserted", *_SAYS_SO))
_SORTS = words_of("kinds of contents")
_SENTENCE = expression_of("a sentence about the data", re.IGNORECASE)
_LATER = re.compile(r"\b(?:future|later|coming soon|todo|not (?:yet )?implemented)\b", re.IGNORECASE)
_BRACKETS_OF_ITS_OWN = texts_of("ends of files with brackets of their own")
_MEANT_SO = expression_of("a file may be empty", re.IGNORECASE)
"""Files that may be empty on purpose: templates, fixtures, notes."""


class Written(NamedTuple):
    """A file with its whole content as given in the call, which may be truncated."""

    path: str
    text: str


def written(act: "Observation") -> tuple[Written, ...]:
    """The files that an attempt writes word for word."""
    if act.runs:
        text = act.text
        if (">" not in text and "tee" not in text) or act.tool.reading is not Reading.SHELL:
            return ()
        if "echo" not in text and "printf" not in text and "<<" not in text:
            return ()
        return tuple(_by_shell(text[:_READ_CHARS]))[:_MAX_FILES]
    args = act.args
    if not args or act.tool.effect not in _WRITES:
        return ()
    use = act.tool.use
    if _ADDS.search(act.action) if use is None else use.old:
        return ()
    names = (tools.arguments("path"), tools.arguments("content")) if use is None else (use.paths, use.content)
    path, content = (next((args[n] for n in some if isinstance(args.get(n), str)), None) for some in names)
    if content is None or path is None or not 0 < len(path) <= _MAX_PATH_CHARS:
        return ()
    return (Written(path, content),)


def _by_shell(text: str) -> Iterator[Written]:
    for found in _ECHO.finditer(text) if "echo" in text or "printf" in text else ():
        content = found["single"] or found["double"] or (found["bare"] or "").rstrip(" ")
        makes_bytes = "\\" in content and ("e" in found["options"] or "printf" in found[0])
        if not makes_bytes and len(found["path"]) <= _MAX_PATH_CHARS and not found["path"].startswith("/dev/"):
            yield Written(found["path"], content)
    for found in _HEREDOC.finditer(text) if "<<" in text else ():
        number = 1 if found["path1"] else 2 if found["path2"] else 3
        path, is_quoted, word = found[f"path{number}"], found[f"q{number}"], found[f"end{number}"]
        content = text[found.end() - 1 :].partition(f"\n{word}")[0][1:]
        if len(path) <= _MAX_PATH_CHARS and (is_quoted or not _REPLACED.search(content)):
            yield Written(path, content)


def is_placeholder(path: str, text: str) -> bool:
    """Return whether the whole content of a file only describes what should be there: `[contents of a.zip]`."""
    if len(text) > _MAX_PLACEHOLDER_CHARS or _MEANT_SO.search(path):
        return False
    text_left = _COMMENT.sub("", text.strip())
    if text_left in {"...", "…"}:
        return not path.endswith((".py", ".pyi"))  # in these it is a statement
    if _LATER.search(text_left):
        return False
    found = _BRACKETED.fullmatch(text_left)
    if found is None:
        return _SENTENCE.fullmatch(text_left) is not None
    words = _ALPHABETIC.findall(found[1].lower())
    if path.lower().endswith(_BRACKETS_OF_ITS_OWN):
        return len(words) > 1 and not _SAYS_SO.isdisjoint(words)
    return not _CONTENTS.isdisjoint(words) or (len(words) > 1 and not _SORTS.isdisjoint(words))
