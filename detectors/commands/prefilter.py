r"""A filter that rejects most harmless command lines in about a microsecond.

A line that passes is parsed in full; a rejected line is assumed to destroy nothing. So every word that a reader of this
package acts upon is in a set here: a test compares the two on generated command lines. Words are compared in lower
case, as written and again without quotes, since `r'm'` and `r\m` are `rm` to a shell.

Misses: a word that is concatenated by `xargs -I` or `find -exec` (`r{}`).
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from haltline.detectors.commands.effects.programs import WORDS, may_act
from haltline.detectors.commands.effects.statements import MAYBE
from haltline.detectors.commands.model import cached_by_text
from haltline.detectors.commands.programs import databases, http
from haltline.detectors.commands.programs.table import READERS
from haltline.detectors.commands.rows import words_of
from haltline.detectors.commands.shell.only_write import WRITTEN_FILE
from haltline.detectors.commands.shell.wrappers import SYNONYMS
from haltline.schemas import expressions as re

_FIRST = re.compile(r"[a-z0-9_]+")


def _words(text: str) -> frozenset[bytes]:
    return frozenset(word.encode() for line in text.splitlines() for word in line.partition("# ")[0].split())


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
_GIT = _words("prune hard merge clean checkout restore switch push branch stash reflog filter gc tag worktree update")
# With one of these the text is checked as code, see _by_script.
_INTERPRETERS = _words("""
    python python2 python3 pypy ipython node deno bun ruby perl php lua luajit rscript julia groovy osascript expect
    elixir curl wget rails artisan manage flask mix iex scala wp drush
""")  # fmt: skip
_CLIENTS = _pieces(http.TOOLS)
_CLIENTS_OF_SQL = _pieces(_NAMES_OF_CLIENTS)
_CHANGES_THERE = _words("post xpost put xput patch xpatch data json d request f form")
_PAIRS = tuple(map(_words, (
    "update set", "update unset", "s update", "schema load", "row security", "alter table", "alter database",
    "create policy", "alter role", "alter user",
)))  # fmt: skip
_FILTER_WORDS = _words("base64 gbase64 xxd rev tr")
# Every command line that creates something has one of these, or a redirection.
CREATES = _words("""
    tee touch mkdir cp mv install ln scp dd clone checkout switch branch worktree tag stash wget curl venv virtualenv
    startproject startapp createdb prisma create build run mb sed compose init new add mk up deploy apply converge
    upgrade
""")  # fmt: skip
# These destroy something only with certain destinations.
_MOVERS = _words("mv move mi")
_WATCHED = frozenset().union(
    _CLIENTS, _CLIENTS_OF_SQL, WORDS, _DESTROYS, _INTERPRETERS, _GIT, *_PAIRS, _FILTER_WORDS, _words("git replace")
)
_TELLING = _WATCHED | CREATES | _MOVERS

_WORD_CHARS = b"abcdefghijklmnopqrstuvwxyz0123456789_"
# Lower case; everything but word characters becomes a blank. A byte table is faster than a `str` one.
_SPACED = bytes(low if low in _WORD_CHARS else 32 for low in (bytes([code]).lower()[0] for code in range(256)))
_QUOTES = re.compile(r"""["'\\]+""")
_INSIDE_WORD = re.compile(r"""["'\\](?<=\w["'\\])["'\\\r\n]*+\w""")
_REPLACE = re.compile(r"replace(?![\w(])", re.IGNORECASE)
_DEVICE = re.compile(
    r"/dev(?:(?!/|\w|-)|/(?!null|zero|std|tty|fd|u?random|pts))|(?<![>\s])[ \t]++/dev/null|[<,{]/dev/null|//dev/null"
)
_SPLIT_BY_BRACES = re.compile(r"\{(?:(?<=\w\{)[^\s{},]*+,[^\s{}]*+\}|[^\s{},]*+,[^\s{}]*+\}\w)")

_BEFORE_EMPTY_WRITE = (
    "\n", ";", "&", "|", "(", ")", "{", "!", "`", ":", "true", "then", "do", "else", "elif", "if", "while", "until",
    "coproc", "echo", "echo.", "printf", "printf %s", "break", "-n", "\\n", "/dev/null", "$null", "''", '""',
)  # fmt: skip
_OPENING_QUOTE = re.compile(r"""(?:(?:\A|[\s=(,;|&<])[urbf]?|-\w)["']+\Z""")
_MAX_REDIRECTIONS = 64
_READ_BEFORE = 400
"""The number of characters before a redirection that are searched for its file."""
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
    if "$" in text and ("=" in text or "$'" in text or "for " in text or "read" in text):
        return True  # words may be concatenated from variables or escapes
    if _may_decode(text, watched) or "]::" in text:
        return True
    if not _MOVERS.isdisjoint(watched) and _MOVED_AWAY.search(text) is not None:
        return True
    if "_" in text and any(verb in text for verb in _BEGIN_SCRIPTS) and _SCRIPT.search(text) is not None:
        return True
    if "{" in text and _SPLIT_BY_BRACES.search(text) is not None:
        return True
    if (">" in text or "<" in text) and _may_empty_a_file(text):
        return True
    if "\\n" in text and "printf" in text and _has_word(text.replace("\\n", " ").replace("\\t", " ")):
        return True
    if _INSIDE_WORD.search(text) is None:
        return False
    joined = _QUOTES.sub("", text.replace("\\\n", ""))
    return _has_word(joined) or "/dev" in joined


