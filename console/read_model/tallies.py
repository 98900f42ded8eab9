"""Counts and sums of interventions by day, updated with every change of a row."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import Connection, bindparam, delete, select

from haltline.console.read_model import tables
from haltline.console.read_model.store import parts, put
from haltline.streams.history.session_rows import summable

MS_PER_DAY: Final = 86_400_000
_I: Final = tables.interventions.c
# Another console on the same database may write the same rows: the second one counts what the first one left.
_COUNTED: Final = (
    select(
        _I.hidden,
        _I.time_ms,
        _I.cost_prevented_usd,
        *(_I[name] for name in tables.TALLIED),
    )
    .where(_I.id.in_(bindparam("ids", expanding=True)))
    .order_by(_I.id)
    .with_for_update()
)


def put_interventions(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of interventions, each of another id, replacing existing ones."""
    for part in parts(rows):
        ids = [row["id"] for row in part]
        before = _counted(connection, ids)
        put(connection, tables.interventions, part)
        _count(connection, before, part)


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
        put(connection, tables.tallies, sorted(changed, key=lambda one: one["key"]), sums=("count", "prevented_usd"))
    if before:
        for keys in parts(sorted(changes)):
            of_these = tables.tallies.c["key"].in_(keys)
            connection.execute(delete(tables.tallies).where(of_these, tables.tallies.c["count"] == 0))
