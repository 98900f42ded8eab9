"""A changelog read back whole: which of its records count, and where whoever wrote them had become the owner.

A state names the claim of its writer, who has read everything before that claim. A state of a release before claims has
an epoch instead: its writer is known from the first record that has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import Epoch, Owner, PartitionState
from haltline.streams.sessions.state_cache import SCOPE_KEY


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
    _first: dict[Epoch, int] = field(default_factory=dict)
    _state: PartitionState = field(init=False)

    def __post_init__(self) -> None:
        self._state = PartitionState(self.partition)

    def append(self, record: LogRecord) -> None:
        """The next record."""
        take(self._state, record)
        if (epoch := Epoch.of(record)) is not None:
            self._first.setdefault(epoch, record.offset)
        counts = record.key is not None and self._state.values.get(record.key) == record.value
        self.written.append(Written(record, counts))

    def of_key(self, key: bytes) -> list[Written]:
        """The records of one key."""
        return [written for written in self.written if written.record.key == key]

    def owned_since(self, record: LogRecord) -> int | None:
        """The offset of its writer's claim, or of its writer's first record. None: no worker wrote it."""
        owner, epoch = Owner.of(record), Epoch.of(record)
        if owner is not None:
            return owner.claim
        return None if epoch is None else self._first[epoch]

    def had_read(self, writer_of: LogRecord, other: LogRecord) -> bool:
        """Whether who wrote the one had read the other when it became the owner."""
        since, epoch = self.owned_since(writer_of), Epoch.of(writer_of)
        if since is None or since < other.offset:
            return False
        return epoch is None or epoch.since_ms >= other.timestamp


def histories(records: Iterable[LogRecord]) -> dict[int, PartitionHistory]:
    """By partition; `records` has those of each in the order of their offsets."""
    found: dict[int, PartitionHistory] = {}
    for record in records:
        found.setdefault(record.partition, PartitionHistory(record.partition)).append(record)
    return found


def take(state: PartitionState, record: LogRecord) -> None:
    """Apply one record by the rules by which a worker reads its changelog; what is missing before it was compacted."""
    state.apply([record], begins=state.position, following=record.offset + 1)


def state_name(key: bytes) -> str:
    """Of the key of a state: the session's id, or the scope with its id."""
    return key.removeprefix(SCOPE_KEY).decode()
