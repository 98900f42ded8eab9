"""Tests wait for a condition, never for a time."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], what: str, *, deadline_s: float = 30.0) -> None:
    """Return when `condition` is true; raise AssertionError with `what` when it is not in time.

    The condition is asked again and again; what it raises goes through. One that is slow is asked less often, as what
    is waited for needs the processor too.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        begun = time.monotonic()
        if condition():
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {deadline_s:.0f} s until {what}; it did not happen")
        time.sleep(max(0.02, 3 * (time.monotonic() - begun)))
