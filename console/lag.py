"""The workers' lag, requested from the broker at most every two seconds, however many pages are open."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from haltline.console.settings import ConsoleSettings
from haltline.streams.operator.client import Operator, PartitionLag

_KEPT_S: Final = 2.0


@dataclass
class Lag:
    """The lag of a consumer group on a topic."""

    group: str
    topic: str
    partitions: int = 0
    lag_records: int = 0
    worst: int = 0
    """The lag of the partition that is furthest behind."""


class LagWatch:
    """One cached result for all clients."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._at_s = -_KEPT_S
        self._seen: list[Lag] = []

    def look(self, settings: ConsoleSettings) -> list[Lag]:
        """The lag by topic. Raises Unreachable and NoSuchTopic."""
        with self._lock:
            if self._clock() - self._at_s >= _KEPT_S:
                operator = Operator(
                    settings.bootstrap, topics=settings.topics, group=settings.workers, client=settings.client
                )
                self._seen = by_topic(settings.workers, operator.lag())
                self._at_s = self._clock()
            return self._seen


def by_topic(group: str, partitions: list[PartitionLag]) -> list[Lag]:
    """Sums over the partitions of each topic, in the given order."""
    found: dict[str, Lag] = {}
    for one in partitions:
        lag = found.setdefault(one.topic, Lag(group, one.topic))
        lag.partitions += 1
        lag.lag_records += one.lag_records
        lag.worst = max(lag.worst, one.lag_records)
    return list(found.values())
