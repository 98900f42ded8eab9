"""The complete content of a read model, for comparisons."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Engine, select

from haltline.console.read_model import tables
from haltline.console.read_model.sql import Sql
from haltline.console.read_model.store import clear
from haltline.streams.audit.columns import Row
from haltline.streams.history.fold import take_in


def of_batches(engine: Engine, batches: Iterable[Iterable[Row]]) -> dict[str, list[dict[str, Any]]]:
    """The content of the read model, cleared and built from these batches."""
    clear(engine)
    for batch in batches:
        with engine.begin() as connection:
            take_in(Sql(connection), list(batch), "haltline.")
    return contents(engine)


def contents(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """The rows by table, without numbers of arrival and without the positions of the reader."""
    kept = (tables.versions, tables.offsets, tables.topic_ids)
    with engine.connect() as connection:
        return {
            table.name: sorted(
                (
                    {name: value for name, value in row.items() if name != "n"}
                    for row in connection.execute(select(table)).mappings()
                ),
                key=str,
            )
            for table in tables.metadata.sorted_tables
            if table not in kept
        }
