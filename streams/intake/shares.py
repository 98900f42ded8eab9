"""Room that keys share: each may have as much as it leaves to others, so that there is always some for one more."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from haltline.interventions.agent.service.problems import Busy
from haltline.streams.intake.keys import Key


class Room:
    """So much of one thing. One key alone gets half of it, two a third each, and so on."""

    def __init__(self, total: int, what: str) -> None:
        """`what` names the thing in the answer to a key that has too much of it."""
        self._free = total
        self._what = what
        self._taken: Counter[Key] = Counter()

    def take(self, key: Key, amount: int = 1) -> None:
        """Give the key so much more. Raises Busy when it would have more than is left."""
        if self._taken[key] + amount > self._free - amount:
            raise Busy(f"expected key {key.name} to have {self._what} within its share of the intake, got more")
        self._taken[key] += amount
        self._free -= amount

    def give_back(self, key: Key, amount: int = 1) -> None:
        """Take so much back from the key."""
        self._taken[key] -= amount
        self._free += amount
        if not self._taken[key]:
            del self._taken[key]

    @contextmanager
    def taken(self, key: Key, amount: int = 1) -> Iterator[None]:
        """As `take`, for the time of a block."""
        self.take(key, amount)
        try:
            yield
        finally:
            self.give_back(key, amount)
