"""English translations of words in tool names and labels: the rows of `languages.txt`.

Misses: unlisted languages and words; phrases whose meaning differs from their words.
"""

import unicodedata
from functools import lru_cache

from haltline.detectors.commands.rows import cells_of
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import FOREIGN_VERBS, IN_OTHER_LETTERS, words


def _read() -> tuple[dict[str, str], dict[str, str], re.Pattern[str], re.Pattern[str]]:
    """Return the whole words and the stems with their English words, and patterns of Latin and other stems."""
    whole = dict.fromkeys(FOREIGN_VERBS, "delete")
    parts: dict[str, str] = {}
    others = dict.fromkeys(IN_OTHER_LETTERS, "delete")
    for english, stems in cells_of("languages"):
        for stem in stems.split():
            (parts if "*" in stem else whole if stem.isascii() else others)[stem] = english
    longest = sorted(parts, key=len, reverse=True)
    latin = "|".join(
        stem.strip("*") if stem[-1] == "*" else f"{stem.strip('*')}$" for stem in longest if stem[0] != "*"
    )
    within = "|".join(stem.strip("*") + ("" if stem[-1] == "*" else "$") for stem in longest if stem[0] == "*")
    return (
        whole,
        {stem.strip("*"): english for stem, english in parts.items()} | others,
        re.compile(rf"\A(?:{latin}|.*?(?P<within>{within}))"),
        re.compile("|".join(map(re.escape, sorted(others, key=len, reverse=True)))),
    )


_WHOLE, _ENGLISH, _STEMS, _OTHERS = _read()
_MAX_CHARS = 512


@lru_cache(maxsize=4096)
def in_english(name: str) -> tuple[str, ...]:
    """Return the words of a name or label with foreign words in English; empty if there are no foreign words."""
    name = name[:_MAX_CHARS]
    found = (
        [] if name.isascii() else [_ENGLISH[one] for one in _OTHERS.findall(unicodedata.normalize("NFC", name).lower())]
    )
    foreign = bool(found)
    for word in words(name):
        if not word.isascii():
            continue
        stem = _STEMS.match(word)
        english = _WHOLE.get(word) or (_ENGLISH[stem["within"] or stem[0]] if stem is not None else "")
        foreign = foreign or bool(english)
        found.append(english or word)
    return tuple("all" if word == "todos" else word for word in " ".join(found).split()) if foreign else ()
