"""Questions to the audit table, in SQL, on an engine that is part of the table's library."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable

from haltline.schemas.topics import LAYOUT
from haltline.streams.audit.engine import TABLE, QueryFailed, QueryResult, answer, open_table
from haltline.streams.operator.ids import NotFound, resolve

__all__ = ["TABLE", "AuditQuery", "QueryFailed", "conditions", "literal", "open_query", "session_in", "session_story"]

_ORDER: Final = tuple(layout.name for layout in LAYOUT)


# The engine knows statements that read and write files of the machine. It takes one statement at a time.
_QUESTIONS: Final = ("SELECT", "WITH", "VALUES")
_FIRST_WORD: Final = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*(\w*)", re.DOTALL)


class AuditQuery:
    """Asks one table. Each question sees all that was committed when it was asked.

    With `table`, each sees the table as it was when that was opened.
    """

    def __init__(
        self, uri: str | Path, storage_options: Mapping[str, str] | None = None, *, table: DeltaTable | None = None
    ) -> None:
        self.uri = str(uri)
        self._options = dict(storage_options or {})
        self._table = table

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The answer, a dict for each row. Times are aware datetimes in UTC, bytes are bytes.

        Raises:
            QueryFailed: there is no table, or the SQL does not hold.

        """
        return list(self.iter_rows(sql))

    def iter_rows(self, sql: str) -> Iterator[dict[str, Any]]:
        """As `rows`, with a part of the answer in memory at a time."""
        return self.answer(sql).rows

    def answer(self, sql: str) -> QueryResult:
        """As `iter_rows`, with the names of the columns, also where there is no row."""
        if (word := _first_word(sql)) not in _QUESTIONS:
            raise QueryFailed(f"audit query: expected {' or '.join(_QUESTIONS)}, got {word or 'no statement'}")
        return answer(self._table or open_table(self.uri, self._options), sql)


def open_query(uri: str | Path, storage_options: Mapping[str, str] | None = None) -> AuditQuery:
    """A way to ask the audit table at `uri`, also while sinks write it."""
    return AuditQuery(uri, storage_options)


def conditions(
    *,
    session_id: str | None = None,
    agent_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[str]:
    """That all that is given holds of a row; `since` (inclusive) and `until` are compared with the time on the broker.

    Raises ValueError for a time without a zone.
    """
    compared = (
        ("session_id", "=", session_id),
        ("agent_id", "=", agent_id),
        ("timestamp", ">=", since),
        ("timestamp", "<", until),
    )
    return [f'"{name}" {sign} {literal(value)}' for name, sign, value in compared if value is not None]


def session_story(
    uri: str | Path, session_id: str, storage_options: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """All that is known of a session, in the order in which it happened: what could not be read of it too.

    Within a millisecond, what was done comes before what was seen in it, decided, answered and held.
    Raises QueryFailed.
    """
    quoted = literal(session_id)
    sql = f'SELECT * FROM {TABLE} WHERE "session_id" = {quoted} OR "key" = {quoted}'
    return sorted(open_query(uri, storage_options).rows(sql), key=_when)


def session_in(ask: Callable[[str], Iterable[Mapping[str, Any]]], given: str) -> str:
    """The id of the session that is meant, by its beginning; as it was given where the table has none.

    Raises Ambiguous when several begin so; QueryFailed.
    """
    sql = f"SELECT DISTINCT session_id FROM {TABLE} WHERE starts_with(session_id, {literal(given)})"
    with suppress(NotFound):  # the caller reports it in its own words
        return resolve("session", given, [str(row["session_id"]) for row in ask(sql)])
    return given


def literal(value: str | datetime) -> str:
    """A value as SQL text, whatever is in it."""
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
