"""The workers' lag, requested from the broker at most every two seconds, however many pages are open."""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from haltline.console.settings import ConsoleSettings
from haltline.streams.operator.client import Operator, PartitionLag

_KEPT_S: Final = 2.0


class LagWatch:
    """One cached result for all clients."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._at_s = -_KEPT_S
        self._seen: list[dict[str, Any]] = []

    def look(self, settings: ConsoleSettings) -> list[dict[str, Any]]:
        """The lag by topic. Raises Unreachable and NoSuchTopic."""
        with self._lock:
            if self._clock() - self._at_s >= _KEPT_S:
                operator = Operator(
                    settings.bootstrap, topics=settings.topics, group=settings.workers, client=settings.client
                )
                self._seen = by_topic(settings.workers, operator.lag())
                self._at_s = self._clock()
            return self._seen


def by_topic(group: str, partitions: list[PartitionLag]) -> list[dict[str, Any]]:
    """Sums over the partitions of each topic, in the given order."""
    found: dict[str, dict[str, Any]] = {}
    for one in partitions:
        entry = found.setdefault(
            one.topic, {"group": group, "topic": one.topic, "partitions": 0, "lag_records": 0, "worst": 0}
        )
        entry["partitions"] += 1
        entry["lag_records"] += one.lag_records
        entry["worst"] = max(entry["worst"], one.lag_records)
    return list(found.values())
