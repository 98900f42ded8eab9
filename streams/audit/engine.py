"""SQL on an open audit table, and readable messages for the errors of its engine."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from arro3.core import RecordBatch, Schema, Table
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from haltline.schemas import expressions as re
from haltline.streams.audit import NoRecords, QueryFailed

__all__ = ["TABLE", "NoRecords", "QueryFailed", "QueryResult", "answer", "arrow_answer", "in_order", "open_table"]

TABLE: Final = "audit"
"""The table's name in SQL."""

_AT_A_TIME: Final = 20_000

Row = dict[str, Any]
_Ask = Callable[[str], Iterable[Row]]

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_NO_COLUMN: Final = re.compile(r"No field named (.{1,300}?)\.(?: Did you mean '(.{1,300}?)'\?)?")
_NO_TABLE: Final = re.compile(r"table '(?:\w{1,100}\.\w{1,100}\.)?(.{1,300}?)' not found")
_UNEXPECTED: Final = re.compile(r"Expected: (.{1,300}?), found: (.{1,80}?)(?: at Line: (\d+), Column: (\d+))?\"\)")
_NO_FUNCTION: Final = re.compile(r"No function matches the given name and argument types '(.{1,300}?)'")
_INNERMOST: Final = re.compile(r"(?<!\w)\w+Error\(\"([^\"]+)\"\)")
_KIND: Final = re.compile(r"^(?:(?:\w+ error|Error during planning|External|This feature is not implemented): )+")
_MAX_CHARS: Final = 300


@dataclass(frozen=True)
class QueryResult:
    """The answer to a query: column names, and rows, of which only a part is in memory at a time."""

    names: tuple[str, ...]
    rows: Iterator[dict[str, Any]]


def open_table(
    uri: str | Path, storage_options: Mapping[str, str] | None = None, *, version: int | None = None
) -> DeltaTable:
    """Open the current table, or a version of it.

    Raises QueryFailed: it does not exist, or its store does not answer.
    """
    try:
        return DeltaTable(str(uri), version=version, storage_options=dict(storage_options or {}))
    except TableNotFoundError:
        raise QueryFailed(f"audit table {uri}: expected a Delta table, got none there") from None
    except (DeltaError, OSError, ValueError) as error:
        raise QueryFailed(f"audit table {uri}: expected a table that can be read, got {_one_line(error)}") from error


def answer(table: DeltaTable, sql: str) -> QueryResult:
    """Return the answer to one SELECT. Reading the rows raises QueryFailed too."""
    names, batches = _query(table, sql)

    def rows() -> Iterator[dict[str, Any]]:
        for batch in batches:
            columns = [[column[i].as_py() for i in range(batch.num_rows)] for column in batch.columns]
            for row in zip(*columns, strict=True):
                yield dict(zip(names.names, row, strict=True))

    return QueryResult(tuple(names.names), rows())


def arrow_answer(table: DeltaTable, sql: str) -> Table:
    """Return the whole answer to one SELECT as an Arrow table. Raises QueryFailed."""
    schema, batches = _query(table, sql)
    return Table.from_batches(list(batches), schema=schema)


def in_order(ask: _Ask, columns: str, where: str, first: int | None = None, end: int | None = None) -> Iterator[Row]:
    """Yield the rows of one partition by offset, from `first` up to, not including, `end`: some at a time."""
    while True:
        behind = where if first is None else f'{where} AND "offset" >= {first:d}'
        (least,) = ask(f'SELECT min("offset") AS "offset" FROM audit WHERE {behind}')
        first = least["offset"]
        if first is None or (end is not None and first >= end):
            return
        until = first + _AT_A_TIME if end is None else min(first + _AT_A_TIME, end)
        part = f'{where} AND "offset" >= {first:d} AND "offset" < {until:d}'
        yield from ask(f'SELECT {columns} FROM audit WHERE {part} ORDER BY "offset"')
        first = until


def _query(table: DeltaTable, sql: str) -> tuple[Schema, Iterator[RecordBatch]]:
    # The engine has its own exceptions, some without a class; a division by zero is found only during reading.
    try:
        found = QueryBuilder().register(TABLE, table).execute(sql)
    except Exception as error:
        raise _failed(error) from error

    def batches() -> Iterator[RecordBatch]:
        try:
            yield from found
        except Exception as error:
            raise _failed(error) from error

    return Schema(found.schema), batches()


def _failed(error: Exception) -> QueryFailed:
    return QueryFailed(f"audit query: {_expectation(_one_line(error))}")


def _expectation(text: str) -> str:
    """Return what was expected and what was received, if the engine's message contains it."""
    if found := _NO_COLUMN.search(text):
        listed = text.partition("Valid fields are ")[2].removesuffix(".")
        name, near, known = (part and part.replace(f"{TABLE}.", "") for part in (*found.groups(), listed))
        some = f"one of {known}" if known else f"a column of the table {TABLE}"
        return f"expected a column such as {near}, got {name}" if near else f"expected {some}, got {name}"
    if found := _NO_TABLE.search(text):
        return f"expected the table {TABLE}, got {found[1]}"
    if found := _NO_FUNCTION.search(text):
        return f"expected arguments of another type, got {found[1]}"
    if found := _UNEXPECTED.search(text):
        where = f" at line {found[3]}, column {found[4]}" if found[3] else ""
        got = "the end of the statement" if found[2] == "EOF" else found[2]
        return f"expected {found[1].lower()}, got {got}{where}"
    text = (_INNERMOST.search(text) or [text, text])[1]
    return f"expected an answer, got: {_KIND.sub('', text)}"[:_MAX_CHARS]


def _one_line(error: Exception) -> str:
    return " ".join(_COLOURS.sub("", str(error)).split())
