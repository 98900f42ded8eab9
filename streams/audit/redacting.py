"""The redaction of secrets and personal data in records of producers without a guard, before they are stored. Pure.

The agent's side redacts secrets before anything leaves its process; here the same is done to other records, and to
personal data. A match becomes `[redacted:kind]`, in the value and in headers; the record's key and its ids stay,
because they join it with others. Everything else is kept: a JSON value with a match is serialized again with the same
content; one without is stored byte by byte. Invalid JSON or UTF-8 is searched as text, and the bytes around a match
stay. A suspicious record that repeats a name in an object, which can hide anything from a parser that reads the last
one, is serialized again with the last one (`repeated_name`).

The chain covers what is stored, so `haltline audit verify` proves the table without knowing what was redacted, and no
digest of the original is kept: a telephone number can be guessed from one. To compare the table with the topic, read
the topic, apply this module to each record (it depends on nothing but the record and the kinds), and compare; the
column `redacted` marks the redacted records.

Policy documents are not redacted: they contain what rules look for, and their authors are trusted. A replay from the
table reads what is stored.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from haltline.interventions.agent.redaction.beside import may_be_beside
from haltline.interventions.agent.redaction.forms import may_be_forms
from haltline.interventions.agent.redaction.pii import PERSONAL, redact_personal
from haltline.interventions.agent.redaction.searching import search_any
from haltline.interventions.agent.redaction.secrets import (
    MAY_BE_NAMED,
    Look,
    instead_of_items,
    is_secret_name,
    looks,
    may_have_a_form,
    redact_field,
    redact_text,
)
from haltline.schemas import expressions as re

SECRETS: Final = "secrets"
KINDS: Final = (SECRETS, *PERSONAL)
"""The kinds that can be redacted."""

Headers = tuple[tuple[str, bytes | None], ...]

_MARK: Final = re.compile(r"\[redacted:(\w+)(?::[0-9a-f]{8})?\]")
_MAX_DEPTH: Final = 64
_NAME_CHARS: Final = 64  # field names are mostly the same ones, and short

# Fields that join a record with others, name its author, or have a closed vocabulary; and all ids.
_KEPT: Final = frozenset(
    ("v", "kind", "time", "since", "seq", "id", "by", "effect", "outcome", "level", "would", "scope", "mode", "state",
     "stage", "severity", "code", "detector", "policy", "evidence", "await_verdict")
)  # fmt: skip
_KEPT_ENDINGS: Final = ("_id", "_ids", "_digest")

_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_tokens")
"""Counts of tokens, in every second record; they contain no secret token."""


def _not_behind(word: str, known: Collection[str]) -> str:
    """Return a regular expression for the word without a known text before it; no known text is another's suffix."""
    tails = {text[at:] for text in known for at in range(1, len(text) + 1)}
    ways = []
    for tail in sorted(tails, key=len):
        before = "".join(sorted({text[-len(tail) - 1] for text in known if text.endswith(tail) and text != tail}))
        if before:
            ways.append(rf"(?:\A|[^{before}]){tail}{word}")
    return "|".join(ways)


