"""Orderly shutdown of a process on SIGTERM or SIGINT."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_log = logging.getLogger(__name__)


@contextmanager
def stopped_by_signals(stop: Callable[[], object], name: str) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT within the block, and log it under `name`. Use it in the main thread only."""

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        _log.info("%s: stopping on %s", name, signal.Signals(number).name)
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
