"""A call that must happen once: made again with the same key, it gives the first one's result and does nothing.

Of a call that failed nothing is kept: it may be tried again. While the first one runs, a second is refused.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from haltline.interventions.agent.rules.objection import IN_FLIGHT, Objection

_MAX_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Kept:
    """What a call gave."""

    value: Any
    has_value: bool
    at_ms: int


class Replays:
    """By action and key. Not thread safe. Beyond `max_kept` results the oldest is forgotten."""

    def __init__(self, ttl_s: float, *, max_kept: int = _MAX_KEPT) -> None:
        self._ttl_ms = ttl_s * 1000
        self._max_kept = max_kept
        self._kept: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self._running: set[tuple[str, str]] = set()

    def begin(self, action: str, key: str, now_ms: int) -> Kept | Objection | None:
        """The earlier result; why the call must wait; or None: it is to be made, and must be ended."""
        at = (action, key)
        if at in self._running:
            return Objection(IN_FLIGHT, f"{action}: the call with the key {key[:100]!r} has not ended yet")
        kept = self._kept.get(at)
        if kept is not None:
            if now_ms - kept.at_ms <= self._ttl_ms:
                return kept
            del self._kept[at]
        self._running.add(at)
        return None

    def forget(self) -> None:
        """No result is returned again; what runs still runs."""
        self._kept.clear()

    def end(self, action: str, key: str, kept: Kept | None) -> None:
        """The call has ended, or was not made: then, and when it failed, with None."""
        self._running.discard((action, key))
        if kept is None:
            return
        self._kept[action, key] = kept
        while len(self._kept) > self._max_kept:
            self._kept.popitem(last=False)
