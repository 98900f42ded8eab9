"""The encoded states of one partition, as read from the changelog topic, and the rules of who may write it.

A changelog partition has one writer at a time: the worker to which the group assigned the source partition. A worker
that was considered dead but is alive (stopped, swapped out, disconnected) may still write after another owns its
partitions. Kafka accepts the record as the latest of its key, and the state would lose every event that the new owner
had added.

The order of the log alone determines which records count:

1. A worker that is assigned a partition writes a `Claim` to it, and reads from its current position until it has read
   that claim. It has then read everything before the claim that counts. Nothing else shows that a partition is
   recovered: neither a high watermark nor a callback of a framework.
2. Each record carries the `Owner` that wrote it: the offset and the id of its claim. It counts if that is the last
   claim before it. Other records are from replaced owners, and readers ignore them. That loses nothing: their writer
   could not commit offsets afterwards (the group refuses an old generation), so the new owner processes the same
   events again. The new owner rewrites such keys first, so that compaction keeps the right value.
3. After an owner has read its claim, it asks the group whether it is still a member of the generation that assigned
   the partition. So a later owner's claim follows everything that this owner commits.
4. Each owner knows the offset that its next record must get: one more than the last. If a record gets another offset,
   or the partition ends further on, another process wrote: a replaced owner, or one that claims late. The process
   ends before it commits, and claims again when it restarts. So does one whose record was confirmed without an offset
   (`schemas.delivery`).

A claim has a unique key and no value. Compaction keeps it for `delete.retention.ms` (a day), and removes older claims
first: once a claim was read, no later one is missing. For records older than a day, the claims' offsets in the records
give the order. Releases before claims wrote an `Epoch` instead of an owner. Their records count by their epochs if no
claim precedes them. After a claim they are an error: their writer may have been a group member that committed, or a
replaced one. A release marker (`haltline changelog release`) makes them count again, for an operator who downgrades to
such a release.

The remaining risk: a late record is written, and the newer record before it is compacted before an owner has rewritten
the key. `min.compaction.lag.ms` keeps each record for ten minutes, so the partition would have to be without an owner
for longer than that.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Final, NamedTuple, Protocol

from haltline.streams.engine.log_position import LogPosition
from haltline.streams.kafka.failure import KnownFailure

CLAIM_KEY: Final = b"\xfe"
"""The prefix of a claim's key. It is invalid in UTF-8, so no session's key begins with it."""
OWNER_HEADER: Final = "haltline-owner"
"""The header of the writer: `Owner.encode` on a state, the id on a claim, without a value on a release marker."""
EPOCH_HEADER: Final = "haltline-epoch"
"""The header of states written by releases before claims."""
TOPIC_IDS_HEADER: Final = "haltline-logs"
"""The header of a claim that identifies the logs of its owner's offsets: `topic_ids.Logs.mark`. Absent if unknown.

Earlier releases wrote it to each state."""
BEGINS_HEADER: Final = "haltline-begins"
"""The header of a claim that says where its owner begins to read: `topic=offset` of each source, between spaces.

Absent if nothing was committed. See `careful_reading`."""
ID_BYTES: Final = 16

_EPOCH = struct.Struct(">qq")
_MAX_ERAS = 1 << 62
_OWNER = struct.Struct(f">q{ID_BYTES}s")


class RawRecord(LogPosition, Protocol):
    """A record from the broker."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970, set by the producer or the broker, depending on the topic's configuration."""

    @property
    def key(self) -> bytes | None:
        """The key, which determines the partition."""

    @property
    def value(self) -> bytes | None:
        """The value; None is a tombstone on a compacted topic."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """The headers; a name may occur more than once, and without a value."""


class Epoch(NamedTuple):
    """The owner of a partition in releases before claims. Ordered: a later owner's epoch is greater."""

    era: int
    """The highest era that its owner had read, plus the group's generation."""
    since_ms: int
    """When its owner was assigned it, in epoch milliseconds; orders the assignments of a static member within one
    generation."""

    def encode(self) -> bytes:
        """The header's value: 16 bytes."""
        return _EPOCH.pack(*self)

    @classmethod
    def of(cls, record: RawRecord) -> "Epoch | None":
        """Return the epoch of a changelog record; None if no worker of such a release wrote it."""
        value = _header(record, EPOCH_HEADER)
        if value is None or len(value) != _EPOCH.size:
            return None
        epoch = cls(*_EPOCH.unpack(value))
        return epoch if epoch.era <= _MAX_ERAS else None  # the next owner's could not be greater


class Owner(NamedTuple):
    """The process that may write a partition, from its claim on."""

    claim: int
    """The offset of its claim."""
    id: bytes
    """The id of its claim: in a log whose tail was truncated, two claims can have the same offset."""

    def encode(self) -> bytes:
        """The header's value: 24 bytes."""
        return _OWNER.pack(*self)

    @classmethod
    def of(cls, record: RawRecord) -> "Owner | None":
        """Return the owner that wrote a state; None if no worker of this release did."""
        value = _header(record, OWNER_HEADER)
        return cls(*_OWNER.unpack(value)) if value is not None and len(value) == _OWNER.size else None


