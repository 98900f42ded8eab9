"""Log messages about an outage: at its start, at intervals, and at its end."""

import logging
import time
from collections.abc import Callable
from typing import Final

AGAIN_EVERY_S: Final = 60.0


class Outage:
    """Logs the outages of one dependency of a process component. May be called on every check."""

    def __init__(
        self,
        log: logging.Logger,
        what: str,
        state: str = "is unavailable",
        *,
        again_every_s: float = AGAIN_EVERY_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`what` and `state` start each message, such as "audit sink: the broker" and "is unavailable"."""
        self._log = log
        self._logged = f"{what} {state}"
        self._still = f"{what} still {state}"
        self._again_every_s = again_every_s
        self._now_s = now_s
        self._since_s: float | None = None
        self._logged_s = 0.0

    def away(self, why: object) -> None:
        """Report that it is down."""
        now_s = self._now_s()
        if self._since_s is None:
            self._since_s = self._logged_s = now_s
            self._log.warning("%s: %s", self._logged, why)
        elif now_s - self._logged_s >= self._again_every_s:
            self._logged_s = now_s
            self._log.warning("%s, for %.0f s now: %s", self._still, now_s - self._since_s, why)

    def back(self) -> None:
        """Report that it responds."""
        since_s, self._since_s = self._since_s, None
        if since_s is not None:
            self._log.warning("%s no longer, after %.0f s", self._logged, self._now_s() - since_s)
