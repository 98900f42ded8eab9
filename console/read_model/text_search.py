"""Search for a part of a text in the column `words` of a table, ignoring case, by trigrams.

SQLite has the trigrams in an FTS5 table for each table, updated by triggers in the transaction of the row. PostgreSQL
has a GIN index of the extension `pg_trgm`; without permission to create the extension, all rows are read.
"""

import logging
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Select,
    Table,
    column,
    event,
    literal,
    select,
    table,
    text,
)
from sqlalchemy.exc import DBAPIError

from haltline.streams.history.words import plain

log: Final = logging.getLogger("haltline.console")

SHORTEST: Final = 3
"""The shortest text, in characters, that the index finds."""
_EXTENSION: Final = "pg_trgm"
_LATEST: Final = 3_000
"""Rows that are read for a shorter text."""


def matching(dialect: str, of: Table, part: str, limit: int | None = None) -> Select[Any]:
    """A query of the `n` of rows whose words contain the text; with a limit, of the latest."""
    n, words, part = of.c.n, of.c.words, plain(part)
    if len(part) < SHORTEST:
        latest = select(n, words).order_by(n.desc()).limit(_LATEST).subquery()
        found = select(latest.c.n).where(latest.c.words.contains(part, autoescape=True)).order_by(latest.c.n.desc())
    elif dialect == "sqlite":
        index = table(_index(of), column("rowid"), column(_index(of)))
        phrase = '"' + part.replace('"', '""') + '"'
        row = index.c.rowid
        found = select(row).where(index.c[_index(of)].op("MATCH")(literal(phrase))).order_by(row.desc())
    else:
        found = select(n).where(words.contains(part, autoescape=True)).order_by(n.desc())
    return found.order_by(None) if limit is None else found.limit(limit)


def keep_index(of: Table, words: str = "{row}.words") -> None:
    """Create the index together with a table. `words` is the indexed text of a row, as SQL."""
    name, index = of.name, _index(of)
    old, new = words.format(row="old"), words.format(row="new")
    remove = f"INSERT INTO {index}({index}, rowid, words) VALUES ('delete', old.n, {old});"
    add = f"INSERT INTO {index}(rowid, words) VALUES (new.n, {new});"
    options = f"words, content='{name}', content_rowid='n', columnsize=0, tokenize='trigram'"
    made = (
        f"CREATE VIRTUAL TABLE {index} USING fts5({options})",
        f"CREATE TRIGGER {index}_insert AFTER INSERT ON {name} BEGIN {add} END",
        f"CREATE TRIGGER {index}_delete AFTER DELETE ON {name} BEGIN {remove} END",
        f"CREATE TRIGGER {index}_update AFTER UPDATE ON {name} WHEN {old} IS NOT {new} BEGIN {remove} {add} END",
    )

    def create(_: Table, connection: Connection, **_more: Any) -> None:
        for statement in made if connection.dialect.name == "sqlite" else ():
            connection.exec_driver_sql(statement)

    def drop(_: Table, connection: Connection, **_more: Any) -> None:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {index}")

    event.listen(of, "after_create", create)
    event.listen(of, "after_drop", drop)
    event.listen(of, "after_create", _with_trigrams)


def _with_trigrams(of: Table, connection: Connection, **_: Any) -> None:
    if connection.dialect.name != "postgresql":
        return
    try:
        with connection.begin_nested():
            connection.execute(text(f"CREATE EXTENSION IF NOT EXISTS {_EXTENSION}"))
            connection.execute(text(f"CREATE INDEX {_index(of)} ON {of.name} USING gin (words gin_trgm_ops)"))
    except DBAPIError as refused:
        log.warning(
            "console: text search of %s reads every row, as there is no %s: %s", of.name, _EXTENSION, refused.orig
        )


def _index(of: Table) -> str:
    return f"{of.name}_words"
