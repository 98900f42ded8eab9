"""Counts and sums of interventions by day, updated with every change of a row."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Table, bindparam, delete, select, update

from haltline.console.read_model import tables
from haltline.console.read_model.store import insert_of, parts, put

MS_PER_DAY: Final = 86_400_000
_I: Final = tables.interventions.c
_PER_USD: Final = 2.0**30
# Another console on the same database may write the same rows: the second one counts what the first one left.
_COUNTED: Final = (
    select(
        _I.session_id,
        _I.hidden,
        _I.time_ms,
        _I.cost_prevented_usd,
        *(_I[name] for name in tables.TALLIED),
    )
    .where(_I.id.in_(bindparam("ids", expanding=True)))
    .order_by(_I.id)
    .with_for_update()
)


def summable(usd: float) -> float:
    """The amount rounded to about a billionth of a US dollar.

    Sums of such amounts, up to 8 million dollars, are exact, in any order of additions and subtractions.
    """
    return round(usd * _PER_USD) / _PER_USD


def put_interventions(
    connection: Connection, rows: Sequence[Mapping[str, Any]], hidden: Collection[str] = ()
) -> set[str]:
    """Write rows of interventions, replacing existing ones. Hidden rows stay hidden; the ids in `hidden` become it.

    Returns the sessions of the new rows and of the replaced ones.
    """
    rows = list({row["id"]: row for row in rows}.values())
    sessions: set[str] = set()
    for part in parts(rows):
        ids = [row["id"] for row in part]
        before = _counted(connection, ids)
        put(connection, tables.interventions, part)
        if to_hide := sorted({*ids} & {*hidden}):
            connection.execute(update(tables.interventions).where(_I.id.in_(to_hide)).values(hidden=True))
        after = _counted(connection, ids)
        _count(connection, before, after)
        sessions.update(row["session_id"] for row in (*before, *after))
    return sessions


def hide(connection: Connection, record_id: str) -> None:
    """Subtract an intervention from all counts."""
    before = _counted(connection, [record_id])
    connection.execute(update(tables.interventions).where(_I.id == record_id).values(hidden=True))
    _count(connection, before, [])


def _counted(connection: Connection, ids: Sequence[str]) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(_COUNTED, {"ids": ids}).mappings()]


def _count(connection: Connection, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> None:
    before, after = ([row for row in rows if not row["hidden"]] for rows in (before, after))
    changes: dict[str, dict[str, Any]] = {}
    for by, rows in ((-1, before), (1, after)):
        for row in rows:
            of = {"day": row["time_ms"] // MS_PER_DAY, **{name: row[name] for name in tables.TALLIED}}
            key = hashlib.sha256(orjson.dumps(list(of.values()))).hexdigest()
            change = changes.setdefault(key, {"key": key, **of, "count": 0, "prevented_usd": 0.0})
            change["count"] += by
            change["prevented_usd"] += by * summable(row["cost_prevented_usd"])
    if changed := [one for one in changes.values() if one["count"] or one["prevented_usd"]]:
        added = _added(connection.dialect.name, tables.tallies, ("count", "prevented_usd"))
        connection.execute(added, sorted(changed, key=lambda one: one["key"]))
    if before:
        for keys in parts(sorted(changes)):
            of_these = tables.tallies.c["key"].in_(keys)
            connection.execute(delete(tables.tallies).where(of_these, tables.tallies.c["count"] == 0))


def add_spent(connection: Connection, amounts: Mapping[tuple[int, str], float]) -> None:
    """Add US dollars that are `summable`, by minute since 1970 and session."""
    rows = [{"minute": minute, "session_id": of, "cost_usd": usd} for (minute, of), usd in sorted(amounts.items())]
    if rows:
        connection.execute(_added(connection.dialect.name, tables.spent, ("cost_usd",)), rows)


@cache
def _added(dialect: str, table: Table, names: tuple[str, ...]) -> Any:
    insert = insert_of(dialect, table)
    sums = {name: table.c[name] + insert.excluded[name] for name in names}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=sums)
