"""The console's read model after a chaos run: what it must be is what another one makes of the same topics."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, select

from benchmarks.chaos.verify import Check
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.store import open_store
from haltline.schemas.topics import Topics

_ANEW_WITHIN_S: Final = 180.0


def url_of(file: Path) -> str:
    """For `haltline console --database`."""
    return f"sqlite:///{file}"


def reached(file: Path, topics: Topics) -> Mapping[tuple[str, int], int]:
    """By topic and partition: the next offset that it will read."""
    engine = open_store(url_of(file))
    try:
        with engine.connect() as connection:
            rows = connection.execute(select(tables.offsets)).all()
    finally:
        engine.dispose()
    return {(f"{topics.prefix}{topic}", partition): after for topic, partition, after in rows}


def check_read_model(file: Path, bootstrap: str, topics: Topics) -> Check:
    """Every table is what it would be had the console read all of it in one go."""
    anew = open_store(url_of(file.with_name("anew.db")))
    feeder = Feeder(anew, bootstrap, topics=topics, group="chaos-anew")
    feeder.start()
    try:
        if not feeder.caught_up.wait(_ANEW_WITHIN_S):
            raise RuntimeError(
                f"read model: expected it recreated within {_ANEW_WITHIN_S:.0f} s, got {feeder.failure!r}"
            )
    finally:
        feeder.close()
    there = open_store(url_of(file))
    try:
        expected, actual = _content(anew), _content(there)
    finally:
        anew.dispose()
        there.dispose()
    differences = []
    for table in expected:
        missing, more = expected[table] - actual[table], actual[table] - expected[table]
        differences += [f"{table}: expected, did not come: {row!r:.300}" for row in missing]
        differences += [f"{table}: got, was not expected: {row!r:.300}" for row in more]
    found = ", ".join(f"{len(rows):,} {table}" for table, rows in actual.items() if rows)
    return Check("the console's read model is that of the topics", found, tuple(differences))


def _content(engine: Engine) -> dict[str, set[tuple[Any, ...]]]:
    with engine.connect() as connection:
        return {
            table.name: {
                tuple(row) for row in connection.execute(select(*(column for column in table.c if column.name != "n")))
            }
            for table in tables.metadata.sorted_tables
        }
