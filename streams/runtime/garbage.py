"""Garbage collection of a process whose objects live long: between batches, and each object is looked at twice.

Events and states hold no cycles: they are freed by their reference counts. What does hold cycles is little: failures
with their tracebacks, tasks and requests of the libraries. Python would look for it in the middle of a batch, whenever
so many objects were made, and at times through all states there are.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_NEW_OBJECTS: Final = 50_000
"""Looked through at once when there are so many: some milliseconds."""
_YOUNG_EVERY_S: Final = 1.0
_WHOLE_EVERY_S: Final = 60.0
"""What lives for longer is taken to live on. A cycle of such objects is found when partitions are given up."""


class Collector:
    """Collects when it is told that nothing is being worked on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._young_s = self._whole_s = clock()

    def tick(self) -> None:
        """Looks through what is new, and every minute through what has come since the last whole look."""
        now = self._clock()
        if now - self._whole_s >= _WHOLE_EVERY_S:
            self.whole()
        elif gc.get_count()[0] >= _NEW_OBJECTS or now - self._young_s >= _YOUNG_EVERY_S:
            gc.collect(0)
            self._young_s = now

    def whole(self) -> None:
        """Looks through all that is not frozen, and freezes what is left: it is not looked at again."""
        gc.collect()
        gc.freeze()
        self._young_s = self._whole_s = self._clock()

    def anew(self) -> None:
        """Looks through everything: when states were dropped, little is left."""
        gc.unfreeze()
        self.whole()


@contextmanager
def collecting() -> Iterator[Collector]:
    """Python does not collect by itself meanwhile; what is there already is frozen."""
    collector = Collector()
    gc.disable()
    collector.whole()
    try:
        yield collector
    finally:
        gc.unfreeze()
        gc.enable()