# A match of one of these means that there may be a secret; no match means that there is none. They are applied to
# stored JSON, which may contain escaped letters, so each matches only what no escape can hide.
_ESCAPED: Final = r"\\(?:/|u00[2-7]|u01[37]|u21)"  # a slash, a letter of ASCII, or one that folds to one
_MAY_BE_NAMED: Final = (
    *(pattern for pattern in MAY_BE_NAMED if "token" not in pattern),
    r"(?i:auth(?:[\"'\\]|orization|[_-]?header))",
    rf"(?i:token(?:[^s]|s[^\"\\]|s?\z)|{_not_behind('token', [name.removesuffix('tokens') for name in _COUNTS])})",
    *may_be_beside(),
)
_MAY_BE_PERSONAL: Final = {
    "email": r"[A-Za-z0-9._%+-]@[A-Za-z0-9-]+\.[A-Za-z0-9]",
    "us_ssn": r"[0-9]{3}-[0-9]{2}-[0-9]{4}",
    "credit_card": r"[2-6][0-9]{3}(?:[ -]?[0-9]){10}",
    "phone_us": r"(?:[0-9]{3}[ .-]|[0-9]\) ?)[0-9]{3}[ .-][0-9]{4}",
}
# One in 150 ids in hex has so many digits in a row; a card's number begins and ends as a word.
_CARD_ALONE: Final = (
    r"(?:\A|[^A-Za-z0-9_.-]|\\[bfnrt]|\\u[0-9A-Fa-f]{4})[2-6][0-9]{3}(?:[ -]?[0-9]){10,15}(?:[^A-Za-z0-9_-]|\z)"
)
# All that look like a card, for the first scan of many records: one pattern for cards and all the rest is too slow.
_CARD_AT_FIRST: Final = r"[0-9](?:[ -]?[0-9]){13}"
# Counts of 24 characters, with the other patterns in one pass, exceed the engine's limit of cached states.
_COUNTED_AT_FIRST: Final = 18
_AT_ONCE: Final = 16  # one in seventy records of agents may have a match: larger groups mostly contain one
_LEAST_CARD: Final = 10**13
_ASCII_ESCAPE: Final = re.compile(r"\\u00([2-7][0-9A-Fa-f])|\\/")


