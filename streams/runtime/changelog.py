"""The encoded states of one partition, as the changelog topic tells them, and who may write it.

A changelog partition has one writer at a time: the worker that the group has given the source partition. A worker that
was taken for dead and is not (stopped, swapped out, cut off) may still write when another has its partitions; Kafka
takes the record, it is the last for its key, and every event that the new owner had added would be gone from the state.

What counts follows from the order of the log alone:

1. A worker that is given a partition writes a `Claim` to it, and reads from where it stands until it has read that
   claim. Whoever has read his own claim has read everything that counts before it. Nothing else tells that a partition
   is recovered: no high watermark, and no word of a framework.
2. Each record carries the `Owner` that wrote it: the offset and the id of its claim. It counts if that is the last
   claim before it. Others were written by an owner that had been replaced, and readers take them as never written.
   That loses nothing: their writer could not commit offsets after it (the group refuses an old generation), so what it
   had processed is processed again by the new owner. The new owner writes such keys anew first, so that compaction
   keeps the right value.
3. An owner has asked the group, after it had read its claim, whether it is still a member of the generation that gave
   it the partition. So the claim of whoever takes over stands behind all that this owner commits.
4. Each owner knows the offset that its next record must get: one more than the last. If a record lands elsewhere, or
   the partition is found to end further on, somebody else wrote: a replaced owner, or one that claims late. The process
   ends before it commits anything over it, and claims again when it starts. Where the broker does not say where a
   record landed, the end of the partition has to say it, before anything is committed.

A claim has a key of its own and no value. Compaction keeps it for `delete.retention.ms` (a day), and takes the older
one first: once a claim was read, none behind it is missing. Before that, in what is older than a day, the claims'
offsets in the records tell the order. Releases before claims wrote an `Epoch` in place of an owner. Their records count
by their epochs, as long as no claim stands before them. Behind a claim they are an error: their writer may have been a
member of the group that committed, or a replaced one. A release marker (`haltline changelog release`) lets them count
again, for an operator who goes back to such a release.

The window that remains: a late record, and then the compaction of the newer record before it, before an owner has
written the key anew. `min.compaction.lag.ms` keeps each record for ten minutes, so the owner would have to be gone for
longer than that, with nobody in its place.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import Final, NamedTuple, Protocol

from haltline.streams.engine.log_position import LogPosition
from haltline.streams.kafka.failure import KnownFailure

CLAIM_KEY: Final = b"\xfe"
"""What the key of a claim begins with: no text in UTF-8 has it, so no session's key does."""
OWNER_HEADER: Final = "haltline-owner"
"""Of a state: `Owner.encode`. Of a claim: the id. Of a release marker: without a value."""
EPOCH_HEADER: Final = "haltline-epoch"
"""Of a state that a release before claims wrote."""
TOPIC_IDS_HEADER: Final = "haltline-logs"
"""Which logs the offsets in a state count in: `topic_ids.Logs.mark` of its writer. Without it that is not known."""
ID_BYTES: Final = 16

_EPOCH = struct.Struct(">qq")
_MAX_ERAS = 1 << 62
_OWNER = struct.Struct(f">q{ID_BYTES}s")


class RawRecord(LogPosition, Protocol):
    """A record of the broker."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970, of the producer or of the broker, as the topic is set."""

    @property
    def key(self) -> bytes | None:
        """What it was partitioned by."""

    @property
    def value(self) -> bytes | None:
        """None on a compacted topic removes the key."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """A name may stand more than once, and without a value."""


class Epoch(NamedTuple):
    """Who owned a partition before there were claims, in order: a later owner's is greater."""

    era: int
    """The highest era that its owner had read, plus the group's generation."""
    since_ms: int
    """When its owner took it; orders a static member that came back within one generation."""

    def encode(self) -> bytes:
        """The header's value: 16 bytes."""
        return _EPOCH.pack(*self)

    @classmethod
    def of(cls, record: RawRecord) -> "Epoch | None":
        """The epoch of a changelog record; None where no worker of such a release wrote it."""
        value = _header(record, EPOCH_HEADER)
        if value is None or len(value) != _EPOCH.size:
            return None
        epoch = cls(*_EPOCH.unpack(value))
        return epoch if epoch.era <= _MAX_ERAS else None  # whoever follows could not be above it


class Owner(NamedTuple):
    """Who may write a partition, from its claim on."""

    claim: int
    """The offset of its claim."""
    id: bytes
    """What tells its claim from that of another: in a log whose tail was cut off, two can have one offset."""

    def encode(self) -> bytes:
        """The header's value: 24 bytes."""
        return _OWNER.pack(*self)

    @classmethod
    def of(cls, record: RawRecord) -> "Owner | None":
        """The owner that wrote a state; None where none of this release did."""
        value = _header(record, OWNER_HEADER)
        return cls(*_OWNER.unpack(value)) if value is not None and len(value) == _OWNER.size else None


class Claim(NamedTuple):
    """A record without a value that says who may write from there on."""

    id: bytes
    """Of ID_BYTES random bytes. Empty in a release marker: nobody of this release may."""

    @property
    def key(self) -> bytes:
        """One of its own, so that compaction leaves none out as long as it lasts."""
        return CLAIM_KEY + self.id

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """What the record carries."""
        return ((OWNER_HEADER, self.id or None),)

    @classmethod
    def of(cls, record: RawRecord) -> "Claim | None":
        """The claim that a record is; None where it is none."""
        key = record.key
        if key is None or not key.startswith(CLAIM_KEY) or record.value is not None:
            return None
        claim_id = _header(record, OWNER_HEADER) or b""
        return cls(claim_id) if len(claim_id) in (0, ID_BYTES) else None


