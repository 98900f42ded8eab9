"""The log positions of the core's inputs, detection of duplicates, and detector failures."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

_SHORT_BYTES = 6
"""The bytes of a short hash: two of 64 ids collide once in 4e12 events."""
_EMPTY = blake2b(digest_size=_SHORT_BYTES)


class LogPosition(Protocol):
    """The position of an input in the log, such as a record of it."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def partition(self) -> int:
        """The partition, from 0."""

    @property
    def offset(self) -> int:
        """The offset, from 0; some are missing after compaction."""


class Position(NamedTuple):
    """A place in the log without its record."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception of a detector, which is not the same as no finding."""

    detector: str
    error: BaseException


class TakesIn(Protocol):
    """A state with the offsets and ids that it includes."""

    offsets: dict[str, int]
    """The last offset by topic."""
    seen: bytes
    """Concatenated short hashes of the last ids, oldest first: scanning one object is fast."""


def is_new(state: TakesIn, at: LogPosition | None) -> bool:
    """Return False if the state includes the input at this offset; otherwise record the offset."""
    if at is None:
        return True
    if at.offset <= state.offsets.get(at.topic, -1):
        return False
    state.offsets[at.topic] = at.offset
    return True


def is_first(state: TakesIn, input_id: str, most: int) -> bool:
    """Return False if the id is among the last `most`: its producer sent it twice. Otherwise record it."""
    hashed = _EMPTY.copy()
    hashed.update(input_id.encode())
    short = hashed.digest()
    if state.seen.find(short) >= 0:  # `in` tries a number first
        return False
    state.seen = state.seen[-(most - 1) * _SHORT_BYTES :] + short
    return True
