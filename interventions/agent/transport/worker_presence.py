"""Visibility of this process's events to workers, as far as the topic of actions shows it.

A broker that accepts every record is not enough. Workers read a recreated topic only after they have noticed it; nobody
reads a deleted one; and with more partitions than before, some sessions are in partitions without a reader.
"""

import time
from collections.abc import Callable
from typing import Final

from haltline.schemas.partitioner import partition_of

LOOK_EVERY_S: Final = 5.0
RESTART_WITHIN_S: Final = 60.0
"""Workers notice within seconds that a topic was recreated, and start again."""

GONE: Final = "the topic of actions is gone: no worker sees what is done"
RECREATED: Final = "the topic of actions was recreated: workers may not see what is done until they have restarted"
MOVED: Final = "the topic of actions has other partitions than before: no worker reads that of this session"

_ORDER_WITHIN_S: Final = 1.0
"""Delivery reports of two threads may be handled out of order, within a moment."""


class WorkerPresence:
    """The known state of the topic. Written by the connection's thread, read by any."""

    def __init__(self, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._highest: dict[int, tuple[int, float]] = {}
        self._began_with = self._count = 0
        self._gone = False
        self._recreated_s: float | None = None
        self._looked_s: float | None = None

    def is_due(self) -> bool:
        """Return whether the topic is to be checked now; then not again for some seconds."""
        now_s = self._now_s()
        if self._looked_s is not None and now_s - self._looked_s < LOOK_EVERY_S:
            return False
        self._looked_s = now_s
        return True

    def looked(self, partitions: int | None) -> None:
        """Set the current number of partitions of the topic; None: it is missing."""
        self._gone = partitions is None
        if partitions is not None:
            self._count = partitions
            self._began_with = self._began_with or partitions

    def delivered(self, partition: int, offset: int) -> None:
        """Record the offset of a delivered record of this process."""
        now_s = self._now_s()
        highest, at_s = self._highest.get(partition, (-1, now_s))
        if offset >= highest:
            self._highest[partition] = (offset, now_s)
        elif now_s - at_s > _ORDER_WITHIN_S:
            self._highest[partition] = (offset, now_s)
            self._recreated_s = now_s

    def unwatched_reason(self, session_id: str | None = None) -> str | None:
        """Return why workers may not see this session's events; None: no reason.

        Without a session: those of any session.
        """
        if self._gone:
            return GONE
        if self._recreated_s is not None and self._now_s() - self._recreated_s < RESTART_WITHIN_S:
            return RECREATED
        before, now = self._began_with, self._count
        if before == now or (
            session_id is not None and partition_of(session_id, before) == partition_of(session_id, now)
        ):
            return None
        return MOVED
