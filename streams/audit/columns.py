"""The columns of the audit table, and the conversion of rows to Arrow.

One table holds all topics, for three reasons: a session's story is one query and one sort, not a union of nine; what a
flush read from all partitions becomes visible in one commit; and nine tables would need nine commits of small files
instead of one. A column that does not apply to a topic is null, which costs next to nothing in Parquet.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, cast

from arro3.core import Array, DataType, Field, RecordBatch, Schema, Table, list_array

Row = dict[str, Any]
"""One row by column name; a missing column is null."""

PARTITION_COLUMN: Final = "event_date"

_ITEM = Field("element", DataType.string(), nullable=True)

_TEXT = DataType.string()
_LONG = DataType.int64()
_INT = DataType.int32()
_DOUBLE = DataType.float64()
_BOOL = DataType.bool()
_BYTES = DataType.binary()
_DATE = DataType.date32()
_MILLIS = DataType.timestamp("ms", tz="UTC")
_TIMESTAMP = DataType.timestamp("us", tz="UTC")
_TEXTS = DataType.list(_ITEM)


@dataclass(frozen=True)
class Column:
    """One column: its name, its Arrow type, and its meaning."""

    name: str
    type: DataType
    what: str
    indexed: bool = False
    """Whether its minimum and maximum are stored for each file, so that a query can skip files. They are also in the
    table's log, in plain text: so only ids and positions have it."""


COLUMNS: Final = (
    Column("sink", _TEXT, "name of the sink that wrote the row"),
    Column("topic", _TEXT, "where the record was read", indexed=True),
    Column("partition", _INT, "where the record was read", indexed=True),
    Column("offset", _LONG, "where the record was read; once per sink, topic and partition", indexed=True),
    Column("timestamp", _TIMESTAMP, "the record's time on the broker, where it is one of a calendar", indexed=True),
    Column("timestamp_ms", _LONG, "the record's time on the broker as it came, epoch milliseconds"),
    Column("event_date", _DATE, "UTC date of timestamp; the table is partitioned by it"),
    Column("ingested_at", _TIMESTAMP, "when the sink read it"),
    Column("key", _TEXT, "the record's key; bytes that are not UTF-8 are escaped"),
    Column("key_bytes", _BYTES, "the record's key as it came, only where it is not UTF-8"),
    Column("headers", _TEXT, "JSON list of [name, text], or [name, null, base64] where it is not UTF-8"),
    Column("kind", _TEXT, "what the record is, such as action.proposed, decision, reset, killed, dead_letter"),
    Column("event_time", _TIMESTAMP, "the record's own time, on the clock of who wrote it"),
    Column("event_id", _TEXT, "the event it is, or answers", indexed=True),
    Column("call_id", _TEXT, "joins a proposal with its result"),
    Column("session_id", _TEXT, "the session it is of", indexed=True),
    Column("agent_id", _TEXT, "the agent it is of"),
    Column("parent_session_id", _TEXT, "the session that started this one"),
    Column("root_session_id", _TEXT, "the first session of the tree"),
    Column("mission_id", _TEXT, "the mission it is of"),
    Column("seq", _LONG, "the session's own counter"),
    Column("action", _TEXT, "name of the tool"),
    Column("targets", _TEXTS, "what it acts on"),
    Column("effect", _TEXT, "the producer's hint of what it does to the world"),
    Column("outcome", _TEXT, "how the action ended"),
    Column("error", _TEXT, "the error it ended with"),
    Column("duration_ms", _DOUBLE, "how long the action took"),
    Column("input_tokens", _LONG, "used by this step"),
    Column("output_tokens", _LONG, "used by this step"),
    Column("cost_usd", _DOUBLE, "spent by this step"),
    Column("level", _TEXT, "of a decision: ALLOW to KILL"),
    Column("scope", _TEXT, "what it is about: session, agent, mission, tool, target, fleet"),
    Column("scope_id", _TEXT, "the id within the scope"),
    Column("detector", _TEXT, "the rule that found it or decided"),
    Column("severity", _TEXT, "low, medium, high, critical"),
    Column("code", _TEXT, "for machines, such as session_killed_loop_guard"),
    Column("mode", _TEXT, "how far the rule may go: shadow, warn, enforce"),
    Column("would", _TEXT, "the level it would have had under enforce"),
    Column("confidence", _DOUBLE, "0 to 1"),
    Column("flag", _BOOL, "to be reviewed by a person"),
    Column("decision_id", _TEXT, "the decision it is, led to, or answers", indexed=True),
    Column("policy", _TEXT, "name of the policy document"),
    Column("policy_version", _LONG, "version of the policy document"),
    Column("by", _TEXT, "who did it: an operator, or haltline"),
    Column("reason", _TEXT, "why, for people"),
    Column("time_to_stop_ms", _LONG, "from the decision to the agent's side saying that it stopped"),
    Column("summary", _TEXT, "one line for people"),
    Column("decode_error", _TEXT, "why the record could not be read; then only raw says what it was"),
    Column("redacted", _TEXT, "kinds of secrets and personal data that were taken out before it was stored"),
    Column("prev_offset", _LONG, "the last offset that the row before it in the partition stands for"),
    Column("record_digest", _TEXT, "SHA-256 of what came from Kafka; stays when the content is erased"),
    Column("chain_hash", _TEXT, "SHA-256 that chains the row to the one before it"),
    Column("raw", _BYTES, "the record's value as it came; null for a tombstone"),
)

