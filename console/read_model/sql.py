"""The rows of a history in the database: what `Kept` says, in SQL."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, bindparam, delete, func, select

from haltline.console.read_model import store, tables
from haltline.console.read_model.tallies import put_interventions
from haltline.streams.history.kept import COMPARES, Row, Where

_TABLES: Final = tables.metadata.tables


class Sql:
    """Rows by a connection, or by an engine that opens one for each query. Writes are the caller's transaction."""

    def __init__(self, bind: Engine | Connection) -> None:
        self._bind = bind

    def rows(
        self, table: str, *where: Where, order: Sequence[str] = (), skip: int = 0, limit: int | None = None
    ) -> list[Mapping[str, Any]]:
        """The rows that meet all conditions; those of more than 400 values are neither ordered nor limited."""
        names = next((one for one in where if one[1] == "in"), None)
        spans = [where]
        if names is not None:
            of = where.index(names)
            parts = store.parts(list(names[2]))
            spans = [(*where[:of], (names[0], "in", part), *where[of + 1 :]) for part in parts]
        statement = _query(table, _shape(where), tuple(order), limit is not None)
        page = {} if limit is None else {"skip": skip, "limit": limit}
        with self._connection() as connection:
            found = (connection.execute(statement, _values(span) | page).mappings() for span in spans)
            return [dict(row) for rows in found for row in rows]

    def values(self, table: str, column: str, *where: Where, limit: int) -> list[Any]:
        """Some of the different values of a column in these rows."""
        found = select(_TABLES[table].c[column]).where(*_held(table, _shape(where))).distinct().limit(limit)
        with self._connection() as connection:
            return list(connection.execute(found, _values(where)).scalars())

    def count(self, table: str, *where: Where) -> int:
        """The number of these rows."""
        with self._connection() as connection:
            return int(connection.execute(_count(table, _shape(where)), _values(where)).scalar_one())

    def put(self, table: str, rows: Sequence[Row], *, replace: bool = True, sums: Sequence[str] = ()) -> None:
        """Write rows by their key."""
        with self._connection() as connection:
            if table == tables.interventions.name:
                put_interventions(connection, rows)
            else:
                store.put(connection, _TABLES[table], rows, replace=replace, sums=tuple(sums))

    def remove(self, table: str, key: str) -> None:
        """Remove the row with this key, if there is one."""
        (column,) = _TABLES[table].primary_key
        with self._connection() as connection:
            connection.execute(delete(_TABLES[table]).where(column == key))

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if isinstance(self._bind, Connection):
            yield self._bind
        else:
            with self._bind.connect() as connection:
                yield connection


def _shape(where: Sequence[Where]) -> tuple[tuple[str, str], ...]:
    return tuple((name, op) for name, op, _ in where)


def _values(where: Sequence[Where]) -> dict[str, Any]:
    values = {f"v{number}": value for number, (_, _, value) in enumerate(where)}
    return values | {f"n{number}": len(value) for number, (_, op, value) in enumerate(where) if op == "begins"}


def _held(table: str, shape: tuple[tuple[str, str], ...]) -> Iterator[ColumnElement[bool]]:
    for number, (name, op) in enumerate(shape):
        column: Any = _TABLES[table].c[name]
        value: Any = bindparam(f"v{number}", expanding=op == "in")
        if op == "in":
            yield column.in_(value)
        elif op == "none":
            yield column.is_(None)
        elif op == "begins":
            # Not LIKE, which ignores case in SQLite, nor a range, which depends on PostgreSQL's collation.
            yield func.substr(column, 1, bindparam(f"n{number}")) == value
        else:
            yield COMPARES[op](column, value)


@lru_cache(maxsize=256)
def _query(table: str, shape: tuple[tuple[str, str], ...], order: tuple[str, ...], limited: bool) -> Any:
    """The statement for this form of conditions, made once and not for each record."""
    columns = _TABLES[table].c
    by = [columns[name[1:]].desc() if name.startswith("-") else columns[name] for name in order]
    found = select(_TABLES[table]).where(*_held(table, shape)).order_by(*by)
    return found.offset(bindparam("skip")).limit(bindparam("limit")) if limited else found


@lru_cache(maxsize=256)
def _count(table: str, shape: tuple[tuple[str, str], ...]) -> Any:
    return select(func.count()).select_from(_TABLES[table]).where(*_held(table, shape))
