"""The last canary: a session that must be killed."""

from sqlalchemy import Engine, select

from haltline.console.protection import Flight
from haltline.console.read_model import tables
from haltline.schemas.decisions import Level
from haltline.streams.operator.canary import SESSIONS, every_s_of

_DAY_S = 86_400


def last_flight(engine: Engine, now_s: float) -> Flight | None:
    """The last one of the last day; None: there was none."""
    table = tables.sessions.c
    statement = (
        select(table.session_id, table.first_ms, table.hardest, table.goal)
        .where(
            table.session_id.between(SESSIONS, f"{SESSIONS}g"),  # hexadecimal; by the index of ids
            table.session_id.startswith(SESSIONS, autoescape=True),
            table.first_ms > (now_s - _DAY_S) * 1000,
        )
        .order_by(table.first_ms.desc())
        .limit(1)
    )
    with engine.connect() as connection:
        row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    return Flight(
        session_id=row.session_id,
        began_s=row.first_ms / 1000,
        killed=row.hardest >= Level.KILL.rank,
        every_s=every_s_of(row.goal),
    )
