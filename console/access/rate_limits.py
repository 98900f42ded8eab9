"""How often a key may ask: a bucket of tokens for each, refilled evenly."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_KEYS: Final = 10_000
"""Whose buckets are remembered, the one used longest ago forgotten first: it is full by then."""


class RateLimits:
    """Lets each name ask `per_s` times a second on average, and `burst` times at once. Thread safe."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By name: tokens, and when they were counted."""

    def take(self, name: str) -> float:
        """0.0 when it may ask now, else the seconds until it may."""
        with self._lock:
            now = self._clock()
            tokens, at = self._left.pop(name, (float(self._burst), now))
            tokens = min(self._burst, tokens + (now - at) * self._per_s)
            wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._per_s
            self._left[name] = (tokens if wait_s else tokens - 1, now)
            if len(self._left) > MAX_KEYS:
                self._left.popitem(last=False)
            return wait_s
