"""SQL queries of the audit table, by an engine that is part of the table's library."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable

from haltline.schemas import expressions as re
from haltline.schemas.topics import LAYOUT
from haltline.streams.audit.engine import TABLE, QueryFailed, QueryResult, answer, open_table
from haltline.streams.operator.ids import NotFound, resolve

__all__ = ["TABLE", "AuditQuery", "QueryFailed", "literal", "open_query", "session_in", "session_story"]

_ORDER: Final = tuple(layout.name for layout in LAYOUT)


# The engine has statements that read and write local files. It accepts one statement at a time.
_READS: Final = ("SELECT", "WITH", "VALUES")
_FIRST_WORD: Final = re.compile(r"\A(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*(\w*)", re.DOTALL)


class AuditQuery:
    """Queries of one table. Each query sees everything committed before it.

    With `table`, each query sees the table as it was when that was opened.
    """

    def __init__(
        self, uri: str | Path, storage_options: Mapping[str, str] | None = None, *, table: DeltaTable | None = None
    ) -> None:
        self.uri = str(uri)
        self._options = dict(storage_options or {})
        self._table = table

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the answer, a dict for each row. Times are aware datetimes in UTC, bytes are bytes.

        Raises:
            QueryFailed: the table does not exist, or the SQL is invalid.

        """
        return list(self.iter_rows(sql))

    def iter_rows(self, sql: str) -> Iterator[dict[str, Any]]:
        """Yield the answer like `rows`, with a part of it in memory at a time."""
        return self.answer(sql).rows

    def answer(self, sql: str) -> QueryResult:
        """Return the answer like `iter_rows`, with the column names, also if there is no row."""
        if (word := _first_word(sql)) not in _READS:
            raise QueryFailed(f"audit query: expected {' or '.join(_READS)}, got {word or 'no statement'}")
        return answer(self._table or open_table(self.uri, self._options), sql)


def open_query(uri: str | Path, storage_options: Mapping[str, str] | None = None) -> AuditQuery:
    """Open the audit table at `uri` for queries; sinks may be writing it."""
    return AuditQuery(uri, storage_options)


def session_story(
    uri: str | Path, session_id: str, storage_options: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return all rows of a session in chronological order, also unreadable ones.

    Within a millisecond, actions come first, then findings, decisions, feedback and controls. Raises QueryFailed.
    """
    quoted = literal(session_id)
    sql = f'SELECT * FROM {TABLE} WHERE "session_id" = {quoted} OR "key" = {quoted}'
    return sorted(open_query(uri, storage_options).rows(sql), key=_when)


def session_in(ask: Callable[[str], Iterable[Mapping[str, Any]]], given: str) -> str:
    """Return the id of the session with this prefix; the prefix itself if the table has none.

    Raises Ambiguous when several ids have the prefix; QueryFailed.
    """
    sql = f"SELECT DISTINCT session_id FROM {TABLE} WHERE starts_with(session_id, {literal(given)})"
    with suppress(NotFound):  # the caller reports it itself
        return resolve("session", given, [str(row["session_id"]) for row in ask(sql)])
    return given


def literal(value: str | datetime) -> str:
    """Return a value as an SQL literal, safely quoted."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"expected a time with its zone, got {value}")
        return f"TIMESTAMP '{value.isoformat()}'"
    return "'" + value.replace("'", "''") + "'"


def _first_word(sql: str) -> str:
    found = _FIRST_WORD.match(sql)
    return found[1].upper() if found else ""


def _when(row: Mapping[str, Any]) -> tuple[int, int, str, int, int]:
    topic = str(row["topic"])
    rank = next((rank for rank, name in enumerate(_ORDER) if topic.endswith(name)), len(_ORDER))
    return (row["timestamp_ms"] or 0, rank, topic, row["partition"], row["offset"])
