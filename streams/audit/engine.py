"""SQL on an audit table that is open, and what its engine says of SQL that does not hold, in our words."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

TABLE: Final = "audit"
"""What the table is called in SQL."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_NO_COLUMN: Final = re.compile(r"No field named (.+?)\.(?: Did you mean '(.+?)'\?)?(?:.*Valid fields are (.+?)\.$)?")
_NO_TABLE: Final = re.compile(r"table '(?:\w+\.\w+\.)?(.+?)' not found")
_UNEXPECTED: Final = re.compile(r"Expected: (.+?), found: (.+?)(?: at Line: (\d+), Column: (\d+))?\"\)")
_KIND: Final = re.compile(r"^(?:(?:Error during planning|External error|Arrow error|SQL error|Schema error): )+")


class QueryFailed(Exception):
    """The question could not be answered: no table there, or SQL that does not hold."""


class NoRecords(QueryFailed):
    """There is a table, and nothing in it of what was asked for."""


@dataclass(frozen=True)
class Answer:
    """The names of its columns, and its rows, of which a part is in memory at a time."""

    names: tuple[str, ...]
    rows: Iterator[dict[str, Any]]


def open_table(
    uri: str | Path, storage_options: Mapping[str, str] | None = None, *, version: int | None = None
) -> DeltaTable:
    """The table as it is now, or was in a version. Raises QueryFailed: there is none, or its store does not answer."""
    try:
        return DeltaTable(str(uri), version=version, storage_options=dict(storage_options or {}))
    except TableNotFoundError:
        raise QueryFailed(f"audit table {uri}: wanted a Delta table, came none there") from None
    except (DeltaError, OSError, ValueError) as error:
        raise QueryFailed(f"audit table {uri}: wanted a table that can be read, came {_one_line(error)}") from error


def answer(table: DeltaTable, sql: str) -> Answer:
    """The answer to one SELECT. Reading the rows raises QueryFailed too."""
    try:
        found = QueryBuilder().register(TABLE, table).execute(sql)
    except Exception as error:  # the engine's own, of which some are of no class
        raise _failed(sql, error) from error
    names = tuple(found.schema.names)

    def rows() -> Iterator[dict[str, Any]]:
        try:
            for batch in found:
                columns = [[column[i].as_py() for i in range(batch.num_rows)] for column in batch.columns]
                for row in zip(*columns, strict=True):
                    yield dict(zip(names, row, strict=True))
        except Exception as error:  # as above: a division by zero is found while it is read
            raise _failed(sql, error) from error

    return Answer(names, rows())


def _failed(sql: str, error: Exception) -> QueryFailed:
    return QueryFailed(f"audit query {sql!r:.200}: {_told(_one_line(error))}")


def _told(text: str) -> str:
    """What was wanted and what came, where that can be read from what the engine says."""
    if found := _NO_COLUMN.search(text):
        name, near, known = found[1].replace(f"{TABLE}.", ""), found[2], found[3]
        hint = f"; did you mean {near.removeprefix(f'{TABLE}.')}?" if near else ""
        wanted = f"one of {known.replace(f'{TABLE}.', '')}" if known else "a column that is there"
        return f"wanted {wanted}, came {name}{hint}"
    if found := _NO_TABLE.search(text):
        return f"wanted the table {TABLE}, came {found[1]}"
    if found := _UNEXPECTED.search(text):
        where = f" at line {found[3]}, column {found[4]}" if found[3] else ""
        came = "the end of the statement" if found[2] == "EOF" else found[2]
        return f"wanted {found[1].lower()}, came {came}{where}"
    return _KIND.sub("", text)


def _one_line(error: Exception) -> str:
    return " ".join(_COLOURS.sub("", str(error)).split())
