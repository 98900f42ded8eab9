"""Enumerations with an order: names on the wire, comparison by position."""

from enum import StrEnum


class OrderedName(StrEnum):
    """A StrEnum whose members compare by position, not alphabetically.

    A plain StrEnum compares as text, so that "medium" would be above "high".
    """

    rank: int

    def __new__(cls, value: str) -> "OrderedName":
        """A member, with its position as rank."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.rank = len(cls.__members__)
        return member

    def __lt__(self, other: str) -> bool:
        return self.rank < self._peer(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= self._peer(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > self._peer(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= self._peer(other).rank

    def _peer(self, other: str) -> "OrderedName":
        if not isinstance(other, type(self)):
            raise TypeError(f"compared {type(self).__name__} with {type(other).__name__} {other!r}")
        return other
