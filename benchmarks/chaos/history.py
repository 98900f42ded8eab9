"""A complete changelog: which of its records count, and from which offset their writers owned the partition.

A state names the claim of its writer, which has read everything before that claim. A state of a release before claims
has an epoch instead: its writer owned the partition from the first record with that epoch.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import Epoch, Owner, PartitionState
from haltline.streams.sessions.state_cache import SCOPE_KEY


class Written(NamedTuple):
    """A record of the changelog, and whether a reader accepts it."""

    record: LogRecord
    counts: bool
    """False: its writer had been replaced, so readers ignore it."""


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
        """Append the next record."""
        take(self._state, record)
        if (epoch := Epoch.of(record)) is not None:
            self._first.setdefault(epoch, record.offset)
        counts = record.key is not None and self._state.values.get(record.key) == record.value
        self.written.append(Written(record, counts))

    def of_key(self, key: bytes) -> list[Written]:
        """Return the records of one key."""
        return [written for written in self.written if written.record.key == key]

    def owned_since(self, record: LogRecord) -> int | None:
        """Return the offset of its writer's claim or first record; None when no worker wrote it."""
        owner, epoch = Owner.of(record), Epoch.of(record)
        if owner is not None:
            return owner.claim
        return None if epoch is None else self._first[epoch]

    def had_read(self, writer_of: LogRecord, other: LogRecord) -> bool:
        """Return whether the writer of the first record had read the other when it became the owner."""
        since, epoch = self.owned_since(writer_of), Epoch.of(writer_of)
        if since is None or since < other.offset:
            return False
        return epoch is None or epoch.since_ms >= other.timestamp


def histories(records: Iterable[LogRecord]) -> dict[int, PartitionHistory]:
    """Return the histories by partition; `records` are in order of offsets within a partition."""
    found: dict[int, PartitionHistory] = {}
    for record in records:
        found.setdefault(record.partition, PartitionHistory(record.partition)).append(record)
    return found


def take(state: PartitionState, record: LogRecord) -> None:
    """Apply one record as a worker does when it reads its changelog. Missing offsets before it were compacted."""
    state.apply([record], begins=state.position, following=record.offset + 1)


def state_name(key: bytes) -> str:
    """Return the name of a state's key: the session's id, or the scope with its id."""
    return key.removeprefix(SCOPE_KEY).decode()
