"""Read access to SQLite databases with the histories of agents."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.producers.any_json import readable
from haltline.interventions.agent.user_files import open_file
from haltline.streams.importing.reading import MAX_LINE_BYTES, NotReadable

MAGIC: Final = b"SQLite format 3\0"


def is_database(path: Path) -> bool:
    """Return whether the file is an SQLite database. Raises OSError when it cannot be read."""
    with open_file(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def rows(path: Path, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query. The agent may write at the same time.

    Raises:
        NotReadable: the database is damaged, or has other tables.
        OSError: SQLite would open another file with it that is none, and wait.

    """
    for name in ("-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            open_file(path.with_name(f"{path.name}{name}")).close()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE_BYTES)  # a column can compute its value
            opened.text_factory = lambda raw: raw.decode(errors="replace")
            yield from opened.execute(query, values)
    except sqlite3.Error as error:
        raise NotReadable(f"{path}: expected a database of an agent, got {error}") from None


def tables(path: Path) -> frozenset[str]:
    """Return the names of the tables. Raises NotReadable, like `rows`."""
    return frozenset(str(name) for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'"))


def value_in(text: object) -> Any:
    """Return the JSON value of a field; None: it is not JSON."""
    try:
        return readable(text.encode(errors="replace")) if isinstance(text, str) else None
    except ValueError:
        return None


def sessions(path: Path, table: str, folder: str) -> Iterator[tuple[Any, Any]]:
    """Yield the ids of sessions, and the folder of each if the table has this column."""
    names = {name for (name,) in rows(path, f"SELECT name FROM pragma_table_info('{table}')")}
    column = folder if folder in names else "NULL"
    yield from rows(path, f"SELECT id, {column} FROM {table} ORDER BY id")  # names of our own
