"""Budgets in the store: amounts spent, and reservations for future calls. Checks are serialized across processes.

A reservation is held until ingest receives its call, whose actual cost replaces it, or for 15 minutes.
"""

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from math import fsum
from typing import Final

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, select, update

from haltline.console.read_model import tables
from haltline.console.read_model.store import put
from haltline.console.sdk_rules import ConsoleRules

HELD_MS: Final = 15 * 60 * 1000
_S: Final = tables.spending.c
_SPENT: Final = 0


@dataclass(frozen=True)
class Call:
    """A future call."""

    action: str
    cost_usd: float
    session_id: str = ""
    group_id: str = ""


@dataclass(frozen=True)
class Spent:
    """A completed call."""

    id: str
    time_ms: int
    call: Call


@dataclass(frozen=True)
class Rejection:
    """The budget that a call would exceed."""

    budget_type: str
    """`organization_monthly`, `group`, `session`, `run` or `action`."""
    spent: float
    """The total with this call."""
    limit: float


def reserve(engine: Engine, rules: ConsoleRules, call: Call, once: str | None = None) -> tuple[str, Rejection | None]:
    """Reserve the call's cost if every budget has room; the same `once` twice is one reservation.

    Returns the reservation's id, and None if it succeeded.
    """
    now_ms = time.time_ns() // 1_000_000
    hold = f"hold_{once or uuid.uuid4().hex}"[:256]
    with engine.begin() as connection:
        _in_turn(connection)
        if once is not None and connection.execute(select(_S.id).where(_S.id == hold)).first() is not None:
            return hold, None
        counts = (_S.until_ms == _SPENT) | (_S.until_ms > now_ms)
        for kind, limit, of, glob in _budgets(rules, call, now_ms):
            costs = connection.execute(
                select(_S.action, func.sum(_S.cost_usd)).where(of, counts).group_by(_S.action)
            ).all()
            spent = fsum(cost for action, cost in costs if fnmatchcase(action, glob))
            if round(spent + call.cost_usd, 9) > limit:
                return hold, Rejection(kind, round(spent + call.cost_usd, 9), limit)
        put(connection, tables.spending, [_row(hold, now_ms, call, now_ms + HELD_MS)], replace=False)
    return hold, None


def spend(engine: Engine, calls: Sequence[Spent]) -> None:
    """Count completed calls, each id once; each replaces the oldest reservation for such a call."""
    if not calls:
        return
    with engine.begin() as connection:
        _in_turn(connection)
        now_ms = time.time_ns() // 1_000_000
        connection.execute(delete(tables.spending).where(_S.until_ms != _SPENT, _S.until_ms <= now_ms))
        for one in calls:
            row = _row(one.id, one.time_ms, one.call, _SPENT)
            if connection.execute(select(_S.id).where(_S.id == one.id)).first() is None:
                held = (_S.until_ms != _SPENT, _S.action == one.call.action)
                same = _S.session_id.in_(("", one.call.session_id))
                settles = connection.execute(
                    select(_S.id, _S.group_id).where(*held, same).order_by(_S.session_id.desc(), _S.until_ms).limit(1)
                ).first()
                if settles is not None:
                    connection.execute(delete(tables.spending).where(_S.id == settles[0]))
                    row["group_id"] = row["group_id"] or settles[1]
                put(connection, tables.spending, [row], replace=False)


def _in_turn(connection: Connection) -> None:
    """Serialize transactions: the row is locked until the end of this one."""
    connection.execute(update(tables.turns).values(count=tables.turns.c.count + 1))


def _budgets(rules: ConsoleRules, call: Call, now_ms: int) -> Iterator[tuple[str, float, ColumnElement[bool], str]]:
    """For each budget of the call: its kind, its limit, the condition of its spending, and the actions."""
    month = _S.time_ms >= _month_ms(now_ms)
    if rules.budgets.monthly_usd is not None:
        yield "organization_monthly", rules.budgets.monthly_usd, month, "*"
    for glob, limit in rules.budgets.groups.items() if call.group_id else ():
        if fnmatchcase(call.group_id, glob):
            yield "group", limit, month & (_S.group_id == call.group_id), "*"
    if not call.session_id:
        return
    of_run = _S.session_id == call.session_id
    for kind, of_all in (("session", rules.rules.session_budget), ("run", rules.rules.run_budget)):
        if of_all is not None:
            yield kind, of_all, of_run, "*"
    for glob, limit in rules.rules.action_budgets.items():
        if fnmatchcase(call.action, glob):
            yield "action", limit, of_run, glob


def _row(name: str, time_ms: int, call: Call, until_ms: int) -> dict[str, str | int | float]:
    return {
        "id": name,
        "time_ms": time_ms,
        "session_id": call.session_id,
        "group_id": call.group_id,
        "action": call.action,
        "cost_usd": call.cost_usd,
        "until_ms": until_ms,
    }


def _month_ms(now_ms: int) -> int:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return int(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp() * 1000)
