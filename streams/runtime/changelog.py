"""The encoded states of one partition, as the changelog topic tells them, and who may write it.

A changelog partition has one writer at a time: the worker that the group has given the source
partition. A worker that was taken for dead and is not (stopped, swapped out, cut off) may still
write when another has its partitions; Kafka takes the record, it is the last for its key, and
every event that the new owner had added would be gone from the state. Three things prevent it:

1. A worker that finds itself stopped for longer than the session timeout ends before it sends
   anything (`haltline.streams.runtime.zombie_guard`). What librdkafka and the kernel had in their queues may
   still leave.
2. Each record carries the writer's `Epoch` in a header, and each owner's epoch is above every
   epoch that it has read and above that of every earlier owner, because the group's generation
   is added. The group is asked between the reading and the claim, so that what was read cannot be
   of a later generation. A record whose epoch is below one that stands before it was written by an
   owner that had been replaced. Readers take it as never written. That loses nothing: its writer could not
   commit offsets after it (the group refuses an old generation), so what it had processed is
   processed again by the new owner.
3. Each owner knows the offset that its next record must get: one more than the last. If a record
   lands elsewhere, or the partition is found to end further on, somebody else wrote, and the
   process ends; when it starts again it reads what happened by rule 2, and writes anew the keys
   whose last record is a late one.

The window that remains: a late record, and then the compaction of the newer record before it, in
the few seconds until the owner looks where the partition ends. Kafka never compacts the segment
being written (ten minutes, or 64 MiB, as our topics are made), so a late record would have to fall
on the end of a segment and be followed by a run of the cleaner within those seconds; or the owner
would have to be gone for longer, with nobody in its place.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import Final, NamedTuple, Protocol

from haltline.streams.kafka.failure import KnownFailure

EPOCH_HEADER: Final = "haltline-epoch"
TOPIC_IDS_HEADER: Final = "haltline-logs"
"""Which logs the offsets in a state count in: `topic_ids.Logs.mark` of its writer. Without it that is not known."""

_EPOCH = struct.Struct(">qq")
_MAX_ERAS = 1 << 62


class RawRecord(Protocol):
    """A record of the broker. aiokafka's ConsumerRecord is one."""

    @property
    def topic(self) -> str:
        """Where it stands: topic, partition, offset."""
        ...

    @property
    def partition(self) -> int:
        """From 0."""
        ...

    @property
    def offset(self) -> int:
        """From 0; some are missing after compaction."""
        ...

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970, of the producer or of the broker, as the topic is set."""
        ...

    @property
    def key(self) -> bytes | None:
        """What it was partitioned by."""
        ...

    @property
    def value(self) -> bytes | None:
        """None on a compacted topic removes the key."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """A name may stand more than once, and without a value."""
        ...


class Epoch(NamedTuple):
    """Who owned a partition, in order: a later owner's is greater."""

    era: int
    """The highest era that its owner had read, plus the group's generation."""
    since_ms: int
    """When its owner took it; orders a static member that came back within one generation."""

    def encode(self) -> bytes:
        """The header's value: 16 bytes."""
        return _EPOCH.pack(*self)

    @classmethod
    def of(cls, record: RawRecord) -> "Epoch | None":
        """The epoch of a changelog record; None when no worker wrote it."""
        for name, value in record.headers:
            if name == EPOCH_HEADER and value is not None and len(value) == _EPOCH.size:
                epoch = cls(*_EPOCH.unpack(value))
                return epoch if epoch.era <= _MAX_ERAS else None  # whoever follows could not be above it
        return None


NOBODY: Final = Epoch(0, 0)


def _logs_of(record: RawRecord) -> bytes:
    return next((value or b"" for name, value in record.headers if name == TOPIC_IDS_HEADER), b"")


class ForeignWrite(KnownFailure):
    """A record of another writer stands in a changelog partition that this process owns."""


