"""The rows of a history by table, in memory; a database has the same rows behind the same four methods."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import eq, ge, gt, le
from typing import Any, Final, Protocol

Row = dict[str, Any]
Where = tuple[str, str, Any]
"""A condition: a column, one of = > >= <= in none begins, and a value."""

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "records": ("topic", "partition", "offset"),
    "sessions": ("session_id",),
    "interventions": ("id",),
    "approvals": ("request_id",),
    "incidents": ("incident_id",),
    "control": ("key",),
    "names": ("kind", "name"),
    "spent": ("minute", "session_id"),
}
"""The columns by which each table knows its rows."""
COMPARES: Final[Mapping[str, Callable[[Any, Any], Any]]] = {"=": eq, ">": gt, ">=": ge, "<=": le}
_HOLDS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    **COMPARES,
    "in": lambda value, some: value in some,
    "none": lambda value, _: value is None,
    "begins": lambda value, text: value is not None and value.startswith(text),
}
MOST: Final = 200_000
"""The most rows of a table in memory."""


class Kept(Protocol):
    """Where the rows are kept."""

    def rows(
        self, table: str, *where: Where, order: Sequence[str] = (), skip: int = 0, limit: int | None = None
    ) -> list[Mapping[str, Any]]:
        """Return the rows that meet all conditions; `order` names columns, with - in front the highest first."""

    def values(self, table: str, column: str, *where: Where, limit: int) -> list[Any]:
        """Return some of the different values of a column in these rows."""

    def count(self, table: str, *where: Where) -> int:
        """Return the number of these rows."""

    def put(self, table: str, rows: Sequence[Row], *, replace: bool = True, sums: Sequence[str] = ()) -> None:
        """Write rows of equal columns by their key. Of an existing one the given columns are replaced or kept.

        The columns in `sums` are added to those of the existing row.
        """

    def remove(self, table: str, key: str) -> None:
        """Remove the row with this key of one column, if there is one."""


class Memory:
    """Rows in memory, `most` of each table: of more, those that were written least recently are left out."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._tables: dict[str, dict[tuple[Any, ...], Row]] = {table: {} for table in KEYS}
        self._keys: dict[tuple[str, str], defaultdict[Any, dict[tuple[Any, ...], None]]] = {}
        """By table and column that was asked for: the keys of each value."""
        self.left_out: Counter[str] = Counter()
        """How many rows of each table were left out."""

    def rows(
        self, table: str, *where: Where, order: Sequence[str] = (), skip: int = 0, limit: int | None = None
    ) -> list[Mapping[str, Any]]:
        """Return the rows that meet all conditions, as `Kept` says."""
        found: list[Mapping[str, Any]] = [
            row for row in self._near(table, where) if all(_HOLDS[op](row[name], value) for name, op, value in where)
        ]
        for name in reversed(order):
            found.sort(key=lambda row: row[name.lstrip("-")], reverse=name.startswith("-"))
        return found[skip : None if limit is None else skip + limit]

    def values(self, table: str, column: str, *where: Where, limit: int) -> list[Any]:
        """Return some of the different values of a column in these rows."""
        return list({row[column]: None for row in self.rows(table, *where)})[:limit]

    def count(self, table: str, *where: Where) -> int:
        """Return the number of these rows."""
        return len(self.rows(table, *where))

    def put(self, table: str, rows: Sequence[Row], *, replace: bool = True, sums: Sequence[str] = ()) -> None:
        """Write rows by their key, as `Kept` says."""
        kept = self._tables[table]
        for row in rows:
            key = tuple(row[name] for name in KEYS[table])
            before = kept.get(key)
            if before is not None and not replace:
                continue
            self._forget(table, key)
            kept[key] = {**(before or {}), **row, **{name: row[name] + before[name] for name in sums if before}}
            for (of, name), keys in self._keys.items():
                if of == table:
                    keys[kept[key].get(name)][key] = None
            if len(kept) > self._most:
                self._forget(table, next(iter(kept)))
                self.left_out[table] += 1

    def remove(self, table: str, key: str) -> None:
        """Remove the row with this key, if there is one."""
        self._forget(table, (key,))

    def _near(self, table: str, where: Sequence[Where]) -> Iterator[Row]:
        """Yield the rows of the first condition that names values, or all."""
        kept = self._tables[table]
        named = next(((name, (value,) if op == "=" else value) for name, op, value in where if op in {"=", "in"}), None)
        if named is None:
            yield from list(kept.values())
            return
        name, values = named
        if (table, name) not in self._keys:
            index = self._keys[table, name] = defaultdict(dict)
            for key, row in kept.items():
                index[row.get(name)][key] = None
        index = self._keys[table, name]
        yield from [kept[key] for value in values for key in index.get(value, ())]

    def _forget(self, table: str, key: tuple[Any, ...]) -> None:
        row = self._tables[table].pop(key, None)
        if row is not None:
            for (of, name), keys in self._keys.items():
                if of == table:
                    del keys[row.get(name)][key]
