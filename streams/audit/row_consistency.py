"""Rows rebuilt from their record, which reveals changes of single columns. Pure."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from haltline.streams.audit.chain import CHECKPOINT, CHECKPOINTS, KEPT_OF_ERASED, LOST, lost_until
from haltline.streams.audit.columns import COLUMNS, SCHEMA, Row, to_arrow
from haltline.streams.audit.reading import KafkaRecord, Reader, headers_of
from haltline.streams.audit.statements import checkpoint_row, statement_row

_NOT_REBUILT: Final = frozenset(
    ("ingested_at", "redacted", "prev_offset", "record_digest", "chain_hash", "raw")
)  # fmt: skip
"""Columns that are not rebuilt: the sink's clock, what it redacted before storing, and what the chain proves."""
_NAMES: Final = tuple(column.name for column in COLUMNS if column.name not in _NOT_REBUILT)
_TIMES: Final = frozenset(("timestamp", "event_time"))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_0: Final = date(1970, 1, 1).toordinal()


def difference(row: Mapping[str, Any], reader: Reader) -> str:
    """Return the first column of a row that differs from its key, time, headers and value; or an empty text."""
    read = row["ingested_at"]
    if read is None:
        return "its column ingested_at says None, and each record was read at some time"
    now_ms = (read - _EPOCH) // timedelta(milliseconds=1)
    if row["kind"] == LOST:
        until = lost_until(row)
        return _compare(row, reader.lost(row["topic"], row["partition"], row["offset"], until, now_ms))
    key = row["key_bytes"]
    if key is None and row["key"] is not None:
        key = row["key"].encode()
    try:
        headers = headers_of(row["headers"])
    except (ValueError, TypeError):
        return f"its column headers says {row['headers']!r:.80}, which is no list of headers"
    place = (row["topic"], row["partition"], row["offset"])
    return _compare(row, reader.row(KafkaRecord(*place, row["timestamp_ms"], key, row["raw"], headers), now_ms))


def left_of_erased(row: Mapping[str, Any]) -> str:
    """Return the first column of an erased row that should be empty; or an empty text."""
    for name in SCHEMA.names:
        if name not in KEPT_OF_ERASED and row.get(name) is not None:
            return f"its column {name} says {row[name]!r:.80}, and its content was erased"
    return ""


def statement_difference(row: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """Return the first column of a statement's row that differs from the statement; or an empty text."""
    again = checkpoint_row(statement) if row["kind"] == CHECKPOINT else statement_row(statement, str(row["summary"]))
    if row["kind"] == CHECKPOINT and not row["topic"].endswith(CHECKPOINTS):
        return "a checkpoint stands where records of Kafka do"
    return _compare(row, again)


def _compare(row: Mapping[str, Any], again: Row) -> str:
    for name in _NAMES:
        if name in row and not _same(name, again.get(name), row[name]):
            # Not every value can be stored: the comparison uses what the table made of it.
            expected = to_arrow([{name: again.get(name)}])[name][0].as_py()
            if expected != row[name]:
                return f"its column {name} says {row[name]!r:.80}, and its raw record says {expected!r:.80}"
    return ""


def _same(name: str, expected: Any, got: Any) -> bool:
    if expected is None or got is None:
        return expected is got
    if name in _TIMES:
        return bool(got - _EPOCH == timedelta(milliseconds=expected))
    if name == "event_date":
        return bool(got.toordinal() - _DAY_0 == expected)
    return bool(expected == got)