class PartitionState:
    """The states of one partition: encoded bytes by key, complete up to `offset`."""

    __slots__ = (
        "_written",
        "epoch",
        "fenced_keys",
        "in_flight",
        "logs",
        "offset",
        "other_logs",
        "partition",
        "skipped",
        "values",
    )

    def __init__(self, partition: int, logs: bytes = b"") -> None:
        self.partition = partition
        self.logs = logs
        """What the logs are now that offsets of states count in; empty: it is not known."""
        self.other_logs: dict[bytes, bytes] = {}
        """By key of a state whose writer knew other logs, or did not say: which; empty where it is not known."""
        self.values: dict[bytes, bytes] = {}
        self._written: dict[bytes, int] = {}  # when, the longest ago first; without those that were given out as idle
        self.offset: int | None = None
        """The last changelog record that is applied; None before the first."""
        self.epoch = NOBODY
        self.fenced_keys: set[bytes] = set()
        """Keys whose last record in the log is a late one; to be written anew."""
        self.in_flight = 0
        """Own records handed over and not confirmed yet."""
        self.skipped = 0
        """Records without a key, which cannot be a session's."""

    def apply(self, records: Iterable[RawRecord]) -> None:
        """Read records of the changelog partition, in offset order; those read before are passed over."""
        for record in records:
            if self.offset is not None and record.offset <= self.offset:
                continue
            self.offset = record.offset
            key = record.key
            if key is None:
                self.skipped += 1
                continue
            epoch = Epoch.of(record)
            if epoch is not None and epoch < self.epoch:
                self.fenced_keys.add(key)
                continue
            if epoch is not None:
                self.epoch = epoch
            self.fenced_keys.discard(key)
            self.put(key, record.value, record.timestamp, _logs_of(record))

    def put(self, key: bytes, value: bytes | None, written_ms: int, logs: bytes | None = None) -> None:
        """Set the state of one key, as it was written then; None drops it.

        `logs` are those that its offsets count in, where they are not those of now.
        """
        self._written.pop(key, None)
        if logs is None or (logs == self.logs and logs) or value is None:
            self.other_logs.pop(key, None)
        else:
            self.other_logs[key] = logs
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
            self._written[key] = written_ms

    def take_idle(self, before_ms: int, limit: int) -> list[bytes]:
        """Keys whose states were last written before then, so many at most; each once until it is written again."""
        idle = [key for key, _ in takewhile(lambda item: item[1] < before_ms, islice(self._written.items(), limit))]
        for key in idle:
            del self._written[key]
        return idle

    def claim(self, generation: int, now_ms: int, last_offset: int) -> None:
        """Become the owner: take an epoch above all that was read. Once per assignment, after recovery.

        `last_offset` is where the partition ended when recovery began; compaction may have
        left less to read.
        """
        self.epoch = Epoch(self.epoch.era + generation, now_ms)
        if self.offset is None or self.offset < last_offset:
            self.offset = last_offset

    def record_sent(self) -> None:
        """Call for each own record that is handed over."""
        self.in_flight += 1

    def record_confirmed(self, offset: int) -> None:
        """Take in where an own record landed; -1 when the broker does not say.

        Raises ForeignWrite when it is not the offset after the last one.
        """
        self.in_flight -= 1
        expected = self._next()
        if offset not in (-1, expected):
            raise self._foreign(f"our record at offset {expected}, got {offset}")
        self.offset = expected

    def check_end_offset(self, offset: int) -> None:
        """Take in where the partition ended at some time in the past.

        Raises ForeignWrite when our own records do not reach that far.
        """
        reach = self._next() + self.in_flight
        if offset > reach:
            raise self._foreign(f"its end at offset {reach} or before, got {offset}")

    def _next(self) -> int:
        return 0 if self.offset is None else self.offset + 1

    def _foreign(self, difference: str) -> ForeignWrite:
        return ForeignWrite(
            f"changelog partition {self.partition}: expected {difference}: another process writes to it"
        )