class Redaction:
    """Redacts the given kinds. Raises ValueError for an unknown kind."""

    def __init__(self, kinds: Collection[str] = KINDS) -> None:
        if unknown := sorted(set(kinds) - set(KINDS)):
            raise ValueError(f"redact: expected some of {', '.join(KINDS)}, got {', '.join(unknown)}")
        self._secrets = SECRETS in kinds
        self._personal = tuple(kind for kind in PERSONAL if kind in kinds)
        personal = [_MAY_BE_PERSONAL[kind] for kind in self._personal]
        patterns = [_ESCAPED, *(_MAY_BE_NAMED if self._secrets else ()), *personal]
        self._may_be = search_any(patterns)
        self._may_be_personal = search_any(personal)
        self._may_be_found = search_any(
            _CARD_ALONE if pattern == _MAY_BE_PERSONAL["credit_card"] else pattern for pattern in patterns
        )
        self._at_first = self._first_looks(patterns)
        self._name = lru_cache(4096)(self._text)

    def _first_looks(self, patterns: Sequence[str]) -> list[tuple[Look, Look]]:
        """Return fast scans of many records, which miss nothing, each with the closer scan of one record."""
        starts = next(may_be_forms(start=_COUNTED_AT_FIRST))
        quick = search_any(
            [
                *(_CARD_AT_FIRST if pattern == _MAY_BE_PERSONAL["credit_card"] else pattern for pattern in patterns),
                *([starts] if self._secrets else ()),
            ]
        )
        if not self._secrets:
            return [(quick, self._may_be)]

        def closer(text: str) -> bool:
            return quick(text) and (self._may_be(text) or looks().started(text))

        return [(quick, closer), (looks().inside_or_programs, looks().otherwise)]

    def of(
        self, value: bytes | None, headers: Headers = (), *, suspicious: bool | None = None
    ) -> tuple[bytes | None, Headers, str | None]:
        """Return value and headers as they are stored, and the redacted kinds, separated by commas.

        `suspicious`: whether there may be a match in the value, if it is known.
        """
        if suspicious is None:
            suspicious = bool(value) and self.is_suspicious(value or b"")
        taken: Counter[str] = Counter()
        if suspicious:
            value = self._value(value or b"", taken)
        headers = tuple((name, self._header(name, text, taken)) for name, text in headers)
        return value, headers, ",".join(sorted(taken)) or None

    def suspicious(self, values: Sequence[bytes | None]) -> set[int]:
        """Return the indexes of values that may have a match: many are scanned at once, and most have none."""
        found: set[int] = set()
        together: dict[range, str] = {}
        for first in range(0, len(values), _AT_ONCE):
            places = range(first, min(first + _AT_ONCE, len(values)))
            # A line feed is part of no word and ends none that is searched, so joining values by it hides nothing.
            try:
                together[places] = b"\n".join(filter(None, values[first : places.stop])).decode()
            except UnicodeDecodeError:
                found.update(at for at in places if self.is_suspicious(values[at] or b""))
        for quick, closer in self._at_first:
            for places, text in together.items():
                if quick(text):
                    found.update(at for at in places if closer((values[at] or b"").decode()))
        return found

    def is_suspicious(self, value: bytes) -> bool:
        """Return whether there may be a match. Fast; never False if there is one."""
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return True
        return self._may_be(text) or (self._secrets and may_have_a_form(text))

    def may_be_found(self, text: str) -> bool:
        """Return whether there may be a match, like `is_suspicious`, but closer.

        Without one, only names may be repeated.
        """
        if self._may_be_found(text) or (self._secrets and may_have_a_form(text)):
            return True
        return text.count("[") + text.count("{") > _MAX_DEPTH

    def _value(self, value: bytes, taken: Counter[str]) -> bytes:
        text = value.decode(errors="surrogateescape")
        try:
            document = orjson.loads(value)
        except orjson.JSONDecodeError:
            plain = _ASCII_ESCAPE.sub(_unescaped, text)
            without = self._text(plain)
            return value if without == plain else self._noted(text, without, taken) or value
        without = self._json(document, 0) if self.may_be_found(text) else document
        anew = orjson.dumps(without)
        if anew == value:  # so no name is repeated
            return value
        if _says_a_name_twice(text):
            taken["repeated_name"] += 1
        elif without == document:
            return value
        return self._noted(text, anew.decode(), taken) or value

    def _header(self, name: str, value: bytes | None, taken: Counter[str]) -> bytes | None:
        if not value:
            return value
        if self._secrets and (kind := is_secret_name(name)) is not None:
            taken[kind] += 1
            return f"[redacted:{kind}]".encode()
        return self._value(value, taken) if self.is_suspicious(value) else value

    @staticmethod
    def _noted(before: str, after: str, taken: Counter[str]) -> bytes | None:
        """Return what is stored, and count its kinds; None if it is unchanged."""
        if after == before:
            return None
        taken.update(Counter(_MARK.findall(after)) - Counter(_MARK.findall(before)))
        return after.encode(errors="surrogateescape")

    def _text(self, text: str) -> str:
        if self._secrets:
            text = redact_text(text)
        if not self._personal or (text.isascii() and not self._may_be_personal(text)):
            return text
        return redact_personal(text, self._personal)

    def _json(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if depth > _MAX_DEPTH:
            return "[cut]"
        if isinstance(value, dict):
            without: dict[str, Any] = {}
            for name, one in value.items():
                clean = self._name(name) if len(name) <= _NAME_CHARS else self._text(name)
                if clean in without:  # two names that differed only in the redacted part
                    clean = f"{clean} {len(without)}"
                without[clean] = self._named(name, one, depth)
            return without
        if isinstance(value, list):
            instead = instead_of_items(value) if self._secrets else {}
            return [instead.get(at) or self._json(one, depth + 1) for at, one in enumerate(value)]
        if type(value) is int and "credit_card" in self._personal and value >= _LEAST_CARD:
            clean = redact_personal(str(value), ("credit_card",))
            return value if clean == str(value) else clean
        return value

    def _named(self, name: str, value: Any, depth: int) -> Any:
        if self._secrets and _is_secret(name):
            return self._json(redact_field(name, value), depth + 1)
        if depth == 0 and (name in _KEPT or name.endswith(_KEPT_ENDINGS)):
            return value
        return self._json(value, depth + 1)


def _is_secret(name: str) -> bool:
    return is_secret_name(name) is not None and not name.lower().endswith(_COUNTS)


def _unescaped(found: re.Match[str]) -> str:
    """Return the character of an escape; quotes and backslashes stay escaped, because they end texts."""
    letter = chr(int(found[1], 16)) if found[1] else "/"
    return found.group() if letter in '"\\' else letter


def _says_a_name_twice(text: str) -> bool:
    twice: list[bool] = []
    try:
        json.loads(text, object_pairs_hook=lambda pairs: twice.append(len(dict(pairs)) < len(pairs)))
    except RecursionError:
        return True
    return any(twice)