_IN_PROGRAMS = (
    "open(", "opensync(", "createwritestream(", "open my", "_put_contents(", "writetextfile",
    "exec", "system", "remov", "delete", "subprocess", "eval", "write_", "unlink", "rmtree", "rmdir", "drop",
    "truncat", "destroy", "purge", "wipe", "popen", "spawn", "rename", "move", "getattr", "__import__", "rimraf",
    "overwrit", "flush", "writefile", "terminate", "cell_magic",
    "refund", "charge", "payout", "transfer", "send", "postmessage", "tweet", "create(", "cancel", "trash", "suspend",
    "disable_", "revoke", "authorize", "attach_", "submit_", "versioning", "private=", "deletion", "prune", "clear(",
    "stop_", "desired", "put_object", "_account(", "order(",
    "_public", "sequelize", "mail(", "lifecycle",
    "updatemany", "update(", "match (", "update_by_query",
    "_acl", "chmod", "updateall", "update_many",
    "policy", "retention", "replicas", "'post'", '"post"', ".post(", ".put(", ".patch(", "urlopen",
    "publish",
    "smtp", "payment", "_archive", "archived", "grant_", "withdraw",
    "acl=", "_scale(", "modify_", "writealltext", "file.write", "io.write", "click(",
    "document.query", "outputfile", "emptydir", "bun.write", "time_to_live", "timetolive",
    "_backups", "continuousbackups",
)  # fmt: skip
_IN_SCRIPTS = (*_IN_PROGRAMS, "if_exists")
_IN_CODE = ("replace", "command", *_IN_PROGRAMS, "shred", "erase", "shell", "%%", ".git.", "qw", "`")
"""Lower-case substrings. A program without any of them, `rm`, `del` or a notebook's shell line destroys nothing."""
_IN_CODE_AS_WORDS = (
    ("open(", re.compile(r"['\"`\\]\w{0,3}[w\\{]|b64|base64|atob")),
    ("eval", re.compile(r"(?<![a-z0-9])eval(?![a-z0-9])")),
    ("system", re.compile(r"(?<![a-z])system(?![a-z])")),
    ("command", re.compile(r"(?<![a-z])(?<!call_)commands?(?![a-z])")),
)
"""Those that are common parts of words, with the context in which they matter; `open` matters by its mode."""
_IN_CODE_ALONE = tuple(piece for piece in _IN_CODE if piece not in dict(_IN_CODE_AS_WORDS))
_RM, _DEL = re.compile(r"rm(?<!\wrm)"), re.compile(r"del(?<!\wdel)\b")
_CELL_RUNS = re.compile(r"\n[^\S\n]*(?:\w+ *= *)?[!%]")
_BY_SCRIPT = re.compile("|".join((*map(re.escape, _IN_SCRIPTS), r"\brm|\bdel\b")), re.IGNORECASE)
_BY_CODE = re.compile(
    "|".join((*map(re.escape, _IN_CODE), r"\brm|\bdel\b|^\s*(?:\w+ *= *)?[!%]")), re.IGNORECASE | re.MULTILINE
)
"""The same for texts with a letter of `_ALIKE`."""
_ALIKE = ("\u0130", "\u0131", "\u017f", "\u212a")
"""The non-ASCII letters that equal an ASCII letter in a pattern that ignores case."""


_MOVED_AWAY = re.compile(r"[\\/]te?mp\b|mktemp|%te?mp|env:te?mp|/shm\b|/ramdisk\b|Trash", re.IGNORECASE)
_BEGIN_SCRIPTS = ("delete_", "drop_", "destroy_", "wipe_", "purge_", "nuke_", "erase_", "truncate_", "teardown_",
                  "_delete.", "_wipe.", "_purge.", "_destroy.", "_teardown.", "_nuke.")  # fmt: skip
_SCRIPT = re.compile(
    r"(?:delete|drop|destroy|wipe|purge|nuke|erase|truncate|teardown)(?:_\w{1,80})?\.(?:sh|bash|py|js|ts|mjs|rb|php|pl|ps1)\b"
)
_FILTERS = re.compile(r"\b(?:base64|gbase64|xxd|rev|tr)\b")
_ESCAPED = re.compile(r"\\\\?(?:x|0?[0-7]{2})")
_IN_PLACE = re.compile(r"\s-(?:-in-place|[a-zA-Z]{0,4}i)")
_IN_PIECES = re.compile(
    r"\$\((?:printf|echo)\b|\|[^|\n]{0,40}\btee\b|\b(?:perl|ruby) +(?:-\S+ +){0,8}-\w*i"
    r"|sed +(?:-\S+ ++){1,8}['\"]?(?:[\d,$/^.*!; +?sS\\()|\[\]]*[dDqQ](?![a-zA-Z])|s[/|,#]\^?\.[*+])"
    r"|sed +(?:-[^\sn]*n\S*i|-n +-i|-i\S* +-n)"
)
"""Commands that are concatenated from the output of programs, and edits that may empty a file."""


