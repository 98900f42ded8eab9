"""Calls to be made once: a call with the same key gets the first one's result and is not made.

No result of a failed call is stored: it may be repeated. While the first call runs, a second is refused.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

from haltline.interventions.author_rules.objection import IN_FLIGHT, Objection

_MAX_KEPT = 4096


class Kept(NamedTuple):
    """The stored result of a call."""

    value: Any
    has_value: bool
    at_ms: int


class Replays:
    """Stored results by action and key. Not thread safe. Beyond `max_kept` results the oldest is dropped."""

    def __init__(self, ttl_s: float, *, max_kept: int = _MAX_KEPT) -> None:
        self._ttl_ms = ttl_s * 1000
        self._max_kept = max_kept
        self._kept: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self.running: dict[str, tuple[str, str]] = {}
        """Action and key of the calls that run, by id."""

    def begin(self, call_id: str, action: str, key: str, now_ms: int) -> Kept | Objection | None:
        """Return the stored result; or why the call must wait; or None: make the call, then call `end`."""
        at = (action, key)
        if at in self.running.values():
            return Objection(IN_FLIGHT, f"{action}: the call with the key {key[:100]!r} has not ended yet")
        kept = self._kept.get(at)
        if kept is not None:
            if now_ms - kept.at_ms <= self._ttl_ms:
                return kept
            del self._kept[at]
        self.running[call_id] = at
        return None

    def forget(self) -> None:
        """Clear the stored results; running calls still run."""
        self._kept.clear()

    def end(self, call_id: str, kept: Kept | None) -> None:
        """End the call, if it runs and has a key; `kept` is None if it failed or was not made."""
        at = self.running.pop(call_id, None)
        if at is None or kept is None:
            return
        self._kept[at] = kept
        while len(self._kept) > self._max_kept:
            self._kept.popitem(last=False)
