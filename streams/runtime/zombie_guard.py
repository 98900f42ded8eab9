"""Detection of a process that was stopped for so long that another has replaced it.

A process does not notice that it is stopped (SIGSTOP, a suspended or migrated machine, swapped out). When it resumes,
another worker may own its partitions, and its outputs are stale. So the time since the last beat is checked before
anything is sent. A thread of its own beats, so that long work in the main thread does not look like a stop.
"""

from collections.abc import Callable
from typing import Final

from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.system import REAL, System

_BEAT_EVERY_S: Final = 0.2


class ZombieGuard:
    """Beats in a thread of its own until `stop`.

    When the process stood still for more than `limit_s` seconds, the thread that detects it first calls `end`, which
    must not return.
    """

    def __init__(self, limit_s: float, end: Callable[[KnownFailure], object], *, system: System = REAL) -> None:
        self._limit_s = limit_s
        self._end = end
        self._now = system.boottime
        self._last = self._now()
        self._stop = system.event()
        self._thread = system.thread(target=self._run, name="pulse", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """End the process if it had been stopped. Call it before sending anything."""
        gap = self._now() - self._last
        if gap > self._limit_s:
            stood = f"this process stood still for {gap:.1f} s, longer than the session timeout"
            self._end(KnownFailure(f"{stood}: another may have its partitions"))

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_BEAT_EVERY_S):
            self.check()
            self._last = self._now()