def _may_decode(text: str, watched: frozenset[bytes]) -> bool:
    """Return whether a filter or escapes may produce another program. `watched` are the relevant words of the text.

    Each pattern is used only if the text has a word or a substring that it requires.
    """
    if (
        not _FILTER_WORDS.isdisjoint(watched)
        and ("|" in text or ")" in text or "<<" in text)
        and _FILTERS.search(text) is not None
    ):
        return True
    if "\\" in text and ("printf" in text or "echo -" in text) and _ESCAPED.search(text) is not None:
        return True
    return (
        "$(" in text
        or ("sed " in text and _IN_PLACE.search(text) is not None)
        or "perl " in text
        or "ruby " in text
        or b"tee" in watched
    ) and _IN_PIECES.search(text) is not None


def may_destroy_by_code(text: str) -> bool:
    """Return False if a program destroys nothing, True if it has to be parsed."""
    if not is_plain(text):
        return _BY_CODE.search(text) is not None
    low = text.lower()
    if _holds(low, _IN_CODE_ALONE):
        return True
    for piece, needs in _IN_CODE_AS_WORDS:
        if piece in low and needs.search(low) is not None:
            return True
    return ("!" in low or "%" in low) and _CELL_RUNS.search(f"\n{low}") is not None


def is_plain(text: str) -> bool:
    """Return whether a pattern that ignores case finds the same in the text in lower case."""
    return text.isascii() or not any(letter in text for letter in _ALIKE)


def _by_script(text: str) -> bool:
    """Return whether the small programs inside a command line have to be parsed."""
    return _holds(text.lower(), _IN_SCRIPTS) if is_plain(text) else _BY_SCRIPT.search(text) is not None


def _holds(low: str, pieces: tuple[str, ...]) -> bool:
    """Return whether a lower-case text has a substring, `rm` or `del`, without a pattern."""
    for piece in pieces:
        if piece in low:
            return True
    return ("rm" in low and _RM.search(low) is not None) or ("del" in low and _DEL.search(low) is not None)


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
    return _TELLING.intersection(words(text))


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
        or (not WORDS.isdisjoint(found) and may_act(found, words(text)))
    )


def _has_empty_heredoc(text: str) -> bool:
    """Return whether a here-document ends on the line after its start, or with the text."""
    lines = text.split("\n")
    return "<<" in lines[-1] or any(
        "<<" in begin and (end := line.strip()) != "" and end in begin.partition("<<")[2]
        for begin, line in pairwise(lines)
    )


def _may_empty_a_file(text: str) -> bool:
    """Return whether a redirection follows no command or one without output, or writes to the command's own input."""
    if any(piece in text for piece in _OF_NOTHING) and _NOTHING_OF_IT.search(text):
        return True
    seen = 0
    for mark in "<>":
        at = text.find(mark)
        while at >= 0:
            seen += 1
            before = text[max(0, at - 40) : at - (text[at - 1 : at] == "&")].rstrip(" \t\r0123456789")
            if (
                not before
                or before.endswith(_BEFORE_EMPTY_WRITE)
                or (before[-1] in "\"'" and _OPENING_QUOTE.search(before))
                or seen > _MAX_REDIRECTIONS
            ):
                return True
            if mark == ">" and (into := _INTO.match(text, at + 1)) is not None:
                read = text.find(into[1], max(0, at - _READ_BEFORE), at)
                if read >= 0 and f" {into[1]} " in f"{text[read - 1 : at]} ":
                    return True
            at = text.find(mark, at + 1)
    return False


_OF_NOTHING = (
    "</dev/null", "< /dev/null", "-c0", "-c 0", "-n0", "-n 0", "awk 0", "{}", "{ }", "NR<", "NR <", "!1", "grep -v",
    "sed d", "sed -n", "jq -n", "jq empty", "print >", '"" >', "FILENAME", ": |", "true |",
)  # fmt: skip
_NOTHING_OF_IT = re.compile(
    r"<\s?/dev/null|\b(?:head|tail)\s+-[cn]\s?0|\b[gm]?awk\s++['\"]?(?:0|!1|NR\s?<|(?:BEGIN|END)?\s*\{\s*\})"
    r"|grep\s+-[^\Wv]*v\w*\s+['\"]?(?:[.^]\*?)?['\"]?\s|sed\s+(?:['\"]?d|-n\b)|jq\s+(?:-n|empty)|\bprintf?\s*+\(?(?:\"\")?\)?\s*+>|>\s*FILENAME|(?:^|[\s;&(])(?::|true)\s*\|"
)
_INTO = re.compile(r"(?<![ \t])[ \t]*+([\w./~-]{1,200})")
