"""Garbage collection for a process with long-lived objects: between batches, and each object is scanned twice.

Events and states have no cycles, so reference counting frees them. Cycles are few: exceptions with their tracebacks,
tasks and requests of the libraries. Python's own collector would run in the middle of a batch, whenever enough objects
were allocated, and at times scan all states.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_NEW_OBJECTS: Final = 50_000
"""The number of new objects that triggers a scan, which takes some milliseconds."""
_YOUNG_EVERY_S: Final = 1.0
_WHOLE_EVERY_S: Final = 60.0
"""Objects that survive this are taken to be long-lived. Their cycles are found when partitions are revoked."""


class Collector:
    """A collector that runs only when it is called between batches."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._young_s = self._whole_s = clock()

    def tick(self) -> None:
        """Collect new objects, and every minute those since the last full collection."""
        now = self._clock()
        if now - self._whole_s >= _WHOLE_EVERY_S:
            self.whole()
        elif gc.get_count()[0] >= _NEW_OBJECTS or now - self._young_s >= _YOUNG_EVERY_S:
            gc.collect(0)
            self._young_s = now

    def whole(self) -> None:
        """Collect all objects that are not frozen, and freeze the rest."""
        gc.collect()
        gc.freeze()
        self._young_s = self._whole_s = self._clock()

    def refreeze(self) -> None:
        """Collect all objects, also frozen ones: for when states were dropped and little is left."""
        gc.unfreeze()
        self.whole()


@contextmanager
def collecting() -> Iterator[Collector]:
    """Disable Python's own collection within the block; existing objects are frozen."""
    collector = Collector()
    gc.disable()
    collector.whole()
    try:
        yield collector
    finally:
        gc.unfreeze()
        gc.enable()
