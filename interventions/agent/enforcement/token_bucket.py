"""A token bucket: an agent that repeats a refused call in a tight loop does not flood the topics."""

import threading
import time
from collections.abc import Callable


class TokenBucket:
    """Admits `burst` records at once, then `per_s` per second; counts those held back. Thread safe."""

    def __init__(self, *, per_s: float, burst: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock_s = clock_s
        self._left = float(burst)
        self._last_s = clock_s()
        self._held_back = 0
        self._lock = threading.Lock()

    def take(self) -> int | None:
        """Return the number held back since the last admission; None: this one is held back too."""
        with self._lock:
            now_s = self._clock_s()
            self._left = min(self._burst, self._left + (now_s - self._last_s) * self._per_s)
            self._last_s = now_s
            if self._left < 1:
                self._held_back += 1
                return None
            self._left -= 1
            held_back, self._held_back = self._held_back, 0
            return held_back
