"""The delivery queue of one channel: in order, digests grouped, held back until due. No I/O."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from haltline.schemas.incidents import IncidentRecord
from haltline.streams.notify.routes import FOLLOWED, Planned

_P = TypeVar("_P")


@dataclass(frozen=True, kw_only=True)
class Item(Generic[_P]):
    """One change to send, with its origin."""

    planned: Planned
    record: IncidentRecord
    at_ms: int
    """The time of its record."""
    origin: _P


class DeliveryQueue(Generic[_P]):
    """The items of one channel. Not thread-safe.

    Changes of one incident are sent in order: an urgent one also releases held-back changes of its incident, and a
    follow-up waits for them.
    """

    def __init__(self) -> None:
        self._items: dict[str, Item[_P]] = {}
        """Items by notification id, in order of arrival."""
        self._number = 0
        self._numbers: dict[str, int] = {}
        self._heap: list[tuple[int, int, str]] = []
        """Due time, number and id; entries of removed or rescheduled items are ignored."""
        self._held: dict[str, set[str]] = {}
        """Ids by incident."""

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Item[_P], *, settled: bool = False) -> None:
        """Add an item; one that is `settled` already only releases held-back items of its incident."""
        planned = item.planned
        held = [self._items[other] for other in self._held.get(item.record.incident_id, ())]
        if planned.route == FOLLOWED:
            due_ms = max([planned.due_ms, *(other.planned.due_ms for other in held)])
            item = replace(item, planned=replace(planned, due_ms=due_ms))
        elif planned.due_ms <= item.at_ms:
            for other in held:
                if other.planned.due_ms > planned.due_ms and other.record.revision < item.record.revision:
                    self._put(replace(other, planned=replace(other.planned, due_ms=planned.due_ms, digest=None)))
        if not settled and planned.notification_id not in self._items:
            self._number += 1
            self._numbers[planned.notification_id] = self._number
            self._put(item)

    def next_due_ms(self) -> int | None:
        """The due time of the first item."""
        self._clean()
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int, most: int) -> list[Item[_P]]:
        """Return the items of the next due message, at most `most`; empty: none is due."""
        self._clean()
        if not self._heap or self._heap[0][0] > now_ms:
            return []
        first = self._items[self._heap[0][2]]
        digest = first.planned.digest
        if digest is None:
            taken = [first]
        else:
            taken = [item for item in self._items.values() if item.planned.digest == digest][:most]
        for item in taken:
            self._remove(item)
        return taken

    def drop(self, chosen: Callable[[_P], bool]) -> None:
        """Drop the items with chosen origins."""
        for item in [item for item in self._items.values() if chosen(item.origin)]:
            self._remove(item)

    def __iter__(self) -> Iterator[Item[_P]]:
        return iter(self._items.values())

    def _put(self, item: Item[_P]) -> None:
        key = item.planned.notification_id
        self._items[key] = item
        self._held.setdefault(item.record.incident_id, set()).add(key)
        heapq.heappush(self._heap, (item.planned.due_ms, self._numbers[key], key))

    def _remove(self, item: Item[_P]) -> None:
        key = item.planned.notification_id
        del self._items[key], self._numbers[key]
        of_incident = self._held[item.record.incident_id]
        of_incident.discard(key)
        if not of_incident:
            del self._held[item.record.incident_id]

    def _clean(self) -> None:
        while self._heap:
            due_ms, number, key = self._heap[0]
            if self._numbers.get(key) == number and self._items[key].planned.due_ms == due_ms:
                return
            heapq.heappop(self._heap)
