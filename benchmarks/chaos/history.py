"""A changelog read back whole: which of its records count, and where whoever wrote them had become the owner.

Two formats are read. In the one with claims the owner of a partition has written a record of its own to it, with a
header and without a value, and owns what is behind. In the one before it there is none: there an owner is known by its
epoch, from the first record that has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from benchmarks.chaos.expected import LogRecord
from haltline.streams.runtime.changelog import Epoch, PartitionState
from haltline.streams.sessions.state_cache import SCOPE_KEY

CLAIM_HEADER: Final = "haltline-claim"
CLAIM_KEY: Final = b"\xfe"
"""What the key of a claim begins with: no text in UTF-8 has it."""


class Written(NamedTuple):
    """A record of the changelog, and what a reader makes of it."""

    record: LogRecord
    counts: bool
    """False: its writer had been replaced, so it is read as never written."""


@dataclass
class PartitionHistory:
    """One partition of a changelog, in the order of its offsets."""

    partition: int
    written: list[Written] = field(default_factory=list)
    claims: dict[Epoch, list[int]] = field(default_factory=dict)
    """By epoch: the offsets of its claims."""
    _first: dict[Epoch, int] = field(default_factory=dict)
    _state: PartitionState = field(init=False)

    def __post_init__(self) -> None:
        self._state = PartitionState(self.partition)

    def append(self, record: LogRecord) -> None:
        """The next record."""
        self._state.apply([record])
        epoch = Epoch.of(record)
        if epoch is not None:
            self._first.setdefault(epoch, record.offset)
            if is_claim(record):
                self.claims.setdefault(epoch, []).append(record.offset)
        counts = record.key is not None and self._state.values.get(record.key) == record.value
        self.written.append(Written(record, counts))

    def of_key(self, key: bytes) -> list[Written]:
        """The records of one key."""
        return [written for written in self.written if written.record.key == key]

    def owned_since(self, record: LogRecord) -> int | None:
        """Where its writer's claim is, or its first record in a log without claims. None: no worker wrote it."""
        epoch = Epoch.of(record)
        if epoch is None:
            return None
        before = [offset for offset in self.claims.get(epoch, ()) if offset <= record.offset]
        return before[-1] if before else self._first[epoch]

    def had_read(self, writer_of: LogRecord, other: LogRecord) -> bool:
        """Whether who wrote the one had read the other when it became the owner."""
        epoch, since = Epoch.of(writer_of), self.owned_since(writer_of)
        if epoch is None or since is None or since < other.offset:
            return False
        return epoch in self.claims or epoch.since_ms >= other.timestamp


def histories(records: Iterable[LogRecord]) -> dict[int, PartitionHistory]:
    """By partition; `records` has those of each in the order of their offsets."""
    found: dict[int, PartitionHistory] = {}
    for record in records:
        found.setdefault(record.partition, PartitionHistory(record.partition)).append(record)
    return found


def is_claim(record: LogRecord) -> bool:
    """Whether an owner has written it to own what is behind."""
    return any(name == CLAIM_HEADER for name, _ in record.headers)


def state_name(key: bytes) -> str:
    """Of the key of a state: the session's id, or the scope with its id."""
    return key.removeprefix(SCOPE_KEY).decode()
