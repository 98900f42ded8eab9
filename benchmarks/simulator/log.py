"""Partitions of topics as logs: offsets, high watermarks, idempotent appends, compaction, lost tails, retention."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

Headers = Sequence[tuple[str, bytes | None]]


class New(NamedTuple):
    """A record on its way to a partition."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    producer: int
    """Of which producer, and which of its records in this partition."""
    sequence: int


class Record(NamedTuple):
    """A record as it stands in a log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    producer: int
    sequence: int


class Log:
    """One partition."""

    __slots__ = (
        "_sequences",
        "_waiting",
        "appended",
        "end",
        "high",
        "landed_ms",
        "offsets",
        "records",
        "replicated",
        "segment",
        "start",
    )

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.offsets: list[int] = []
        """Theirs; some are missing after compaction."""
        self.start = 0
        """The first offset that is kept."""
        self.end = 0
        """The offset that the next record gets."""
        self.high = 0
        """The high watermark: what consumers may see ends before it."""
        self.replicated = 0
        """How far it is safe: the greatest high watermark. That of now may be behind for a while after a restart."""
        self.segment = 0
        """Where the segment that is written now begins: compaction leaves it alone."""
        self.appended: list[Record] = []
        """Everything that was ever appended and not cut off again, for checks."""
        self.landed_ms: dict[int, int] = {}
        """By offset: when the record was appended, which may be long after its own time."""
        self._sequences: dict[int, int] = {}
        self._waiting: list[Callable[[], object]] = []

    def append(self, new: New) -> int | None:
        """The record's offset; None when this producer's record was appended by an earlier try."""
        if new.sequence <= self._sequences.get(new.producer, -1):
            return None
        self._sequences[new.producer] = new.sequence
        record = Record(self.end, *new)
        self.records.append(record)
        self.offsets.append(record.offset)
        self.appended.append(record)
        self.end += 1
        return record.offset

    def place_of(self, producer: int, sequence: int) -> int:
        """Where a record that was appended stands, or stood before it was compacted away."""
        found = (r.offset for r in reversed(self.appended) if r.producer == producer and r.sequence == sequence)
        return next(found, -1)

    def raise_high(self) -> None:
        """What was appended can be seen from now on."""
        if self.high < self.end:
            self.high = self.replicated = self.end
            self.tell()

    def tell(self) -> None:
        """Whoever waits for more looks again."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def on_more(self, call: Callable[[], object]) -> None:
        """Calls it once, when more can be seen."""
        self._waiting.append(call)

    def read(self, offset: int, limit: int) -> Sequence[Record]:
        """The records from an offset on that can be seen."""
        at = bisect_left(self.offsets, offset)
        found = self.records[at : at + limit]
        while found and found[-1].offset >= self.high:
            found = found[:-1]
        return found

    def roll(self) -> None:
        """Begins a new segment."""
        self.segment = self.end

    def compact(self, before_ms: int, tombstones_before_ms: int) -> int:
        """Keeps the last record of each key among those that are not of the segment being written, nor as young.

        Returns how many went. Later records of the same key, which are not looked at, save none of these.
        """
        cleanable, last = self._cleanable(before_ms)
        kept = [
            record
            for record in cleanable
            if last[record.key] == record.offset
            and (record.value is not None or record.timestamp >= tombstones_before_ms)
        ]
        gone = len(cleanable) - len(kept)
        if gone:
            self.records = kept + self.records[len(cleanable) :]
            self.offsets = [record.offset for record in self.records]
        return gone

    def drop_replaced(self, before_ms: int) -> int:
        """Retention as far as every key that goes has a later record, by the same limits. Returns how many went."""
        cleanable, last = self._cleanable(before_ms)
        needed = [
            record.offset for record in cleanable if record.value is not None and last[record.key] == record.offset
        ]
        before = len(self.records)
        self.delete_before(min(needed, default=cleanable[-1].offset + 1 if cleanable else 0))
        return before - len(self.records)

    def _cleanable(self, before_ms: int) -> tuple[list[Record], dict[bytes | None, int]]:
        """Records old enough that are not of the segment being written; by key: the offset of the last of them."""
        limit = min(self.segment, self.high)
        cleanable = []
        for record in self.records:
            if record.offset >= limit or self.landed_ms.get(record.offset, record.timestamp) >= before_ms:
                break
            cleanable.append(record)
        return cleanable, {record.key: record.offset for record in cleanable}

    def delete_before(self, offset: int) -> None:
        """Retention: the log begins there."""
        self.start = min(max(self.start, offset), self.high)
        at = bisect_left(self.offsets, self.start)
        del self.records[:at], self.offsets[:at]

    def cut(self, end: int) -> None:
        """Loses its tail."""
        at = bisect_left(self.offsets, end)
        lost = self.records[at:]
        del self.records[at:], self.offsets[at:]
        self.appended = [record for record in self.appended if record.offset < end]
        self.end = min(self.end, end)
        self.high = min(self.high, self.end)
        self.replicated = min(self.replicated, self.end)
        self.segment = min(self.segment, self.end)
        for record in lost:
            before = self._sequences.get(record.producer, -1)
            self._sequences[record.producer] = min(before, record.sequence - 1)


class Topic:
    """A topic of one life: recreated, it is another one of the same name."""

    __slots__ = ("compacted", "id", "logs", "name")

    def __init__(self, name: str, topic_id: str, partitions: int, *, compacted: bool) -> None:
        self.name = name
        self.id = topic_id
        self.compacted = compacted
        self.logs = [Log() for _ in range(partitions)]
