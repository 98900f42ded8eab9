r"""A filter that rejects most harmless command lines in about a microsecond.

A line that passes is parsed in full; a rejected line is assumed to destroy nothing. So every word that a reader of this
package acts upon is in a set here: a test compares the two on generated command lines. Words are compared in lower
case, as written and again without quotes, since `r'm'` and `r\m` are `rm` to a shell.

Misses: a word that is concatenated by `xargs -I` or `find -exec` (`r{}`).
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from haltline.detectors.commands.code import cues, scripts
from haltline.detectors.commands.effects.programs import TABLE
from haltline.detectors.commands.effects.statements import MAYBE
from haltline.detectors.commands.model import cached_by_text
from haltline.detectors.commands.programs import databases, git, http
from haltline.detectors.commands.programs.table import READERS
from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.commands.shell import decoding
from haltline.detectors.commands.shell.only_write import WRITTEN_FILE
from haltline.detectors.commands.shell.wrappers import SYNONYMS
from haltline.schemas import expressions as re

_FIRST = re.compile(r"[a-z0-9_]+")


def _pieces(names: Iterable[str]) -> frozenset[bytes]:
    """Return the names as words of a command line; of several words the first."""
    return frozenset(_FIRST.findall(name.lower())[0].encode() for name in names)


_NAMES_OF_CLIENTS = (*databases.TOOLS, *(name for name, same in SYNONYMS.items() if same[0] in databases.TOOLS))
_DESTROYS = (
    _pieces(words_of("verbs of programs that destroy") | words_of("verbs of scripts that destroy data"))
    | _pieces(words_of("signs of a loss"))
    | _pieces(frozenset(READERS) - {*_NAMES_OF_CLIENTS} - words_of("programs that destroy with another word"))
)
"""Words that a line is parsed for: verbs, signs in what it runs or writes, and programs with a reader."""
# These are destructive only together with others: see _has_word.
_GIT = _pieces(git.SUBCOMMANDS)
# With one of these the text is checked as code, see _by_script.
_INTERPRETERS = _pieces(f"{name}{version}" for name in (*scripts.PROGRAMS, *http.TOOLS) for version in ("", "2", "3"))
_CLIENTS = _pieces(http.TOOLS)
_CLIENTS_OF_SQL = _pieces(_NAMES_OF_CLIENTS)
_CHANGES_THERE = frozenset(b"post xpost put xput patch xpatch data json d request f form".split())
_PAIRS = tuple(_pieces(pair.split("+")) for pair in words_of("pairs of words that show a loss"))
_FILTER_WORDS = _pieces((*decoding.FILTERS, "tee"))
_WATCHED = frozenset().union(
    _CLIENTS,
    _CLIENTS_OF_SQL,
    TABLE.alone,
    TABLE.needs,
    _DESTROYS,
    _INTERPRETERS,
    _GIT,
    *_PAIRS,
    _FILTER_WORDS,
    (b"git", b"replace"),
)

_WORD_CHARS = b"abcdefghijklmnopqrstuvwxyz0123456789_"
# Lower case; everything but word characters becomes a blank. A byte table is faster than a `str` one.
_SPACED = bytes(low if low in _WORD_CHARS else 32 for low in (bytes([code]).lower()[0] for code in range(256)))
_QUOTES = re.compile(r"""["'\\]+""")
_INSIDE_WORD = re.compile(r"""["'\\](?<=\w["'\\])["'\\\r\n]*+\w""")
_REPLACE = re.compile(r"replace(?![\w(])", re.IGNORECASE)
_DEVICE = expression_of("a device is named")
_SPLIT_BY_BRACES = re.compile(r"\{(?:(?<=\w\{)[^\s{},]*+,[^\s{}]*+\}|[^\s{},]*+,[^\s{}]*+\}\w)")

_WRITES = re.compile(r">(?<!2>)(?!&|[ \t]*/dev/null)")
_CACHED_TEXTS = 8
"""Several rules check the same text in succession."""


