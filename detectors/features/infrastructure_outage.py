"""Errors of the infrastructure, and whether a session that gets them waits as it should.

A service that is overloaded, limits rates or cannot be reached is asked again after a pause: at least half as long
again as the one before, or half a minute. Asking again at once, or every few seconds, is hammering.
"""

import re

from msgspec import Struct

_INFRASTRUCTURE = re.compile(
    r"\b(?:https?|status|code|error)\b[\w \"':=/.()-]{0,20}\b(?:429|502|503|504|529)\b"
    r"|\b(?:429|502|503|504|529)\b\W{0,3}(?:too many|bad gateway|service|gateway|client error|server error)"
    r"|too many requests|rate[ _-]?limit|throttl|overloaded|bad gateway|gateway time-?out"
    r"|service (?:is )?(?:temporarily )?(?:unavailable|overloaded)|connection (?:was )?(?:reset|refused)"
    r"|\becon(?:nreset|nrefused)\b|quota exceeded",
    re.IGNORECASE,
)
_CUES = (
    "429", "502", "503", "504", "529", "too many requests", "limit", "throttl", "overload", "gateway", "unavailable",
    "connection ", "econn", "quota",
)  # fmt: skip
"""One of these is in whatever is looked for; to look for them takes a tenth of the time."""
_READ_CHARS = 512
_GROWTH = 1.5
_LONG_MS = 30_000
_SHORTEST_MS = 500
"""A pause that grows to less is none; nor is the first one long enough to grow from nothing."""


def is_infrastructure(text: str) -> bool:
    """Whether an error is of the service that was asked, and not of what it was asked."""
    text = text[:_READ_CHARS]
    if text.isascii() and not any(map(text.lower().__contains__, _CUES)):
        return False
    return _INFRASTRUCTURE.search(text) is not None


class InfrastructureOutage(Struct):
    """The last error of the infrastructure. Plain JSON values: part of the session's state."""

    ended_ms: int = 0
    """When it came; 0: none did."""
    pause_ms: int = 0
    """How long the session had waited before it asked then."""
    index: int = 0
    """Which action it was."""

    def pause_before(self, began_ms: int) -> int:
        """How long the session waited before a call that began then."""
        return max(0, began_ms - self.ended_ms) if self.ended_ms else 0

    def is_waited_for(self, began_ms: int) -> bool:
        """Whether a call that began then was made after a pause that was long enough."""
        pause_ms = self.pause_before(began_ms)
        return pause_ms >= _LONG_MS or pause_ms >= _GROWTH * self.pause_ms >= _SHORTEST_MS

    def note(self, began_ms: int, ended_ms: int, index: int) -> None:
        """Takes in one more."""
        self.pause_ms, self.ended_ms, self.index = self.pause_before(began_ms), ended_ms, index
