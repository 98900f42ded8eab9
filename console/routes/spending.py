"""`/api/v1/budgets`: budgets for spending, in the contract of Agent Sentinel's SDK."""

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from math import fsum
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy import ColumnElement, Connection, Engine, delete, func, select, update

from haltline.console.context import AgentClient, ContextDep
from haltline.console.http.routing import StrictRoute
from haltline.console.read_model import tables
from haltline.console.read_model.store import put
from haltline.console.sdk_rules import ConsoleRules
from haltline.schemas.payloads import Usd
from haltline.schemas.record import Id

HELD_MS: Final = 15 * 60 * 1000
_S: Final = tables.spending.c
_SPENT: Final = 0


class Call(NamedTuple):
    """A future call."""

    action: str
    cost_usd: float
    session_id: str = ""
    group_id: str = ""


class Spent(NamedTuple):
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


router = APIRouter(prefix="/api/v1/budgets", tags=["agents"], route_class=StrictRoute)


class Reservation(BaseModel):
    """A future call."""

    action_name: Annotated[str, Field(min_length=1, max_length=512, examples=["train_model"])]
    estimated_cost_usd: Annotated[Usd, Field(examples=[2.5])]
    group_id: Id | None = None
    run_id: Id | None = None


class HeldBudget(BaseModel):
    """The amount reserved for it until it is reported, for 15 minutes at most."""

    reservation_id: str
    action_name: str
    amount_usd: float
    held_s: int


class BudgetExceeded(BaseModel):
    """Why the amount is not reserved."""

    detail: Rejection


@router.post(
    "/reserve",
    name="reserve",
    status_code=201,
    response_model=HeldBudget,
    responses={402: {"model": BudgetExceeded, "description": "Too much."}},
)
def reserve_cost(
    here: ContextDep,
    _: AgentClient,
    reservation: Reservation,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
    x_sentinel_run_id: Annotated[str | None, Header(max_length=256)] = None,
) -> HeldBudget | JSONResponse:
    """Reserves the cost of a call, if every budget has room for it. The same `Idempotency-Key` is one reservation."""
    session_id = reservation.run_id or x_sentinel_run_id or ""
    call = Call(reservation.action_name, reservation.estimated_cost_usd, session_id, reservation.group_id or "")
    name, refused = reserve(here.engine, here.settings.rules, call, idempotency_key)
    if refused is not None:
        return JSONResponse(BudgetExceeded(detail=refused).model_dump(), 402)
    return HeldBudget(
        reservation_id=name,
        action_name=reservation.action_name,
        amount_usd=reservation.estimated_cost_usd,
        held_s=HELD_MS // 1000,
    )
