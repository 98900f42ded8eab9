"""Labels whose click is irreversible: an extensible table; `languages` translates other languages.

A word matches as a whole word (`delete`), a phrase as consecutive words; after them the label is read like the name of
a tool (`tools`). `_NEVER` are words that give a label another meaning.

Misses: icons without a text; confirmations that a page sends without a click.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from haltline.detectors.commands.effects import tools
from haltline.detectors.commands.effects.languages import in_english
from haltline.detectors.commands.model import ActEffect, listed
from haltline.detectors.commands.rows import rows_of, words_of
from haltline.schemas.tool_names import words

_CONFIRMS = frozenset((
    "confirm", "yes confirm", "confirm action", "yes proceed", "i am sure", "yes i am sure", "confirm changes",
))  # fmt: skip
"""Whole labels that confirm what a page asks."""
_NEVER = words_of("labels of another meaning")
_DECLINES = frozenset(listed("dismiss no keep abort decline skip ignore nevermind abbrechen annuler cancelar annulla"))
_CLOSES_IT = frozenset(("cancel", "close"))
_FIELDS = frozenset(("field", "input", "textbox", "textarea", "searchbox"))
"""What is typed into; as the last word."""
_OF_THE_DIALOG = words_of("parts of a dialog")
"""Words behind `cancel` and `close` that make it the way out, rather than what is cancelled: `cancel order`."""
_COUNTS = words_of("many recipients")
"""Recipients in a button's label that make it a bulk message."""
_WHOLE, _FILTERS = frozenset(("factory", "all", "everything")), frozenset(("filter", "filters", "columns", "view"))
_LITTLE = frozenset(listed("a an the to my your this of de la le el du os as den die das"))
"""Words that are ignored in phrases."""
"""Labels that make something public: one word of each cell is required; a word with `-` excludes the label."""
_CLOSES = words_of("labels that make private")
"""Words that exclude such a label."""
_MAX_CHARS = 200


def _joined(parts: Iterable[str]) -> str:
    return f" {' '.join(word for word in parts if word not in _LITTLE)} "


def _read() -> tuple[dict[str, ActEffect], tuple[tuple[str, ActEffect], ...]]:
    single: dict[str, ActEffect] = {}
    phrases: list[tuple[str, ActEffect]] = []
    for line in rows_of("buttons"):
        effect, listed = (cell.strip() for cell in line.split("|"))
        if "," in listed:
            phrases += [(_joined(phrase.split()), ActEffect(effect)) for phrase in listed.split(",")]
        else:
            single |= dict.fromkeys(listed.split(), ActEffect(effect))
    return single, tuple(phrases)


WORDS, PHRASES = _read()
_OPENING = tuple(
    (
        *(frozenset(cell.split()) for cell in line.split("|") if "-" not in cell),
        frozenset(word[1:] for word in line.split() if word[0] == "-"),
    )
    for line in rows_of("public_buttons")
)
"""For each line of `_OPENS`: sets of words, one of each required, and a last set of excluding words."""


def _opens(plain: tuple[str, ...]) -> bool:
    return _CLOSES.isdisjoint(plain) and any(
        none.isdisjoint(plain) and not any(one.isdisjoint(plain) for one in each) for *each, none in _OPENING
    )


def _declines(plain: tuple[str, ...]) -> bool:
    first, *rest = [word for word in plain if word not in _LITTLE] or [""]
    if plain[-1:] and plain[-1] in _FIELDS:
        return True
    if rest and first == "x" and not _CLOSES_IT.isdisjoint(rest):  # "X icon to close ..."
        return True
    return first in _DECLINES or (first in _CLOSES_IT and (not rest or rest[0] in _OF_THE_DIALOG))


@lru_cache(maxsize=2048)
def effect_of(label: str) -> ActEffect | None:
    """Return the effect of a click on an element with this text; None if it is reversible or unknown."""
    text = unicodedata.normalize("NFKC", label[:_MAX_CHARS]).replace("'", "")
    plain = in_english(text) or words(text)
    if _declines(plain):
        return None
    joined = _joined(plain)
    if not _WHOLE.isdisjoint(plain) and not {"reset", "restore"}.isdisjoint(plain) and _FILTERS.isdisjoint(plain):
        return ActEffect.DESTROYS
    if _opens(plain):
        return ActEffect.EXPOSES
    if not _NEVER.isdisjoint(plain) or (not _CLOSES.isdisjoint(plain) and "public" in plain):
        return None
    for phrase, effect in PHRASES:
        if phrase in joined:
            return effect
    if joined.strip().removesuffix(" button") in _CONFIRMS:
        return ActEffect.DESTROYS
    for word in plain:
        if word in WORDS:
            return WORDS[word]
    named = tools.by_name(text, alone=False)
    if named is None or (named[1] is ActEffect.SENDS and _COUNTS.isdisjoint(plain)):
        return None
    return named[1]
