"""Tests wait for a condition, never for a time."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], what: str, *, deadline_s: float = 30.0) -> None:
    """Return when `condition` is true; raise AssertionError with `what` when it is not in time.

    The condition is asked again and again, so it should be quick; what it raises goes through.
    """
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {deadline_s:.0f} s until {what}; it did not happen")
        time.sleep(0.02)
