"""The timers of sessions: which are due by the clock, and when."""

import heapq
from collections.abc import Collection, Iterator, Mapping

from haltline.streams.sessions.state_codec import due_of


class TimerQueue:
    """A queue of sessions with a due time, earliest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, bytes]] = []
        self._due: dict[bytes, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._due)

    def put(self, key: bytes, partition: int, due_ms: int) -> None:
        """Set when a session is due; 0: never."""
        known = self._due.get(key)
        if due_ms == 0:
            if known is not None:
                del self._due[key]
            return
        if known is None or known[0] != due_ms:
            self._due[key] = (due_ms, partition)
            heapq.heappush(self._heap, (due_ms, key))

    def recovered(self, partition: int, states: Mapping[bytes, bytes]) -> None:
        """Add the encoded states of a partition."""
        for key, encoded in states.items():
            if due_ms := due_of(encoded):
                self.put(key, partition, due_ms)

    def revoke(self, partitions: Collection[int]) -> None:
        """Forget the sessions of these partitions."""
        self._due = {key: due for key, due in self._due.items() if due[1] not in partitions}
        self._heap = [(due_ms, key) for key, (due_ms, _) in self._due.items()]
        heapq.heapify(self._heap)

    def take(self, now_ms: int) -> Iterator[bytes]:
        """Yield the sessions that are due, which the caller has to put again."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due_ms, key = heapq.heappop(heap)
            known = self._due.get(key)
            if known is not None and known[0] == due_ms:  # otherwise it was put again, or is no longer due
                del self._due[key]
                yield key
