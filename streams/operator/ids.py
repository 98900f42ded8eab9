"""The resolution of ids as people type them: complete, or a unique prefix. Pure: the caller passes the candidates."""

from collections.abc import Iterable
from typing import Final

from haltline.streams.operator.command_factory import NotAllowed

SHOWN: Final = 8
"""The number of listed candidates of an ambiguous prefix."""


class NotFound(LookupError):
    """The requested object does not exist."""


class Ambiguous(NotAllowed):
    """A prefix of several ids."""


def resolve(what: str, given: str, candidates: Iterable[str], *, hint: str = "") -> str:
    """Return the id that equals the text, or else the only one with it as a prefix.

    `what` names the kind of object in errors (`session`); `hint` is added if none is found.

    Raises:
        NotFound: no candidate matches.
        Ambiguous: several have the prefix, and none is equal; lists them.

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
