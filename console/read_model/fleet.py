"""What the fleet view and the kill page ask of the read model."""

from typing import Any, Final

import orjson
from sqlalchemy import Engine, func, select

from haltline.console.read_model import tables
from haltline.schemas.control import Stage
from haltline.schemas.intervention_records import RecordOutcome

LIVE_MS: Final = 15 * 60 * 1000
"""A session that was active in this time, and has not ended, counts as live."""
_DAY_MS: Final = 24 * 3600 * 1000
_HOUR_MS: Final = 3600 * 1000
_OPEN: Final = ("pending", "info_requested")


def overview(engine: Engine, now_ms: int) -> dict[str, Any]:
    """Counts of sessions, of what is stopped, of what waits, and of trips by hour of the last day."""
    sessions, control, approvals, trips = (
        table.c for table in (tables.sessions, tables.control, tables.approvals, tables.interventions)
    )
    tripped = (trips.hidden.is_(False), trips.outcome != RecordOutcome.WARNED.value, trips.time_ms > now_ms - _DAY_MS)
    with engine.connect() as connection:
        ask = connection.execute
        live = ask(
            select(func.count()).where(sessions.last_ms > now_ms - LIVE_MS, sessions.ended.is_(False))
        ).scalar_one()
        seen, events, cost = ask(
            select(
                func.count(),
                func.coalesce(func.sum(sessions.events), 0),
                func.coalesce(func.sum(sessions.cost_usd), 0.0),
            )
        ).one()
        standing: dict[str, int] = dict(ask(select(control.state, func.count()).group_by(control.state)).all())
        incidents = ask(select(func.count()).where(tables.incidents.c.open)).scalar_one()
        waiting, soonest = ask(
            select(func.count(), func.min(approvals.expires_ms)).where(
                approvals.state.in_(_OPEN), approvals.expires_ms > now_ms
            )
        ).one()
        ago = (now_ms - trips.time_ms) // _HOUR_MS
        hours = ask(select(ago, func.count()).where(*tripped).group_by(ago)).all()
    by_hour = [0] * 24
    for hours_ago, count in hours:
        by_hour[23 - min(23, max(0, hours_ago))] += count
    return {
        "live": live,
        "sessions": seen,
        "events": int(events),
        "cost_usd": round(float(cost), 6),
        "standing": standing,
        "incidents": incidents,
        "waiting": waiting,
        "soonest_expiry_ms": soonest,
        "trips_24h": sum(by_hour),
        "trips_by_hour": by_hour,
    }


def stops_of(engine: Engine, decision_id: str) -> list[dict[str, Any]]:
    """The sessions whose agent's side says that it stopped because of a decision, in the order of their saying so."""
    table = tables.records.c
    statement = (
        select(table.session_id, table.agent_id, table.time_ms, table.body)
        .where(table.topic == "feedback", table.decision_id == decision_id, table.kind == Stage.STOPPED.value)
        .order_by(table.time_ms)
    )
    found: dict[str, dict[str, Any]] = {}
    with engine.connect() as connection:
        for session_id, agent_id, time_ms, body in connection.execute(statement):
            decided_ms = orjson.loads(body).get("decided_at")
            took_ms = None if decided_ms is None else max(0, time_ms - decided_ms)
            found.setdefault(
                session_id, {"session_id": session_id, "agent_id": agent_id, "time_ms": time_ms, "took_ms": took_ms}
            )
    return list(found.values())
