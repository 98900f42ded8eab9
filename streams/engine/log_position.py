"""Where inputs of the core come from, whether a state has them already, and what failed on one."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

_SHORT_BYTES = 6
"""Two of 64 ids share them once in 4e12 events."""


class LogPosition(Protocol):
    """Where an input stands in the log, such as a record of it."""

    @property
    def topic(self) -> str:
        """Its name."""

    @property
    def partition(self) -> int:
        """From 0."""

    @property
    def offset(self) -> int:
        """From 0; some are missing after compaction."""


class Position(NamedTuple):
    """A place in the log without its record."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A detector that raised: never the same as one that found nothing."""

    detector: str
    error: BaseException


class TakesIn(Protocol):
    """A state that knows what it includes."""

    offsets: dict[str, int]
    """By topic: the last offset."""
    seen: bytes
    """Short hashes of the last ids one behind the other, the oldest first: one object to look at, not many."""


def is_new(state: TakesIn, at: LogPosition | None) -> bool:
    """False when the state includes the input at this offset; notes the offset otherwise."""
    if at is None:
        return True
    if at.offset <= state.offsets.get(at.topic, -1):
        return False
    state.offsets[at.topic] = at.offset
    return True


def is_first(state: TakesIn, input_id: str, most: int) -> bool:
    """False when the id was among the last `most`: its producer sent it twice. Notes it otherwise."""
    short = blake2b(input_id.encode(), digest_size=_SHORT_BYTES).digest()
    if state.seen.find(short) >= 0:  # `in` takes half as long again: it tries a number first
        return False
    state.seen = state.seen[-(most - 1) * _SHORT_BYTES :] + short
    return True


def includes_offsets(state: TakesIn, other: TakesIn) -> bool:
    """Whether a state is at the other's offset in each topic, or behind it."""
    return all(state.offsets.get(topic, -1) >= offset for topic, offset in other.offsets.items())


def remembers_ids(state: TakesIn, other: TakesIn, most: int) -> bool | None:
    """Whether a state remembers the ids that the other does, but for the oldest where it has forgotten some.

    None: it has none of them, and may have forgotten them all.
    """
    ids = _ids(other)
    known = set(_ids(state))
    unknown = [short for short in ids if short not in known]
    if not unknown:
        return True
    if len(known) < most or unknown != ids[: len(unknown)]:
        return False
    return True if len(unknown) < len(ids) else None


def _ids(state: TakesIn) -> list[bytes]:
    return [state.seen[at : at + _SHORT_BYTES] for at in range(0, len(state.seen), _SHORT_BYTES)]
