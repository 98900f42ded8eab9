"""The read model's offsets: compared with the topics' present bounds, and advanced."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, select

from haltline.console.read_model import tables
from haltline.console.read_model.store import insert_of, put

Place = tuple[str, int]
"""Topic without prefix, partition."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A partition whose offsets do not match. `topic` is without prefix."""

    topic: str
    partition: int
    reached: int
    """The next offset to read."""
    begins: int = 0
    ends: int = 0
    """The partition's first offset, and its end (exclusive)."""

    @property
    def is_gap(self) -> bool:
        """Return whether records were deleted before they were read; else the partition ends before what was read."""
        return self.begins > self.reached

    def text(self, prefix: str = "") -> str:
        """A human-readable description; `prefix` makes the topic's name whole."""
        name = f"{prefix}{self.topic}[{self.partition}]"
        if self.is_gap:
            return (
                f"{name}: expected the records from offset {self.reached} on, got a partition that begins at offset "
                f"{self.begins}: those before it were deleted before they were read"
            )
        return (
            f"{name}: expected a partition that goes on at offset {self.reached}, got one that ends at {self.ends}: "
            "the topic was recreated or cut off. What was read before is still shown"
        )


def mismatches(reached: Mapping[Place, int], held: Mapping[Place, tuple[int, int]]) -> list[Mismatch]:
    """The mismatches of the partitions read before; `held` has the first offset and the end of each existing one."""
    found = [
        Mismatch(topic=topic, partition=partition, reached=after, begins=begins, ends=ends)
        for (topic, partition), after in sorted(reached.items())
        for begins, ends in (held.get((topic, partition), (0, 0)),)
    ]
    return [one for one in found if one.reached > one.ends or one.is_gap]


def put_gaps(connection: Connection, gaps: Iterable[Mismatch]) -> None:
    """Store that these records are lost, and continue at each partition's first offset."""
    gaps = list(gaps)
    rows = [{"topic": one.topic, "partition": one.partition} for one in gaps]
    missed: list[dict[str, Any]] = [
        row | {"first": one.reached, "after": one.begins} for row, one in zip(rows, gaps, strict=True)
    ]
    put(connection, tables.gaps, missed)
    put(connection, tables.offsets, [row | {"next": one.begins} for row, one in zip(rows, gaps, strict=True)])


def gaps_of(connection: Connection) -> list[Mismatch]:
    """All recorded gaps, in order."""
    gaps = tables.gaps.c
    rows = connection.execute(select(tables.gaps).order_by(gaps.topic, gaps.partition, gaps.first))
    return [
        Mismatch(topic=row.topic, partition=row.partition, reached=row.first, begins=row.after, ends=row.after)
        for row in rows
    ]


@cache
def advanced(dialect: str) -> Any:
    """A statement that advances a partition's offset if it is not beyond `first` yet."""
    table = tables.offsets
    insert = insert_of(dialect, table).values({name: bindparam(name) for name in ("topic", "partition", "next")})
    return insert.on_conflict_do_update(
        index_elements=[table.c.topic, table.c.partition],
        set_={"next": insert.excluded.next},
        where=table.c.next <= bindparam("first"),
    )
