"""Errors of the infrastructure, and whether the session backs off after them.

After an error of an overloaded, rate-limited or unreachable service, a session should pause before it retries: at least
1.5 times as long as before, or 30 seconds. Retries at once, or every few seconds, do not count as backing off.
"""

from haltline.detectors.commands.rows import expression_of, texts_of
from haltline.schemas import expressions as re
from haltline.schemas.stored import Stored

_INFRASTRUCTURE = expression_of("a service is down", re.IGNORECASE)
_CUES = texts_of("signs of an outage")
"""Every match contains one of these, which are checked first."""
_READ_CHARS = 512
_GROWTH = 1.5
_LONG_MS = 30_000
_SHORTEST_MS = 500
"""Growth counts only if it requires a pause of at least this, so not from a pause near 0."""


def is_infrastructure(text: str) -> bool:
    """Return whether an error comes from the service, and not from the request."""
    text = text[:_READ_CHARS]
    if text.isascii() and not any(map(text.lower().__contains__, _CUES)):
        return False
    return _INFRASTRUCTURE.search(text) is not None


class InfrastructureOutage(Stored):
    """The last error of the infrastructure. Plain JSON values: part of the session's state."""

    ended_ms: int = 0
    """Event time of the error, epoch milliseconds; 0: there was none."""
    pause_ms: int = 0
    """Milliseconds that the session had paused before the failed call."""
    index: int = 0
    """Index of its action."""

    def pause_before(self, began_ms: int) -> int:
        """Milliseconds that the session paused before a call that began at this time."""
        return max(0, began_ms - self.ended_ms) if self.ended_ms else 0

    def is_waited_for(self, began_ms: int) -> bool:
        """Return whether a call that began at this time was made after a sufficient pause."""
        pause_ms = self.pause_before(began_ms)
        return pause_ms >= _LONG_MS or pause_ms >= _GROWTH * self.pause_ms >= _SHORTEST_MS

    def note(self, began_ms: int, ended_ms: int, index: int) -> None:
        """Record an error."""
        self.pause_ms, self.ended_ms, self.index = self.pause_before(began_ms), ended_ms, index
