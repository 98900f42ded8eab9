"""Ids as people type them: whole, or the beginning of exactly one. Pure: what there is comes from the caller."""

from collections.abc import Iterable
from typing import Final

from haltline.streams.operator.command_factory import NotAllowed

SHOWN: Final = 8
"""Candidates of an ambiguous beginning that are listed."""


class NotFound(LookupError):
    """What was asked about is not there."""


class Ambiguous(NotAllowed):
    """The beginning of several ids."""


def resolve(what: str, given: str, candidates: Iterable[str], *, hint: str = "") -> str:
    """The one id that is meant: the same, or else the only one that begins so.

    `what` names the kind of thing in errors (`session`); `hint` is added where none is found.

    Raises:
        NotFound: no candidate is it or begins so.
        Ambiguous: several begin so, and none is it; lists them.

    """
    found = set[str]()
    for candidate in candidates:
        if candidate == given:
            return given
        if given and candidate.startswith(given):
            found.add(candidate)
    if not found:
        raise NotFound(f"{what} not found: {given}{f'; {hint}' if hint else ''}")
    if len(found) > 1:
        shown = sorted(found)[:SHOWN]
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise Ambiguous(f"{what} {given}: ambiguous, expected the beginning of one id: {', '.join(shown)}{more}")
    return found.pop()
