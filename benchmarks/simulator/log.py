"""Partitions of topics as logs: offsets, high watermarks, idempotent appends, compaction, lost tails, retention."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """A record in a log, or on its way to one."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    producer: int
    """The producer's id; `sequence` numbers its records in this partition."""
    sequence: int
    offset: int = -1
    """-1: not appended yet."""


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
        """The offsets of `records`, with gaps after compaction."""
        self.start = 0
        """The first offset that is retained."""
        self.end = 0
        """The offset of the next record."""
        self.high = 0
        """The high watermark: consumers see records below it."""
        self.replicated = 0
        """The greatest high watermark so far. `high` may be behind it for a while after a restart."""
        self.segment = 0
        """The first offset of the active segment, which is not compacted."""
        self.appended: list[Record] = []
        """Every record ever appended and not truncated, for checks."""
        self.landed_ms: dict[int, int] = {}
        """By offset: when the record was appended, in ms. That may be long after its timestamp."""
        self._sequences: dict[int, int] = {}
        self._waiting: list[Callable[[], object]] = []

    def append(self, new: Record) -> int | None:
        """Append a record. Return its offset; None when an earlier attempt had appended it."""
        if new.sequence <= self._sequences.get(new.producer, -1):
            return None
        self._sequences[new.producer] = new.sequence
        record = new._replace(offset=self.end)
        self.records.append(record)
        self.offsets.append(record.offset)
        self.appended.append(record)
        self.end += 1
        return record.offset

    def knows(self, producer: int) -> bool:
        """Return whether a producer has appended a record; from another, any first sequence number is accepted."""
        return producer in self._sequences

    def place_of(self, producer: int, sequence: int) -> int:
        """Return the offset of an appended record, also of one compacted away; -1 when there is none."""
        found = (r.offset for r in reversed(self.appended) if r.producer == producer and r.sequence == sequence)
        return next(found, -1)

    def raise_high(self) -> None:
        """Raise the high watermark to the end."""
        if self.high < self.end:
            self.high = self.replicated = self.end
            self.tell()

    def tell(self) -> None:
        """Wake all consumers that wait for records."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def on_more(self, call: Callable[[], object]) -> None:
        """Call this once, when more records are visible."""
        self._waiting.append(call)

    def read(self, offset: int, limit: int) -> Sequence[Record]:
        """Return up to `limit` records from an offset on that are below the high watermark."""
        at = bisect_left(self.offsets, offset)
        found = self.records[at : at + limit]
        while found and found[-1].offset >= self.high:
            found = found[:-1]
        return found

    def roll(self) -> None:
        """Start a new segment."""
        self.segment = self.end

    def compact(self, before_ms: int, tombstones_before_ms: int) -> int:
        """Compact the records outside the active segment that are old enough to the last one of each key.

        Return the number removed. A record is kept even when the uncompacted part has a later one of its key.
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
        """Delete the oldest records up to the first that is the last of its key. Return the number deleted."""
        cleanable, last = self._cleanable(before_ms)
        needed = [
            record.offset for record in cleanable if record.value is not None and last[record.key] == record.offset
        ]
        before = len(self.records)
        self.delete_before(min(needed, default=cleanable[-1].offset + 1 if cleanable else 0))
        return before - len(self.records)

    def _cleanable(self, before_ms: int) -> tuple[list[Record], dict[bytes | None, int]]:
        """Return the records outside the active segment that are old enough, and by key the last offset among them."""
        limit = min(self.segment, self.high)
        cleanable = []
        for record in self.records:
            if record.offset >= limit or self.landed_ms.get(record.offset, record.timestamp) >= before_ms:
                break
            cleanable.append(record)
        return cleanable, {record.key: record.offset for record in cleanable}

    def delete_before(self, offset: int) -> None:
        """Delete the records before an offset, as retention does."""
        self.start = min(max(self.start, offset), self.high)
        at = bisect_left(self.offsets, self.start)
        del self.records[:at], self.offsets[:at]

    def cut(self, end: int) -> None:
        """Truncate the log to this end."""
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
    """A topic. A recreated topic is another object of the same name."""

    __slots__ = ("compacted", "id", "logs", "name")

    def __init__(self, name: str, topic_id: str, partitions: int, *, compacted: bool) -> None:
        self.name = name
        self.id = topic_id
        self.compacted = compacted
        self.logs = [Log() for _ in range(partitions)]
