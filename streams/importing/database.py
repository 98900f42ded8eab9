"""Read access to SQLite databases with the histories of agents."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.integrations.any_json import readable
from haltline.streams.importing.reading import NotReadable

MAGIC: Final = b"SQLite format 3\0"


def is_database(path: Path) -> bool:
    """Return whether the file is an SQLite database. Raises OSError when it cannot be read."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def rows(path: Path, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query. The agent may write at the same time.

    Raises:
        NotReadable: the database is damaged, or has other tables.

    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as opened:
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