@cached_by_text
def may_destroy(text: str) -> bool:
    """Return False if a command line destroys nothing, True if it has to be parsed."""
    if "<<" in text and _has_empty_heredoc(text):
        return True
    if text.startswith("cat "):
        files, rest = written_files(text)
        if files and any(file.rpartition("/")[2] in rest for file in files) and _by_script(text):
            return True  # it executes a file that it writes
        text = rest
    watched = telling_words(text)
    if (watched and _has_word(text, watched)) or ("/dev" in text and _DEVICE.search(text) is not None):
        return True
    if "$" in text and ("=" in text or "$'" in text or "$(" in text or "for " in text or "read" in text):
        return True  # words may be concatenated from variables, escapes or outputs
    if not _FILTER_WORDS.isdisjoint(watched) or "]::" in text:
        return True
    if "\\" in text and ("printf" in text or "echo -" in text) and _ESCAPED.search(text) is not None:
        return True
    if "_" in text and any(verb in text for verb in _BEGIN_SCRIPTS) and _SCRIPT.search(text) is not None:
        return True
    if "{" in text and _SPLIT_BY_BRACES.search(text) is not None:
        return True
    if ">" in text and _WRITES.search(text) is not None:
        return True
    if "\\n" in text and "printf" in text and _has_word(text.replace("\\n", " ").replace("\\t", " ")):
        return True
    if _INSIDE_WORD.search(text) is None:
        return False
    joined = _QUOTES.sub("", text.replace("\\\n", ""))
    return _has_word(joined) or "/dev" in joined


_CELL_RUNS = re.compile(r"\n[^\S\n]*(?:\w+ *= *)?[!%]")
_ALIKE = ("\u0130", "\u0131", "\u017f", "\u212a")
"""The non-ASCII letters that equal an ASCII letter in a pattern that ignores case."""


_BEGIN_SCRIPTS = tuple(words_of("parts of names of scripts that destroy"))
_SCRIPT = expression_of("a script is named after a loss")
_ESCAPED = re.compile(r"\\\\?(?:x|0?[0-7]{2})")


def may_destroy_by_code(text: str, *, backticks: bool = True) -> bool:
    """Return False if a program destroys nothing, True if it has to be parsed. `backticks`: these run something."""
    if ("!" in text or "%" in text) and _CELL_RUNS.search(f"\n{text}") is not None:
        return True
    return cues.may_act(text, _has_word, backticks=backticks)


def may_destroy_by_file(text: str) -> bool:
    """Return False if a file with this text, or one that a command line writes, destroys nothing when it is run."""
    return _has_word(text) or may_destroy_by_code(text)


def is_plain(text: str) -> bool:
    """Return whether a pattern that ignores case finds the same in the text in lower case."""
    return text.isascii() or not any(letter in text for letter in _ALIKE)


def _by_script(text: str) -> bool:
    """Return whether the small programs inside a command line have to be parsed."""
    return cues.may_act(text, lambda _: False, backticks=False)


def written_files(text: str) -> tuple[list[str], str]:
    """Return the files that a text first writes with `cat <<'EOF' > file`, as written, and the rest of the text."""
    files: list[str] = []
    while "\r" not in text:
        found = WRITTEN_FILE.match(text)
        if found is None:
            break
        files.append(found["file"] or found["file_"])
        delimiter = found["end"] or found["end_"]
        end = text.find(f"\n{delimiter}\n", found.end() - 1)
        text = text[end + len(delimiter) + 2 :] if end >= 0 else ""
    return files, text


@lru_cache(maxsize=_CACHED_TEXTS)
def telling_words(text: str) -> frozenset[bytes]:
    """Return the words of a text that any reader of this package looks for."""
    return _WATCHED.intersection(words(text))


@lru_cache(maxsize=_CACHED_TEXTS)
def words(text: str) -> list[bytes]:
    """Return all words of a text, in lower case."""
    data = (text if text.isascii() else text.lower()).encode(errors="surrogatepass")
    return data.translate(_SPACED).split()


def _has_word(text: str, watched: frozenset[bytes] | None = None) -> bool:
    found = _WATCHED.intersection(words(text)) if watched is None else watched
    return bool(found) and (
        not _DESTROYS.isdisjoint(found)
        or (b"git" in found and len(found & _GIT) > 0)
        or any(found >= pair for pair in _PAIRS)
        or (b"replace" in found and _REPLACE.search(text) is not None)
        or (not _INTERPRETERS.isdisjoint(found) and _by_script(text))
        or (not _CLIENTS.isdisjoint(found) and not _CHANGES_THERE.isdisjoint(words(text)))
        or (not _CLIENTS_OF_SQL.isdisjoint(found) and any(piece in text.lower() for piece in MAYBE))
        or TABLE.may_match(words(text), found)
    )


def _has_empty_heredoc(text: str) -> bool:
    """Return whether a here-document ends on the line after its start, or with the text."""
    lines = text.split("\n")
    return "<<" in lines[-1] or any(
        "<<" in begin and (end := line.strip()) != "" and end in begin.partition("<<")[2]
        for begin, line in pairwise(lines)
    )
