"""A range of a snapshot of the audit table: sinks may continue writing."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.audit.chain import ERASED, LOST, lost_until
from haltline.streams.audit.engine import QueryFailed, answer, open_table
from haltline.streams.audit.engine import in_order as in_order_of_offsets
from haltline.streams.audit.export import Row
from haltline.streams.audit.query import literal
from haltline.streams.audit.reading import headers_of
from haltline.streams.replay.records import FrozenRange, LogRecord, Missing, Span, in_order
from haltline.streams.replay.time_range import End

_MAX_PARTITIONS: Final = 10_000


class TableRange(FrozenRange):
    """The rows of one sink between two ends, as log records.

    One version of the table is read, whatever is written meanwhile. A time means, for each partition, the first offset
    whose record is not older. Offsets as ends are possible for a running Kafka only.

    Raises QueryFailed if there is no table, no row, or rows of several sinks and none is chosen.
    """

    def __init__(
        self,
        uri: str | Path,
        topics: Topics,
        start: End = None,
        end: End = None,
        *,
        sink: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(start, Mapping) or isinstance(end, Mapping):
            raise QueryFailed("a range of the audit table: expected times at its ends, got offsets")
        self._table = open_table(uri, storage_options)
        self.name = f"audit table {uri} (version {self._table.version()})"
        self.topics = topics
        self.sink = self._one_sink(sink, uri)
        self._places = self._all_places()
        names = {name for name, _ in self._places}
        if topics.actions not in names:
            raise QueryFailed(f"audit table {uri}: expected records of {topics.actions}, got none")
        most = max((number for name, number in self._places if name in topics.all), default=0)
        self.partitions = self._count(most + 1)
        self._freeze_all(start, end, end)

    def read(self, spans: Sequence[Span]) -> Iterator[LogRecord]:
        """Yield the records of frozen parts of partitions, in the order of `in_order`, without those `missing`."""
        yield from in_order([self._of(span) for span in spans if span.count], self.topics)

    def _of(self, span: Span) -> Iterator[LogRecord]:
        columns = '"offset", "timestamp_ms", "key", "key_bytes", "headers", "raw"'
        where = at(self.sink, span.topic, span.partition)
        for row in in_order_of_offsets(self.rows, columns, where, span.start, span.end):
            yield record_of(row, span.topic, span.partition)

    def missing(self, spans: Sequence[Span]) -> Missing:
        """Return the numbers of records in frozen parts of partitions that cannot be read."""
        within = {(span.topic, span.partition): span for span in spans if span.count}
        erased = lost = 0
        for row in self.rows(
            'SELECT "topic", "partition", "offset", "kind", "summary" FROM audit '
            f"WHERE \"sink\" = {literal(self.sink)} AND \"kind\" IN ('{ERASED}', '{LOST}')"
        ):
            span = within.get((row["topic"], row["partition"]))
            first, last = row["offset"], lost_until(row)
            if span is None or first >= span.end or last < span.start:
                continue
            if row["kind"] == ERASED:
                erased += 1
            else:
                lost += last - max(first, span.start) + 1  # also if a part ends with a row that covers several
        return Missing(erased, lost)

    def freeze(self, topic: str, start: End = None, end: End = None) -> Iterator[Span]:
        """Yield the parts of a topic's partitions between two times."""
        for partition in (number for name, number in self._places if name == topic):
            low, high = self._places[topic, partition]
            first = self._since(topic, partition, start, high + 1) if isinstance(start, int) else low
            last = self._since(topic, partition, end, high + 1) if isinstance(end, int) else high + 1
            yield Span(topic, partition, first, max(first, last))

    def _since(self, topic: str, partition: int, moment_ms: int, otherwise: int) -> int:
        (found,) = self.rows(
            f'SELECT min("offset") AS "first" FROM audit WHERE "sink" = {literal(self.sink)} '
            f'AND "topic" = {literal(topic)} AND "partition" = {partition:d} AND "timestamp_ms" >= {moment_ms:d}'
        )
        return otherwise if found["first"] is None else int(found["first"])

    def _all_places(self) -> dict[tuple[str, int], tuple[int, int]]:
        rows = self.rows(
            'SELECT "topic", "partition", min("offset") AS "low", max("offset") AS "high" FROM audit '
            f'WHERE "sink" = {literal(self.sink)} GROUP BY "topic", "partition" ORDER BY 1, 2'
        )
        return {(row["topic"], row["partition"]): (row["low"], row["high"]) for row in rows}

    def _one_sink(self, sink: str | None, uri: str | Path) -> str:
        found = [row["sink"] for row in self.rows('SELECT DISTINCT "sink" FROM audit ORDER BY 1')]
        if sink is None and len(found) == 1:
            return str(found[0])
        if sink not in found:
            raise QueryFailed(f"audit table {uri}: expected one sink of {found}, got {sink!r}; choose it with --sink")
        return str(sink)

    def _count(self, least: int) -> int:
        """Return the topics' number of partitions, which follows only from the keys' hashes."""
        rows = self.rows(
            f'SELECT DISTINCT "key", "partition" FROM audit WHERE {whole(self.sink)} '
            f'AND "topic" = {literal(self.topics.actions)} AND "key" IS NOT NULL AND "key" = "session_id" '
            "ORDER BY 1, 2 LIMIT 500"
        )
        keys = [(row["key"], row["partition"]) for row in rows]
        for count in range(least, _MAX_PARTITIONS if keys else least):
            if all(partition_of(key, count) == partition for key, partition in keys):
                return count
        return least

    def rows(self, sql: str) -> Iterator[dict[str, Any]]:
        """Yield the answer to a SELECT on this version of the table. Raises QueryFailed."""
        return answer(self._table, sql).rows


def whole(sink: str) -> str:
    """Return the SQL condition for rows of a sink with a record."""
    return f'"sink" = {literal(sink)} AND ("kind" IS NULL OR "kind" NOT IN (\'{ERASED}\', \'{LOST}\'))'


def at(sink: str, topic: str, partition: int) -> str:
    """Return the SQL condition for rows of a partition as well."""
    return f'{whole(sink)} AND "topic" = {literal(topic)} AND "partition" = {partition:d}'


def record_of(row: Row, topic: str, partition: int) -> LogRecord:
    """Return the record of a row."""
    key = row["key_bytes"] if row["key_bytes"] is not None else None if row["key"] is None else row["key"].encode()
    time_ms = row["timestamp_ms"] or 0
    return LogRecord(topic, partition, row["offset"], time_ms, key, row["raw"], headers_of(row["headers"]))
