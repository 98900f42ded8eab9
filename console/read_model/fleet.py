"""Queries of the fleet view and the kill page."""

from collections.abc import Sequence
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Connection, Engine, case, func, or_, select

from haltline.console.read_model import tables
from haltline.console.read_model.sql import Sql
from haltline.console.read_model.store import parts
from haltline.interventions.levels.default_levels import ASK
from haltline.schemas.control import ControlState, Stage
from haltline.schemas.decisions import Level
from haltline.schemas.intervention_records import RecordOutcome
from haltline.streams.history import queries

_HOUR_MS: Final = 3600 * 1000
_MINUTE_MS: Final = 60 * 1000
_STEPS_MS: Final = {1: _MINUTE_MS, 24: 15 * _MINUTE_MS, 168: _HOUR_MS}
"""The length of a step by the number of hours shown."""
_LEVELS: Final = {level.rank: level.value for level in Level}
_STANDS: Final = {state: place for place, state in enumerate(("killed", "frozen", "contained", "probation"))}
_I: Final = tables.interventions.c


def overview(engine: Engine, now_ms: int) -> dict[str, Any]:
    """Counts of sessions, of restrictions, of pending approvals, and of trips by hour of the last day."""
    sessions, control = tables.sessions.c, tables.control.c
    kept = Sql(engine)
    needs = queries.needs_person(kept, now_ms)
    waiting = kept.rows("approvals", *queries.waiting(now_ms), order=("expires_ms",), limit=1)
    with engine.connect() as connection:
        ask = connection.execute
        cost = func.coalesce(func.sum(sessions.cost_usd), 0.0)
        seen, events, usd = ask(select(func.count(), func.coalesce(func.sum(sessions.events), 0), cost)).one()
        standing: dict[str, int] = dict(ask(select(control.state, func.count()).group_by(control.state)).all())
        hours = _tripped(connection, now_ms - queries.DAY_MS + 1, (now_ms - _I.time_ms) // _HOUR_MS)
    by_hour = [0] * 24
    for hours_ago, count in hours:
        by_hour[23 - min(23, max(0, hours_ago))] += count
    return {
        "live": kept.count("sessions", *queries.live(now_ms)),
        "sessions": seen,
        "events": int(events),
        "cost_usd": round(float(usd), 6),
        "standing": standing,
        "incidents": kept.count("incidents", queries.OPEN),
        "waiting": kept.count("approvals", *queries.waiting(now_ms)),
        "needs_person": {name: one if isinstance(one, int) else len(one) for name, one in vars(needs).items()},
        "soonest_expiry_ms": waiting[0]["expires_ms"] if waiting else None,
        "trips_24h": sum(by_hour),
        "trips_by_hour": by_hour,
    }


def stops_of(engine: Engine, decision_id: str) -> list[dict[str, Any]]:
    """The sessions whose agents reported that they stopped because of a decision, in the order of the reports."""
    of_decision = (("decision_id", "=", decision_id), ("topic", "=", "feedback"), ("kind", "=", Stage.STOPPED.value))
    found: dict[str, dict[str, Any]] = {}
    for row in Sql(engine).rows("records", *of_decision, order=("time_ms",)):
        decided_ms = orjson.loads(row["body"]).get("decided_at")
        stop = {name: row[name] for name in ("session_id", "agent_id", "time_ms")}
        stop["took_ms"] = None if decided_ms is None else max(0, row["time_ms"] - decided_ms)
        found.setdefault(row["session_id"], stop)
    return list(found.values())


def trips(engine: Engine, now_ms: int, hours: int) -> dict[str, Any]:
    """Trips by level over the last hours: by minute for one hour, by quarter of an hour for a day, else by hour."""
    step_ms = _STEPS_MS[hours]
    first = (now_ms - hours * _HOUR_MS) // step_ms + 1
    steps = now_ms // step_ms - first + 1
    counts: dict[str, list[int]] = {}
    with engine.connect() as connection:
        for step, level, count in _tripped(connection, first * step_ms, _I.time_ms // step_ms, _I.level):
            if step - first < steps:
                counts.setdefault(level, [0] * steps)[step - first] += count
    order = [level.value for level in Level]
    order.insert(order.index(Level.PAUSE.value), ASK)
    levels = sorted(counts, key=lambda name: order.index(name) if name in order else -1)
    return {
        "hours": hours,
        "step_ms": step_ms,
        "from_ms": first * step_ms,
        "levels": [{"level": level, "counts": counts[level]} for level in levels],
        "total": sum(map(sum, counts.values())),
    }


def top(engine: Engine, now_ms: int, hours: int, limit: int) -> dict[str, Any]:
    """The agents and the tools with the most trips of the last hours."""
    most: dict[str, Any] = {"hours": hours}
    with engine.connect() as connection:
        for name, column in (("agents", _I.agent_id), ("tools", _I.action_name)):
            counts = [row for row in _tripped(connection, now_ms - hours * _HOUR_MS, column) if row[0]]
            worst = sorted(counts, key=lambda row: (-row[1], row[0]))
            most[name] = [{"name": found, "trips": count} for found, count in worst[:limit]]
    return most


def _tripped(connection: Connection, first_ms: int, *by: ColumnElement[Any]) -> Sequence[Any]:
    """The columns `by` and a count of trips, of the trips since then."""
    held = (_I.time_ms >= first_ms, _I.hidden.is_(False), _I.outcome != RecordOutcome.WARNED.value)
    return connection.execute(select(*by, func.count()).where(*held).group_by(*by)).all()


def spending(engine: Engine, now_ms: int) -> dict[str, Any]:
    """US dollars in each minute of the last hour: the total, and that of the session that spent the most."""
    first = now_ms // _MINUTE_MS - 59
    spent = tables.spent.c
    by_minute = (
        select(spent.minute, func.sum(spent.cost_usd), func.max(spent.cost_usd), func.count())
        .where(spent.minute >= first, spent.minute < first + 60)
        .group_by(spent.minute)
    )
    total, most, sessions = [0.0] * 60, [0.0] * 60, [0] * 60
    with engine.connect() as connection:
        for minute, usd, largest, count in connection.execute(by_minute):
            total[minute - first], most[minute - first] = round(usd, 6), round(largest, 6)
            sessions[minute - first] = count
    return {"from_ms": first * _MINUTE_MS, "cost_usd": total, "most_usd": most, "sessions": sessions}


def live(engine: Engine, now_ms: int, limit: int) -> dict[str, Any]:
    """Live sessions, the worst first, grouped by the cause of the worst open incident or of their kill."""
    sessions, control, incidents = tables.sessions.c, tables.control.c, tables.incidents.c
    held = (sessions.last_ms > now_ms - queries.LIVE_MS, sessions.ended.is_(False))
    on = (control.scope == "session") & (control.id == sessions.session_id)
    columns = (sessions.session_id, sessions.agent_id, sessions.hardest, sessions.last_ms, control.state)
    # Stopped sessions come first, then those with the highest level.
    stands = case(_STANDS, value=control.state, else_=len(_STANDS))
    order = (stands, sessions.hardest.desc(), sessions.last_ms.desc(), sessions.session_id)
    chosen = select(*columns).outerjoin(tables.control, on).where(*held).order_by(*order).limit(limit)
    with engine.connect() as connection:
        total = connection.execute(select(func.count()).select_from(tables.sessions).where(*held)).scalar_one()
        rows = [dict(row) for row in connection.execute(chosen).mappings()]
        worst: dict[str, Any] = {}
        for some in parts(rows):
            # A kill resolves the incidents of its session, but the cause of the kill is still its cause.
            killed = [row["session_id"] for row in some if row["state"] == ControlState.KILLED.value]
            of_them = (
                select(incidents.incident_id, incidents.cause, incidents.level, incidents.session_id)
                .where(incidents.session_id.in_([row["session_id"] for row in some]))
                .where(or_(incidents.open, incidents.session_id.in_(killed)))
                .order_by(incidents.open, incidents.severity, incidents.level, incidents.last_ms)
            )
            worst |= {one["session_id"]: one for one in connection.execute(of_them).mappings()}
    groups: dict[str | None, dict[str, Any]] = {}
    for row in rows:
        incident = worst.get(row["session_id"])
        cause = None if incident is None else incident["cause"]
        group = groups.setdefault(
            cause, {"cause": cause, "incident_id": incident and incident["incident_id"], "sessions": []}
        )
        group["sessions"].append(row | {"level": _LEVELS[row["hardest"]]})
    # A dictionary keeps the order of each group's worst session; sessions without an incident come last.
    return {"total": total, "groups": sorted(groups.values(), key=lambda group: group["cause"] is None)}