def _header(record: RawRecord, name: str) -> bytes | None:
    return next((value for header, value in record.headers if header == name), None)


class ForeignWrite(KnownFailure):
    """A record of another writer stands in a changelog partition that this process owns."""


class ChangelogGap(KnownFailure):
    """Records of a changelog partition were passed over in reading it."""


class OlderRelease(KnownFailure):
    """A worker of a release before claims wrote behind a claim."""


class PartitionState:
    """The states of one partition: encoded bytes by key, complete up to `position`."""

    __slots__ = (
        "_claims_read",
        "_epoch",
        "_expected",
        "_older",
        "_was_read",
        "_written",
        "fenced_keys",
        "in_flight",
        "logs",
        "other_logs",
        "owner",
        "partition",
        "position",
        "skipped",
        "unproven",
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
        self.position = 0
        """The offset that is read next, or that our next record must get: everything before it is applied."""
        self.owner: Owner | None = None
        """Whose records count now; None: nobody of this release's."""
        self._claims_read = False
        self._epoch = Epoch(0, 0)
        self._older: int | None = None  # the last offset that an older release wrote behind a claim
        self._expected = b""  # the id of our own claim
        self._was_read = False  # whether it was read
        self.fenced_keys: set[bytes] = set()
        """Keys whose last record in the log is a late one, or one of an older release; to be written anew."""
        self.in_flight = 0
        """Own records handed over and not confirmed yet."""
        self.unproven = False
        """Whether the broker did not say where one of our records landed."""
        self.skipped = 0
        """Records without a key, which cannot be a session's."""

    def apply(self, records: Iterable[RawRecord], *, begins: int = 0, following: int = 0) -> None:
        """Read records of the changelog partition, in offset order; those read before are passed over.

        They are all that there are from `begins` up to before `following`. Raises ChangelogGap when what stands before
        `begins` was not read.
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
            self.put(key, record.value, record.timestamp, _header(record, TOPIC_IDS_HEADER) or b"")
        if not counts or (owner is None and self._claims_read):  # what lets the latter count expires
            self.fenced_keys.add(key)

    def _counts(self, owner: Owner, offset: int) -> bool:
        """Whether the writer of a state was the owner."""
        if owner != self.owner:
            expired = not self._claims_read and (-1 if self.owner is None else self.owner.claim) < owner.claim < offset
            if not expired:
                return False
            self.owner = owner
        if self._older is not None and owner.claim > self._older:
            self._older = None  # its writer has read it, and has let it count
        return True

    def _counts_by_epoch(self, record: RawRecord) -> bool:
        epoch = Epoch.of(record)
        if epoch is None:
            return True  # no worker wrote it
        if self.owner is not None:
            self._older = record.offset
        if epoch < self._epoch:
            return False
        self._epoch = epoch
        return True

    @property
    def older_release(self) -> int | None:
        """The last offset that an older release wrote behind a claim; None where there is none, or it counts again."""
        return self._older

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

    def expect(self, claim: Claim) -> None:
        """Take this claim for ours; it is being written."""
        self._expected, self._was_read = claim.id, False

    @property
    def claimed(self) -> bool:
        """Whether our own claim was read, and is the last one.

        Raises OlderRelease when an older release wrote behind a claim before it.
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
        """Whether our own claim was read, and another one behind it."""
        return self._was_read and (self.owner is None or self.owner.id != self._expected)

    def headers(self) -> Sequence[tuple[str, bytes]]:
        """What each of our states carries. Raises RuntimeError where the last claim is not ours."""
        if self.owner is None or self.owner.id != self._expected:
            raise RuntimeError(f"changelog partition {self.partition}: expected a claim of this process, got none")
        owner = (OWNER_HEADER, self.owner.encode())
        return (owner, (TOPIC_IDS_HEADER, self.logs)) if self.logs else (owner,)

    def record_sent(self) -> None:
        """Call for each own record that is handed over."""
        self.in_flight += 1

    def record_confirmed(self, offset: int) -> None:
        """Take in where an own record landed; -1 when the broker does not say, which `prove` has to answer.

        Raises ForeignWrite when it is not the offset after the last one.
        """
        self.in_flight -= 1
        if offset == -1:
            self.unproven = True
        elif offset != self.position:
            raise self._foreign(f"our record at offset {self.position}, got {offset}")
        self.position += 1

    def check_end_offset(self, offset: int) -> None:
        """Take in where the partition ended at some time in the past.

        Raises ForeignWrite when our own records do not reach that far.
        """
        reach = self.position + self.in_flight
        if offset > reach:
            raise self._foreign(f"its end at offset {reach} or before, got {offset}")

    def prove(self, end: int) -> None:
        """Take in where the partition ends when all of our records are confirmed: they are in order if they end there.

        An end before that is of a broker that has just started again. Raises ForeignWrite.
        """
        self.check_end_offset(end)
        if end == self.position and not self.in_flight:
            self.unproven = False

    def _foreign(self, difference: str) -> ForeignWrite:
        return ForeignWrite(
            f"changelog partition {self.partition}: expected {difference}: another process writes to it"
        )
