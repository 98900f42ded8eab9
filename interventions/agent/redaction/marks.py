"""Marks in place of secrets: `[redacted:kind]`, with a digest under a key, which identifies equal secrets.

Secrets are found as ranges of a text. One mark replaces overlapping ranges; its kind and digest are those of the first
one given.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

from haltline.schemas import expressions as re

DIGEST_BYTES: Final = 4
_MARK: Final = re.compile(r"\[redacted:\w+(?::[0-9a-f]{8})?\]")
BEGIN: Final = "[redacted:"
"""The beginning of a mark."""


class Keys(NamedTuple):
    """The keys of digests."""

    digest: bytes = b""
    """Of calls, results and secrets; empty: none."""
    pii: bytes | None = None
    """Of personal data; None: it is not removed."""


NO_KEYS: Final = Keys()


class Found(NamedTuple):
    """A range of a text, from `start` to before `end`, and its kind of secret."""

    start: int
    end: int
    kind: str
    shown: str
    """The kind as marks name it."""


def secret_digest(secret: str, key: bytes) -> str:
    """Return 8 hex digits, equal for equal secrets under one key."""
    return blake2b(secret.encode(errors="replace"), digest_size=DIGEST_BYTES, key=key[:64]).hexdigest()


def mark(kind: str, secret: str = "", key: bytes = b"") -> str:
    """Return `[redacted:kind:digest]`; without a key no digest, as it could be guessed from."""
    return f"[redacted:{kind}:{secret_digest(secret, key)}]" if key else f"[redacted:{kind}]"


def marked(text: str, found: Sequence[Found], key: bytes = b"") -> str:
    """Return the text with marks in these ranges. Existing marks stay."""
    if not found:
        return text
    kept: list[str] = []
    done = 0
    for start, end, first in _without_marks(text, _joined(found)):
        secret = text[first.start : first.end] if key else ""
        kept += [text[done:start], mark(first.shown, secret, key)]
        done = end
    return "".join([*kept, text[done:]])


def _joined(found: Sequence[Found]) -> list[tuple[int, int, Found]]:
    """Return ranges that do not overlap, in order, each with the first of its original ones."""
    joined: list[tuple[int, int, int]] = []
    for start, end, order in sorted((one.start, one.end, order) for order, one in enumerate(found)):
        if joined and start < joined[-1][1]:
            begin, until, first = joined[-1]
            joined[-1] = (begin, max(until, end), min(first, order))
        elif end > start:
            joined.append((start, end, order))
    return [(start, end, found[order]) for start, end, order in joined]


def _without_marks(text: str, places: list[tuple[int, int, Found]]) -> Iterable[tuple[int, int, Found]]:
    if BEGIN not in text:
        return places
    marks = [one.span() for one in _MARK.finditer(text)]
    left: list[tuple[int, int, Found]] = []
    next_mark = 0
    for start, end, first in places:
        at = start
        while next_mark < len(marks) and marks[next_mark][1] <= start:
            next_mark += 1
        for begin, until in islice(marks, next_mark, None):
            if begin >= end:
                break
            if at < begin:
                left.append((at, begin, first))
            at = until
        if at < end:
            left.append((at, end, first))
    return left
