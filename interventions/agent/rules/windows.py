"""Sliding windows of calls: rate limits, and the loop rule.

An entry exactly as old as the window still counts, as in Agent Sentinel's loop guard. A window stores no more times
than it needs to decide, so that a limit of any size can be reached (Agent Sentinel keeps 32, and never reaches more).
"""

import math
from collections import OrderedDict, deque
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

from haltline.interventions.agent.redaction.payload_encoding import plain
from haltline.interventions.agent.rules.objection import LOOP, RATE, Objection
from haltline.interventions.agent.rules.settings import LoopRule, RateLimit

_MAX_CALLS = 1024
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS


class Rate:
    """One rate limit over admitted calls. Not thread safe."""

    def __init__(self, action: str, limit: RateLimit) -> None:
        self._action = action
        self._limit = limit
        self._window_ms = limit.window_seconds * 1000
        self._times: deque[int] = deque(maxlen=max(1, limit.max_count))

    def against(self, now_ms: int) -> Objection | None:
        """Return why the limit is reached now, if so."""
        count = self._limit.max_count
        if count and (len(self._times) < count or now_ms - self._times[0] > self._window_ms):
            return None
        wait_ms = self._times[0] + self._window_ms - now_ms if self._times else self._window_ms
        return Objection(
            RATE,
            f"{self._action}: {count} calls in {self._limit.window_seconds:g}s were made already",
            values={"count": len(self._times)},
            thresholds={"max_count": count, "window_s": self._limit.window_seconds},
            retry_after_s=max(1, math.floor(wait_ms / 1000) + 1),  # at the window's very end it still counts
        )

    def note(self, now_ms: int) -> None:
        """Count an admitted call."""
        self._times.append(now_ms)


class Loop:
    """One loop rule of one session. Not thread safe."""

    def __init__(self, rule: LoopRule) -> None:
        self._rule = rule
        self._window_ms = rule.window_seconds * 1000
        self._calls: OrderedDict[bytes, deque[int]] = OrderedDict()

    def against(self, action: str, args: Mapping[str, Any], now_ms: int) -> Objection | None:
        """Count an attempt, then return the objection if it is one too many; so refused attempts count too."""
        rule = self._rule
        key = _fingerprint(action, args, rule.arg_exclude)
        times = self._calls.pop(key, None) or deque(maxlen=rule.threshold)
        self._calls[key] = times
        while len(self._calls) > _MAX_CALLS:
            self._calls.popitem(last=False)
        times.append(now_ms)
        count = sum(now_ms - at <= self._window_ms for at in times)
        if count < rule.threshold:
            return None
        return Objection(
            LOOP,
            f"{action}: {count} equal calls within {rule.window_seconds:g}s",
            values={"count": count, "arguments": key.hex()},
            thresholds={"threshold": rule.threshold, "window_s": rule.window_seconds},
        )


def _fingerprint(action: str, args: Mapping[str, Any], without: tuple[str, ...]) -> bytes:
    kept = {name: value for name, value in args.items() if name not in without} if without else dict(args)
    try:
        encoded = orjson.dumps(kept, option=_OPTIONS, default=_unknown)
    except (TypeError, ValueError, RecursionError):  # integers beyond 64 bits, lone surrogates, a cycle, too deep
        encoded = plain(kept, max_bytes=0).digest.encode()
    return blake2b(action.encode(errors="replace") + b"\x1f" + encoded, digest_size=8).digest()


def _unknown(value: Any) -> str:
    """Return a text by identity for values that JSON does not support: two objects differ."""
    return f"<{type(value).__qualname__} {id(value)}>"
