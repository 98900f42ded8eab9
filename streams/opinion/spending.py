"""The spending of second opinions: requests and US dollars within the last hour and day. Pure and thread-safe."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

from haltline.schemas.opinions import OpinionRules

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


class OverLimit(Exception):
    """One more request could exceed a limit of the policy: which, and the total with it."""


@dataclass(slots=True)
class Request:
    """A request that was made, or is in flight: then with its maximum cost."""

    at_ms: int
    usd: float


class Spending:
    """The requests of the last day."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self._lock = threading.Lock()

    def recall(self, at_ms: int, usd: float) -> None:
        """Add a request from before this process started."""
        self._requests.append(Request(at_ms, usd))

    def reserve(self, rules: OpinionRules, usd: float, now_ms: int) -> Request:
        """Count a request with its maximum cost; the caller corrects its `usd` afterwards.

        Raises:
            OverLimit: it is not counted.

        """
        with self._lock:
            while self._requests and self._requests[0].at_ms <= now_ms - DAY_MS:
                self._requests.popleft()
            hour = [request for request in self._requests if request.at_ms > now_ms - HOUR_MS]
            of_hour, of_day = (sum(r.usd for r in some) + usd for some in (hour, self._requests))
            if len(hour) >= rules.max_per_hour:
                raise OverLimit(f"max_per_hour: expected at most {rules.max_per_hour} requests, got one more")
            for name, limit, sum_usd in (
                ("max_usd_per_hour", rules.max_usd_per_hour, of_hour),
                ("max_usd_per_day", rules.max_usd_per_day, of_day),
            ):
                if sum_usd > limit:
                    raise OverLimit(f"{name}: expected at most {limit:g} USD, got up to {sum_usd:.4f} USD")
            request = Request(now_ms, usd)
            self._requests.append(request)
            return request
