"""The check of the console's read model after a chaos run, against another one built from the same topics."""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, Table, select

from benchmarks.chaos.verify import MISSING, UNEXPECTED, Check, Difference
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.store import open_store
from haltline.console.read_model.topic_bounds import Place
from haltline.schemas.topics import Topics
from haltline.streams.history.kept import KEYS

_STUCK_AFTER_S: Final = 60.0
_SHOWN: Final = 40
_BEFORE: Final = 10

Rows = dict[tuple[Any, ...], dict[str, Any]]
"""The rows of a table: columns by key."""


def url_of(file: Path) -> str:
    """Return the URL for `haltline console --database`."""
    return f"sqlite:///{file}"


def reached(file: Path) -> Mapping[Place, int]:
    """Return the next offset to read, by place."""
    engine = open_store(url_of(file))
    try:
        with engine.connect() as connection:
            rows = connection.execute(select(tables.offsets)).all()
    finally:
        engine.dispose()
    return {(topic, partition): after for topic, partition, after in rows}


def places(ends: Mapping[tuple[str, int], int], topics: Topics) -> Mapping[Place, int]:
    """Return the ends by place in a read model."""
    return {(topic.removeprefix(topics.prefix), number): end for (topic, number), end in ends.items()}


def check_read_model(file: Path, bootstrap: str, topics: Topics) -> Check:
    """Check that each table equals that of a read model built from all records at once."""
    rebuilt = open_store(url_of(file.with_name("rebuilt.db")))
    feeder = Feeder(rebuilt, bootstrap, topics=topics, group="chaos-rebuilt")
    feeder.start()
    try:
        before = None
        while not feeder.caught_up.wait(_STUCK_AFTER_S):
            if (now := feeder.positions()) == before:
                raise RuntimeError(
                    f"read model: expected progress within {_STUCK_AFTER_S:.0f} s, got none: {feeder.failure!r}"
                )
            before = now
    finally:
        feeder.close()
    there = open_store(url_of(file))
    try:
        expected, actual = _content(rebuilt), _content(there)
    finally:
        rebuilt.dispose()
        there.dispose()
    differences = [one for table in expected for one in differences_of(table, expected[table], actual[table])]
    found = ", ".join(f"{len(rows):,} {table}" for table, rows in actual.items() if rows)
    return Check("the console's read model is that of the topics", found, tuple(differences))


def differences_of(table: str, expected: Rows, actual: Rows) -> Iterable[Difference]:
    """Yield the differences of one table: rows in only one of the two, and differing columns of the others."""
    for key in expected.keys() | actual.keys():
        about = f"{table} {'/'.join(map(str, key))}"
        if key not in actual:
            yield Difference(about, f"expected, is missing: {expected[key]!r:.300}", f"{table}: {MISSING}")
        elif key not in expected:
            yield Difference(about, f"got, was not expected: {actual[key]!r:.300}", f"{table}: {UNEXPECTED}")
        elif expected[key] != actual[key]:
            columns = [name for name, value in expected[key].items() if value != actual[key][name]]
            text = "; ".join(_pair(name, expected[key][name], actual[key][name]) for name in columns)
            yield Difference(about, text, f"{table}: differ in {', '.join(columns)}")


def _pair(column: str, expected: Any, actual: Any) -> str:
    """Return both values of a column; long texts from shortly before the first differing character."""
    if not (isinstance(expected, str) and isinstance(actual, str)):
        return f"{column} expected {expected!r:.{_SHOWN}} got {actual!r:.{_SHOWN}}"
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(expected, actual, strict=False)))
    begin = max(0, same - _BEFORE)
    shown = [repr(text[begin : begin + _SHOWN]) for text in (expected, actual)]
    where = f" at character {same:,} of {len(expected):,} and {len(actual):,}"
    return f"{column}{where} expected {shown[0]} got {shown[1]}"


def _content(engine: Engine) -> dict[str, Rows]:
    with engine.connect() as connection:
        return {
            table.name: {
                tuple(row[name] for name in _known_by(table)): {name: row[name] for name in row if name != "n"}
                for row in connection.execute(select(table)).mappings()
            }
            for table in tables.metadata.sorted_tables
        }


def _known_by(table: Table) -> tuple[str, ...]:
    """Return the key columns of a row: those of `info`, or the primary key."""
    return KEYS.get(table.name) or tuple(column.name for column in table.primary_key.columns)
