"""The rules of one guard with their counts, and results of calls that are made once. Thread safe.

A call with the same key as an earlier one gets its result and is not made. No result of a failed call is stored: it may
be repeated. While the first call runs, a second is refused.
"""

import copy
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from haltline.interventions.agent.redaction.payload_encoding import plain
from haltline.interventions.agent.rules.settings import ClientRules
from haltline.interventions.author_rules.evaluation import Asked, Rules, RuleState
from haltline.interventions.author_rules.objection import IN_FLIGHT, Objection

_MAX_KEPT = 4096
NO_RULES: Final = ClientRules()
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS


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


class RuleBook:
    """The state of one session under its rules."""

    def __init__(self, rules: ClientRules | None = None) -> None:
        given = rules or NO_RULES
        self._rules, self._state = Rules(given, *given.also), RuleState()
        self._replays = Replays(given.idempotency_ttl_seconds)
        self.empty = given == NO_RULES
        """There are no rules."""
        self.is_strict = not self.empty and self._rules.is_strict
        """Violations refuse a call."""
        self._lock = threading.Lock()

    @property
    def spent_usd(self) -> float:
        """The session's spending, as counted for a budget."""
        return self._state.spent.get("session", 0.0)

    def begin(self, call: Asked, key: str | None) -> Kept | Sequence[Objection]:
        """Apply the rules to a call: a stored result, or the objections; without one that blocks it is admitted."""
        with self._lock:
            earlier = None if key is None else self._replays.begin(call.call_id, call.action, key, call.now_ms)
            if earlier is not None:
                return earlier if isinstance(earlier, Kept) else (earlier,)
            refused = True
            try:
                found = () if self.empty else self._rules.begin(self._state, call)
                refused = any(one.blocks for one in found)
            finally:
                if refused:
                    self._replays.end(call.call_id, None)
            return found

    def end(
        self, call_id: str, action: str, now_ms: int, *, ok: bool, cost_usd: float | None, value: Any, has_value: bool
    ) -> float | None:
        """Record the end of an admitted call. Returns its cost; None: it has none."""
        # The first caller may change the value that it received.
        kept = Kept(copied(value), has_value, now_ms) if ok and call_id in self._replays.running else None
        with self._lock:
            self._replays.end(call_id, kept)
            if self.empty:
                return cost_usd
            return self._rules.end(self._state, call_id, action, now_ms, ok=ok, usd=cost_usd)

    def release(self, call_id: str) -> None:
        """Revert the counts of a call that was admitted here and refused elsewhere."""
        with self._lock:
            self._rules.release(self._state, call_id)
            self._replays.end(call_id, None)

    def spend(self, usd: float) -> None:
        """Record spending outside of tool calls: a turn of the model."""
        with self._lock:
            self._rules.spend(self._state, usd)

    def after_fork(self) -> None:
        """In a forked child: keep the counts, and replace the lock, which a missing thread may hold."""
        self._lock = threading.Lock()

    def forget_results(self) -> None:
        """Clear stored results after a rollback, so that the calls can be made again."""
        with self._lock:
            self._replays.forget()

    def against_changed(self, action: str, args: Mapping[str, Any]) -> Objection | None:
        """Return the violations in arguments that a decision has set instead of the admitted ones."""
        with self._lock:
            return self._rules.against_arguments(action, args)

    def begin_run(self) -> None:
        """Start the next run: its budget is unspent, and evidence is cleared."""
        with self._lock:
            self._rules.begin_run(self._state)


def copied(value: Any) -> Any:
    """Return a copy of the value, if its type supports it; else the value itself."""
    try:
        return copy.deepcopy(value)
    except Exception:  # a connection, a lock, a faulty __deepcopy__
        return value


def same(args: Mapping[str, Any]) -> bytes:
    """Return bytes that are equal for equal arguments, which may be any objects."""
    try:
        return orjson.dumps(dict(args), option=_OPTIONS, default=_unknown)
    except (TypeError, ValueError, RecursionError):  # integers beyond 64 bits, lone surrogates, a cycle, too deep
        return plain(dict(args), max_bytes=0).digest.encode()


def _unknown(value: Any) -> str:
    """Return a text by identity for values that JSON does not support: two objects differ."""
    return f"<{type(value).__qualname__} {id(value)}>"
