"""Whether a program may do anything that the rows of calls and methods know, by its words alone.

Each word of a program (also inside of its texts) shows what it could be part of; some only beside others. Of the files
that agents write, one in three is then parsed.

Misses: names that are put together from pieces, or escaped.
"""

from collections.abc import Callable
from functools import lru_cache

from haltline.detectors.commands.code.known_calls import ending_with, takes_away
from haltline.detectors.commands.effects import methods
from haltline.detectors.commands.effects.statements import MAYBE
from haltline.detectors.commands.effects.tools import settings_of
from haltline.detectors.commands.rows import expression_of
from haltline.schemas import expressions as re

_WORD = re.compile(r"[^\W\d]\w*")
_ALONE, _RUNS, _STATES, _OUTSIDE, _BLANK, _OPENS, _SENDS, _SAVES, _MOVES, _CLIENT, _CODE, _DECODES, _SETS, _OWNED = (
    1 << at for at in range(14)
)
_BY_KIND = {
    **dict.fromkeys(("path", "tree", "of_path", "git"), _ALONE),
    **dict.fromkeys(("shell", "words", "remote"), _RUNS),
    "any_path": _ALONE, "sql": _STATES, "empties": _BLANK, "opens": _OPENS, "saves": _SAVES, "moves": _MOVES,
    "code": _CODE,
}  # fmt: skip
_VERBS_OF_HTTP = frozenset(("post", "put", "patch", "delete"))
_DECODERS = frozenset(("b64decode", "decodebytes", "decode64", "base64_decode", "atob", "base64"))
_ANYWHERE = frozenset(("createWriteStream", "chmod", "chmodSync", "trash", "__dict__", "__import__", "run_cell_magic"))
_STATEMENTS = frozenset(("del", "from", "import", "local"))
"""Words of languages that are also names of functions."""
_EMPTY_TEXT = re.compile(r"(?<!['\"])(?:''|\"\")(?!['\"])|alloc\(0?\)|(?:from|Array|Blob|encode)\(\)")
_CALLS_DEL = re.compile(r"\bdel(?:\.sync)?\(")
_PIECES = re.compile(r"\bgetattr\([^\n]{0,80}['\"]\s*\+")
_MODE = re.compile(r"['\"`]\+?(?:w[btx+]{0,3}['\"`]|>)")
_REPLACES = re.compile(r"replace|overwrite")
_AWAY = re.compile(r"/tmp|/dev/shm|Trash")
_MANY_ROWS = expression_of("a program may update many rows")


def may_act(text: str, is_command: Callable[[str], bool], *, backticks: bool) -> bool:
    """Return False if a program does nothing that matters.

    `is_command`: whether the words of a text may be those of a command line that does. `backticks`: these run one.
    """
    if backticks and "`" in text:
        return True
    shown, words = 0, set(_WORD.findall(text))
    for word in words:
        one = _shows(word)
        shown |= one if not one & _CLIENT or f"{word}." in text else one & ~_CLIENT
        if one & _OWNED:
            for owners, kinds in ending_with(word):
                if owners.issubset(words):
                    shown |= _of_kinds(kinds)
    if (
        shown & _ALONE
        or (shown & _SETS and any(map(settings_of, words)))
        or (shown & _OUTSIDE and (shown & _CLIENT or methods.reaches_out(text)))
    ):
        return True
    if shown & (_RUNS | _CODE) and (shown & _DECODES or is_command(text)):
        return True
    if shown & _STATES and any(piece in text.lower() for piece in MAYBE):
        return True
    return bool(
        (shown & _BLANK and _EMPTY_TEXT.search(text))
        or (shown & _OPENS and _MODE.search(text))
        or (shown & _SENDS and "://" in text)
        or ("del" in text and _CALLS_DEL.search(text))
        or ("getattr" in text and _PIECES.search(text))
        or ("sync" in text and "force" in text)
        or ("update" in text and _MANY_ROWS.search(text))
        or (shown & _SAVES and _REPLACES.search(text))
        or (shown & _MOVES and _AWAY.search(text))
    )


@lru_cache(maxsize=16384)
def _shows(word: str) -> int:
    """Return what a word may be part of."""
    shown = 0
    if word in _STATEMENTS:
        return 0
    for owners, kinds in ending_with(word):
        shown |= _OWNED if owners else _of_kinds(kinds)
    if word in _ANYWHERE or takes_away(f"db.{word}", named=True):
        shown |= _ALONE
    if word in _DECODERS:
        shown |= _DECODES
    if word.lower() in _VERBS_OF_HTTP:
        shown |= _SENDS
    alone, outside, sets = methods.may_act(word)
    shown |= _ALONE * alone | _OUTSIDE * outside | _SETS * sets
    return shown | _CLIENT * methods.names_client(word)


def _of_kinds(kinds: frozenset[str]) -> int:
    shown = 0
    for kind in kinds:
        shown |= _BY_KIND.get(kind, 0)
    return shown