class Claim(NamedTuple):
    """A record without a value that gives its writer the right to write the partition."""

    id: bytes
    """ID_BYTES random bytes. Empty in a release marker: no worker of this release may write."""
    logs: bytes = b""
    """The mark of the logs to which the owner's offsets refer; empty if unknown."""
    begins: bytes = b""
    """The value of BEGINS_HEADER."""

    @property
    def key(self) -> bytes:
        """A unique key, so that compaction keeps every claim until it expires."""
        return CLAIM_KEY + self.id

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """The headers of the record."""
        known = ((TOPIC_IDS_HEADER, self.logs), (BEGINS_HEADER, self.begins))
        return ((OWNER_HEADER, self.id or None), *((name, value) for name, value in known if value))

    @classmethod
    def of(cls, record: RawRecord) -> "Claim | None":
        """Return the claim in a record; None if it is not a claim."""
        key = record.key
        if key is None or not key.startswith(CLAIM_KEY) or record.value is not None:
            return None
        claim_id = _header(record, OWNER_HEADER) or b""
        if len(claim_id) not in (0, ID_BYTES):
            return None
        return cls(claim_id, _header(record, TOPIC_IDS_HEADER) or b"", _header(record, BEGINS_HEADER) or b"")


def begins_of(offsets: Mapping[tuple[str, int], int]) -> Mapping[int, bytes]:
    """Return by partition the value of BEGINS_HEADER for these offsets of sources."""
    words: dict[int, list[bytes]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        words[partition].append(_begin(topic, offset))
    return {partition: b" ".join(begins) for partition, begins in words.items()}


def _begin(topic: str, offset: int) -> bytes:
    return f"{topic}={offset}".encode()


def _header(record: RawRecord, name: str) -> bytes | None:
    return next((value for header, value in record.headers if header == name), None)


class ForeignWrite(KnownFailure):
    """A changelog partition that this process owns has a record of another writer."""


class ChangelogGap(KnownFailure):
    """Records of a changelog partition were skipped during reading."""


class OlderRelease(KnownFailure):
    """A worker of a release before claims wrote after a claim."""


class PartitionState:
    """The states of one partition: encoded bytes by key, complete up to `position`."""

    __slots__ = (
        "_begins",
        "_claims_read",
        "_epoch",
        "_expected",
        "_older",
        "_was_read",
        "_written",
        "fenced_keys",
        "former",
        "in_flight",
        "logs",
        "owner",
        "partition",
        "position",
        "skipped",
        "stale",
        "values",
    )

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.logs = b""
        """The mark of the logs of the last owner that named any."""
        self.former: set[bytes] = set()
        """The marks of owners before, which had other logs: one of their topics was deleted and recreated since."""
        self.stale: set[bytes] = set()
        """Keys of states whose offsets refer to those."""
        self.values: dict[bytes, bytes] = {}
        self._written: dict[bytes, int] = {}  # epoch ms, oldest first, without keys already returned as idle
        self.position = 0
        """The next offset to read, or the one that our next record must get. Everything before it is applied."""
        self.owner: Owner | None = None
        """The owner whose records count now; None: no worker of this release."""
        self._begins = (b"", b"")  # of the last two claims
        self._claims_read = False
        self._epoch = Epoch(0, 0)
        self._older: int | None = None  # the last offset that an older release wrote after a claim
        self._expected = b""  # the id of our own claim
        self._was_read = False  # whether our claim was read
        self.fenced_keys: set[bytes] = set()
        """Keys whose last record in the log is from a replaced owner or an older release, and has to be rewritten."""
        self.in_flight = 0
        """The number of own records sent and not yet confirmed."""
        """Whether the broker did not report the offset of one of our records."""
        self.skipped = 0
        """The number of records without a key, which cannot be a session's."""

    def apply(self, records: Iterable[RawRecord], *, begins: int = 0, following: int = 0) -> None:
        """Apply records of the changelog partition, in offset order. Those already applied are skipped.

        They are all records from offset `begins` up to, not including, `following`. Raises ChangelogGap when records
        before `begins` were not read.
        """
        if begins > self.position:
            raise ChangelogGap(
                f"changelog partition {self.partition}: expected records from offset {self.position} on, got some "
                f"from {begins} on"
            )
        for record in records:
            if record.offset < self.position:
                continue
            self.position = record.offset + 1
            claim = Claim.of(record)
            if claim is not None:
                self._take_claim(claim, record.offset)
            elif record.key is None:
                self.skipped += 1
            else:
                self._take_state(record.key, record)
        self.position = max(self.position, following)

    def _take_claim(self, claim: Claim, offset: int) -> None:
        self._claims_read = True
        self._begins = (self._begins[1], claim.begins)
        self._follow_logs(claim.logs)
        if claim.id:
            self.owner = Owner(offset, claim.id)
            self._was_read |= claim.id == self._expected
        else:
            self.owner = self._older = None

    def _take_state(self, key: bytes, record: RawRecord) -> None:
        owner = Owner.of(record)
        counts = self._counts_by_epoch(record) if owner is None else self._counts(owner, record.offset)
        if counts:
            self.fenced_keys.discard(key)
            self._follow_logs(_header(record, TOPIC_IDS_HEADER) or b"")
            self.put(key, record.value, record.timestamp)
        if not counts or (owner is None and self._claims_read):  # the claim that makes the latter count expires
            self.fenced_keys.add(key)

    def _counts(self, owner: Owner, offset: int) -> bool:
        """Return whether the owner wrote the state."""
        if owner != self.owner:
            expired = not self._claims_read and (-1 if self.owner is None else self.owner.claim) < owner.claim < offset
            if not expired:
                return False
            self.owner = owner
        if self._older is not None and owner.claim > self._older:
            self._older = None  # its writer has read it and accepted it
        return True

    def _counts_by_epoch(self, record: RawRecord) -> bool:
        epoch = Epoch.of(record)
        if epoch is None:
            return True  # not written by a worker
        if self.owner is not None:
            self._older = record.offset
        if epoch < self._epoch:
            return False
        self._epoch = epoch
        return True

    @property
    def older_release(self) -> int | None:
        """The last offset that an older release wrote after a claim; None if there is none, or it counts again."""
        return self._older

    def _follow_logs(self, mark: bytes) -> None:
        if not mark or mark == self.logs:
            return
        if self.logs:
            self.former.add(self.logs)
            self.outdate()
        self.logs = mark

    def outdate(self) -> None:
        """Note that the offsets of all states refer to logs that no longer exist."""
        self.stale.update(self.values)

    def put(self, key: bytes, value: bytes | None, written_ms: int) -> None:
        """Set the state of one key, written at `written_ms` (epoch milliseconds); None removes it."""
        self._written.pop(key, None)
        self.stale.discard(key)
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
            self._written[key] = written_ms

    def take_idle(self, before_ms: int, limit: int) -> list[bytes]:
        """Return up to `limit` keys last written before `before_ms`.

        Each is returned once until it is written again.
        """
        idle = [key for key, _ in takewhile(lambda item: item[1] < before_ms, islice(self._written.items(), limit))]
        for key in idle:
            del self._written[key]
        return idle

    def expect(self, claim: Claim) -> None:
        """Set our own claim, which is being written."""
        self._expected, self._was_read = claim.id, False

    @property
    def claimed(self) -> bool:
        """Return whether our own claim was read, and is the last one.

        Raises OlderRelease when an older release wrote after an earlier claim.
        """
        if not self._was_read or self.superseded:
            return False
        if self._older is not None:
            raise OlderRelease(
                f"changelog partition {self.partition}: expected no states of an older release behind a claim, got one "
                f"at offset {self._older}. Stop all workers of that release. To keep what they wrote: "
                "haltline changelog release"
            )
        return True

    @property
    def superseded(self) -> bool:
        """Return whether our own claim was read, and a later one too."""
        return self._was_read and (self.owner is None or self.owner.id != self._expected)

    def begins_again(self, topic: str, offset: int) -> bool:
        """Return whether the last two owners both began to read a source at this offset."""
        return all(_begin(topic, offset) in claimed.split() for claimed in self._begins)

    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Return the headers of each of our states. Raises RuntimeError if the last claim is not ours."""
        if self.owner is None or self.owner.id != self._expected:
            raise RuntimeError(f"changelog partition {self.partition}: expected a claim of this process, got none")
        return ((OWNER_HEADER, self.owner.encode()),)

    def record_sent(self) -> None:
        """Count one own record as sent."""
        self.in_flight += 1

    def record_confirmed(self, offset: int) -> None:
        """Record the confirmed offset of an own record.

        Raises ForeignWrite when it is not the offset after the last one.
        """
        self.in_flight -= 1
        if offset != self.position:
            raise self._foreign(f"our record at offset {self.position}, got {offset}")
        self.position += 1

    def check_end_offset(self, offset: int) -> None:
        """Compare an end offset of the partition, taken at some time in the past.

        Raises ForeignWrite when our own records do not reach that far.
        """
        reach = self.position + self.in_flight
        if offset > reach:
            raise self._foreign(f"its end at offset {reach} or before, got {offset}")

    def _foreign(self, difference: str) -> ForeignWrite:
        return ForeignWrite(
            f"changelog partition {self.partition}: expected {difference}: another process writes to it"
        )