SCHEMA: Final = Schema([Field(c.name, c.type, nullable=True, metadata={"comment": c.what}) for c in COLUMNS])

INDEXED: Final = ",".join(column.name for column in COLUMNS if column.indexed)


BLOCK_ROWS: Final = 1024  # as Python objects they are ten times as large: more do not fit into the CPU cache


@dataclass(frozen=True)
class Block:
    """Some rows, by column: operations take one loop per column and create no rows."""

    columns: dict[str, Sequence[Any]]
    """Columns of equal length; a missing column is null."""
    rows: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Block":
        """Return a block of rows, which may have different columns."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names}, len(rows))

    def __iter__(self) -> Iterator[Row]:
        """Yield its rows."""
        names = self.columns.keys()
        return (dict(zip(names, cells, strict=True)) for cells in zip(*self.columns.values(), strict=True))


def to_arrow(rows: Iterable[Row | Block]) -> Table:
    """Return the rows as an Arrow table of `SCHEMA`.

    A cell that its column cannot hold (a number beyond 64 bits, half a surrogate pair) becomes null: the record itself
    is in `raw`, and one invalid field must not stop the rest.
    """
    return Table.from_batches(list(batches(rows)), schema=SCHEMA)


def batches(rows: Iterable[Row | Block]) -> Iterator[RecordBatch]:
    """Yield the rows in Arrow batches: further `rows` are requested after a batch was consumed."""
    for block in _blocks(rows):
        cells = block.columns
        arrays = [
            _array(cells[name], build) if name in cells else _repeated(build, None, block.rows)
            for name, build in _BUILDERS
        ]
        yield RecordBatch(arrays, schema=SCHEMA)


def _blocks(rows: Iterable[Row | Block]) -> Iterator[Block]:
    for is_block, alike in itertools.groupby(rows, lambda one: isinstance(one, Block)):
        if is_block:
            yield from cast("Iterator[Block]", alike)
        else:
            while some := list(itertools.islice(cast("Iterator[Row]", alike), BLOCK_ROWS)):
                yield Block.of(some)


_Builder = Callable[[Sequence[Any]], Array]
_PLAIN: Final = frozenset((str, int, type(None)))


def _array(cells: Sequence[Any], build: _Builder) -> Array:
    first = cells[0]
    if first == cells[-1] and type(first) in _PLAIN and cells.count(first) == len(cells):
        return _repeated(build, first, len(cells))
    return _fitting(build, cells)


@lru_cache(maxsize=256, typed=True)
def _repeated(build: _Builder, cell: str | int | None, rows: int) -> Array:
    """Return a column of one repeated value: half of a block's columns are, as in the next block."""
    return _fitting(build, (cell,) * rows)


def _fitting(build: _Builder, cells: Sequence[Any]) -> Array:
    try:
        return build(cells)
    except (TypeError, ValueError, OverflowError):  # UnicodeEncodeError is a ValueError
        return build([cell if _fits(build, cell) else None for cell in cells])


def _fits(build: _Builder, cell: object) -> bool:
    try:
        build([cell])
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _plain(type_: DataType, cells: Sequence[Any]) -> Array:
    return Array(cells, type=type_)


def _from_days(type_: DataType, cells: Sequence[Any]) -> Array:
    return Array(cells, type=_INT).cast(type_)


def _from_millis(type_: DataType, cells: Sequence[Any]) -> Array:
    return Array(cells, type=_LONG).cast(_MILLIS).cast(type_)


def _lists(type_: DataType, cells: Sequence[Any]) -> Array:
    lists = [cell or () for cell in cells]
    ends = itertools.accumulate(map(len, lists), initial=0)
    return list_array(Array([*ends], type=_INT), Array([*itertools.chain(*lists)], type=_TEXT), type=type_)


_BY_TYPE: Final = {_DATE: _from_days, _TIMESTAMP: _from_millis, _TEXTS: _lists}
_BUILDERS: Final[Sequence[tuple[str, _Builder]]] = [
    (column.name, partial(_BY_TYPE.get(column.type, _plain), column.type)) for column in COLUMNS
]
"""Builders, made once: the look-up of a type takes longer than building a short column of it."""
