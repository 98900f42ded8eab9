"""The writer, which puts each record into the table exactly once. Of Kafka, it uses only positions.

The table alone determines how far a partition is written: its version for the partition is the last offset that is in
it. Every failure (a kill, a stop of minutes, a rebalance, two sinks on one table, a commit whose answer was lost) shows
as a version other than the one this writer expects. It then drops its buffer of that partition and continues reading
from there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

from haltline.streams.audit.chain import Head, chained, chained_columns
from haltline.streams.audit.columns import BLOCK_ROWS, Block, Row
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.audit.signing import Signer
from haltline.streams.audit.statements import checkpoint
from haltline.streams.audit.table import AuditTable, OpenTable, TableConflict


class Place(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class AnotherLog(RuntimeError):
    """The table was filled from another cluster, or from a topic that has been recreated."""


@dataclass(frozen=True)
class Flushed:
    """The result of one flush."""

    committed: Mapping[Place, int]
    """The last offset that is now in the table, by partition written in this flush."""
    moved: Mapping[Place, int | None]
    """The last offset in the table, by partition, where it differs from the expected one. The buffers of these
    partitions were dropped, and reading must continue after it (from the start for None)."""
    rows: Mapping[str, int]
    """Rows written, by topic."""
    unreadable: Mapping[str, int]
    """Rows written that could not be decoded, by topic."""
    dropped: Mapping[str, int]
    """Records dropped because the table had moved, by topic."""


@dataclass
class _Partition:
    written: int | None
    """The last offset in the table, as far as this writer knows."""
    last: int
    """The last offset in the table or the buffer; -1: there is none."""
    records: list[KafkaRecord] = field(default_factory=list)
    bytes: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    head: Head | None = None
    """The end of its chain in the table."""
    unsigned: int = 0
    """The number of rows after the last signed statement, including those of earlier writers."""


SIGN_EVERY: Final = 1000
"""The number of rows of a partition after which its chain is signed."""
_ATTEMPTS: Final = 20
_RECORD_OVERHEAD_BYTES: Final = 300  # of the Python objects around a record


@dataclass(eq=False)
class AuditWriter:
    """Buffers records of the assigned partitions, and writes them. One thread only."""

    table: AuditTable
    reader: Reader
    sink: str
    _: KW_ONLY
    marks: dict[str, int] = field(default_factory=dict)
    """Numbers by app id that must be the same each time the table is written: those of the cluster and its topics."""
    adopt: bool = False
    """Whether differing numbers are replaced."""
    signer: Signer | None = None
    sign_every: int = SIGN_EVERY
    buffered_rows: int = field(default=0, init=False)
    buffered_bytes: int = field(default=0, init=False)
    _partitions: dict[Place, _Partition] = field(default_factory=dict, init=False)

    def assign(self, places: Iterable[Place]) -> dict[Place, int | None]:
        """Take partitions over. Returns the last offset in the table by partition, or None.

        Raises:
            AnotherLog: the table was filled from another cluster or from a recreated topic.

        """
        table = self.table.open()
        self._new_marks(table)
        written = {place: table.version(self._app_id(place)) for place in places}
        self._begin(table, written)
        return written

    def revoke(self, places: Iterable[Place]) -> None:
        """Forget partitions. Their buffers are not in the table, so their next owner reads them again."""
        for place in places:
            self._drop(place)
            self._partitions.pop(place, None)

    def mark(self, app_id: str, identity: str) -> None:
        """Add an id that must be the same each time, while partitions are held.

        Raises:
            AnotherLog: it differs, and partitions are held that were read under the other id.

        """
        # 63 bits of it: the version of a table's transaction is a signed 64-bit number.
        number = int.from_bytes(sha256(identity.encode()).digest()[:8]) >> 1
        if self._partitions and (known := self.marks.get(app_id, number)) != number:
            raise _another_log(app_id, known, number)
        self.marks[app_id] = number

    def add(self, record: KafkaRecord) -> bool:
        """Buffer a record. Returns False if its partition is not held, or it is already included."""
        return bool(self.extend(Place(record.topic, record.partition), (record,)))

    def extend(self, place: Place, records: Iterable[KafkaRecord]) -> Sequence[KafkaRecord]:
        """Buffer records of one partition, and return those added: none if it is not held, and no included ones."""
        partition = self._partitions.get(place)
        if partition is None:
            return ()
        last, taken = partition.last, list[KafkaRecord]()
        for record in records:
            if record.offset > last:
                last = record.offset
                taken.append(record)
        if taken:
            size_bytes = _size_bytes(taken)
            partition.records += taken
            partition.last = last
            partition.bytes += size_bytes
            self.buffered_rows += len(taken)
            self.buffered_bytes += size_bytes
        return taken

    def lost(self, place: Place, first: int, last: int) -> None:
        """Record the loss of offsets `first` to `last` before they could be read, which is a row too."""
        partition = self._partitions[place]
        partition.lost.append((first, last))
        partition.last = last
        self.buffered_rows += 1

    def flush(self, now_ms: int, *, closing: bool = False) -> Flushed:
        """Write the buffers in one commit; `closing` signs all written rows that are not signed yet.

        Raises:
            AnotherLog: as for `assign`.
            TableConflict: others changed the table at the same time, repeatedly.

        """
        moved: dict[Place, int | None] = {}
        dropped: Counter[str] = Counter()
        for attempt in range(1, _ATTEMPTS + 1):
            # 1. A new handle for each try: what is compared on it is committed on it.
            table = self.table.open()
            marks = self._new_marks(table)
            # 2. Compare each partition with this writer's position.
            elsewhere = self._moved(table)
            for place in elsewhere:
                dropped[place.topic] += len(self._partitions[place].records)
            self._begin(table, elsewhere)
            moved |= elsewhere
            # 3. Rows and versions in one commit; the table refuses it if 2 no longer holds.
            written = {
                place: p
                for place, p in self._partitions.items()
                if p.records or p.lost or (closing and self.signer is not None and p.unsigned)
            }
            if not written:
                return Flushed({}, moved, {}, {}, dropped)
            counts, unreadable = Counter[str](), Counter[str]()
            versions = {self._app_id(place): p.last for place, p in written.items() if p.records or p.lost}
            chains = {place: _Chain(p.head, p.unsigned) for place, p in written.items()}
            rows = self._rows(written, chains, now_ms, counts, unreadable, closing=closing)
            try:
                table.append(rows, versions | marks)
                break
            except TableConflict:
                if attempt == _ATTEMPTS:
                    raise
        # 4. Only now is it committed.
        for place, partition in written.items():
            self._drop(place)
            partition.written = partition.last
            partition.head, partition.unsigned = chains[place].head, chains[place].unsigned
        return Flushed(
            committed={place: p.last for place, p in written.items()},
            moved=moved,
            rows=counts,
            unreadable=unreadable,
            dropped=dropped,
        )

    def _moved(self, table: OpenTable) -> dict[Place, int | None]:
        # Not only partitions with records: the readers of the others are at a wrong offset too.
        versions = {place: table.version(self._app_id(place)) for place in self._partitions}
        return {place: v for place, v in versions.items() if v != self._partitions[place].written}

    def _begin(self, table: OpenTable, written: Mapping[Place, int | None]) -> None:
        """Continue after these offsets, with the chains that end there."""
        ends = table.chain_ends(self.sink, {place: last for place, last in written.items() if last is not None})
        # After a statement before these offsets, another one is due in any case.
        due: dict[tuple[str, int], int] = {
            place: max(last - self.sign_every, 0) for place, last in written.items() if last is not None
        }
        signed = table.last_signed(self.sink, due) if self.signer is not None else {}
        for place, last in written.items():
            self._drop(place)
            end = ends.get(place)
            head = Head(last, end) if last is not None and end is not None else None
            # Offsets are counted instead of rows: signing too early is better than never.
            unsigned = 0 if head is None else min(head.offset - signed.get(place, -1), self.sign_every)
            self._partitions[place] = _Partition(last, -1 if last is None else last, head=head, unsigned=unsigned)

    def _rows(
        self,
        partitions: Mapping[Place, _Partition],
        chains: Mapping[Place, "_Chain"],
        now_ms: int,
        counts: Counter[str],
        unreadable: Counter[str],
        *,
        closing: bool,
    ) -> Iterator[Row | Block]:
        """Yield the rows in parts, chained: as Python objects they need several times the records' memory.

        They are counted by topic as they are consumed.
        """
        for place, partition in sorted(partitions.items()):
            chain = chains[place]
            for first, last in partition.lost:
                row = self.reader.lost(*place, first, last, now_ms)
                chain.add(row, until=last)
                yield row
            for start in range(0, len(partition.records), BLOCK_ROWS):
                block = self.reader.block(partition.records[start : start + BLOCK_ROWS], now_ms)
                if errors := block.columns.get("decode_error"):
                    unreadable[place.topic] += sum(error is not None for error in errors)
                chain.extend(block)
                yield block
            counts[place.topic] += len(partition.lost) + len(partition.records)
            due = chain.unsigned >= (1 if closing else self.sign_every)
            if self.signer is not None and chain.head is not None and due:
                chain.unsigned = 0
                row = checkpoint(self.signer, self.sink, place, chain.head, now_ms)
                counts[row["topic"]] += 1
                yield row

    def _new_marks(self, table: OpenTable) -> dict[str, int]:
        there = {app_id: table.version(app_id) for app_id in self.marks}
        for app_id, number in there.items():
            if number is not None and number != self.marks[app_id] and not self.adopt:
                raise _another_log(app_id, number, self.marks[app_id])
        return {app_id: number for app_id, number in self.marks.items() if there[app_id] != number}

    def _drop(self, place: Place) -> None:
        partition = self._partitions.get(place)
        if partition is None:
            return
        self.buffered_rows -= len(partition.records) + len(partition.lost)
        self.buffered_bytes -= partition.bytes
        partition.bytes = 0
        partition.records = []
        partition.lost = []

    def _app_id(self, place: Place) -> str:
        return f"{self.sink}-{place.topic}-{place.partition}"


@dataclass
class _Chain:
    """A chain as it will be after the commit."""

    head: Head | None
    unsigned: int

    def add(self, row: Row, until: int | None = None) -> None:
        self.head = chained(row, self.head, until)
        self.unsigned += 1

    def extend(self, block: Block) -> None:
        self.head = chained_columns(block.columns, self.head)
        self.unsigned += block.rows


def _another_log(app_id: str, expected: int, got: int) -> AnotherLog:
    return AnotherLog(
        f"audit table: {app_id}: expected {expected}, the mark of the log that it was filled from, "
        f"got {got}: another cluster, or a topic that was deleted and recreated. Its "
        "offsets mean other records now. Use another table or another sink name to read it from its "
        "start, or adopt it when it is the same log after a move"
    )


def _size_bytes(records: Sequence[KafkaRecord]) -> int:
    size_bytes = sum(len(record.value or b"") + len(record.key or b"") for record in records)
    in_headers = sum(len(name) + len(value or b"") for record in records for name, value in record.headers)
    return _RECORD_OVERHEAD_BYTES * len(records) + size_bytes + in_headers
