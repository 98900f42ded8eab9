"""The read model's database: SQLite beside the process, or PostgreSQL by URL."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, Table, create_engine, delete, event, insert, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url

from haltline.console.read_model import tables
from haltline.streams.history.kept import KEYS

_T = TypeVar("_T")

_BUSY_S: Final = 30
_MAX_NAMED: Final = 400
_KEPT_OPEN: Final = 20
"""The pool size for SQLite: half of the most worker threads. Opening a connection reads the schema first."""


def open_store(url: str) -> Engine:
    """Open the database and create its tables; one of an older release is emptied and rebuilt.

    Raises:
        ValueError: it is SQLite in memory.
        sqlalchemy.exc.ArgumentError: the URL is invalid.
        sqlalchemy.exc.OperationalError: the database cannot be reached.

    """
    engine = _engine(url)
    prepare(engine)
    return engine


def prepare(engine: Engine) -> None:
    """Create the tables on an existing engine; tables of an older release are recreated empty."""
    if not _is_current(engine):
        empty(engine)


def empty(engine: Engine) -> None:
    """Drop everything, to be rebuilt from topics and audit."""
    with engine.begin() as connection:
        tables.metadata.drop_all(connection)
        tables.metadata.create_all(connection)
        connection.execute(insert(tables.versions).values(version=tables.SCHEMA_VERSION))


def clear(engine: Engine) -> None:
    """Delete all rows at once while others read: the tables stay."""
    with engine.begin() as connection:
        for table in tables.metadata.sorted_tables:
            if table is not tables.versions:
                connection.execute(delete(table))


def put(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    replace: bool = True,
    sums: tuple[str, ...] = (),
) -> None:
    """Write rows by their key. Of an existing one the given columns are replaced or kept, and those in `sums` added to.

    All rows have the same columns.
    """
    if rows:
        connection.execute(_put(connection.dialect.name, table, tuple(rows[0]), replace, sums), list(rows))


@lru_cache(maxsize=128)
def _put(dialect: str, table: Table, names: tuple[str, ...], replace: bool, sums: tuple[str, ...]) -> Any:
    """The statement for one row, compiled once; the driver runs it for each row."""
    statement = insert_of(dialect, table)
    key = KEYS.get(table.name) or [column.name for column in table.primary_key]
    new = {name: statement.excluded[name] for name in names if name not in key} if replace else {}
    for name in sums:
        new[name] += table.c[name]
    if new:
        return statement.on_conflict_do_update(index_elements=key, set_=new)
    return statement.on_conflict_do_nothing(index_elements=key)


def parts(some: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Split into parts that fit into one statement: SQLite bounds the number of parameters."""
    return (some[first : first + _MAX_NAMED] for first in range(0, len(some), _MAX_NAMED))


def insert_of(dialect: str, table: Table) -> Any:
    """An insert with a conflict clause, for which each dialect has its own class."""
    return (postgresql if dialect == "postgresql" else sqlite).insert(table)


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        if parsed.drivername == "postgresql":  # the usual form; the installed driver is psycopg 3
            parsed = parsed.set(drivername="postgresql+psycopg")
        engine = create_engine(parsed, pool_pre_ping=True)
        event.listen(engine, "before_cursor_execute", _without_nul, retval=True)
        return engine
    if parsed.database in (None, "", ":memory:"):
        raise ValueError(f"database: expected a file, as several threads use it, got {url}")
    engine = create_engine(parsed, connect_args={"timeout": _BUSY_S}, pool_size=_KEPT_OPEN, max_overflow=_KEPT_OPEN)

    @event.listens_for(engine, "connect")
    def _set(connection: Any, _record: Any) -> None:
        # Readers continue while the feeder writes; rows lost in a crash are read from the topics again.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def _without_nul(
    _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
) -> tuple[str, Any]:
    """Replace NUL in texts, which PostgreSQL cannot store and agents' texts may contain, in writes and searches."""
    if isinstance(parameters, Mapping):
        return statement, _escaped(parameters)
    return statement, [_escaped(one) for one in parameters]


def _escaped(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.replace("\x00", "\\x00") if isinstance(v, str) else v for n, v in parameters.items()}


def _is_current(engine: Engine) -> bool:
    if not inspect(engine).has_table(tables.versions.name):
        return False
    with engine.connect() as connection:
        return connection.execute(select(tables.versions.c.version)).scalar() == tables.SCHEMA_VERSION
