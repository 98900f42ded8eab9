"""`/api/v1/budgets`: budgets for spending, in the contract of Agent Sentinel's SDK."""

from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from haltline.console.compat import budgets
from haltline.console.context import AgentClient, ContextDep
from haltline.console.http.routing import StrictRoute
from haltline.schemas.payloads import Usd
from haltline.schemas.record import Id

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

    detail: budgets.Rejection


@router.post(
    "/reserve",
    status_code=201,
    response_model=HeldBudget,
    responses={402: {"model": BudgetExceeded, "description": "Too much."}},
)
def reserve(
    here: ContextDep,
    _: AgentClient,
    reservation: Reservation,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
    x_sentinel_run_id: Annotated[str | None, Header(max_length=256)] = None,
) -> HeldBudget | JSONResponse:
    """Reserves the cost of a call, if every budget has room for it. The same `Idempotency-Key` is one reservation."""
    session_id = reservation.run_id or x_sentinel_run_id or ""
    call = budgets.Call(reservation.action_name, reservation.estimated_cost_usd, session_id, reservation.group_id or "")
    name, refused = budgets.reserve(here.engine, here.settings.rules, call, idempotency_key)
    if refused is not None:
        return JSONResponse(BudgetExceeded(detail=refused).model_dump(), 402)
    return HeldBudget(
        reservation_id=name,
        action_name=reservation.action_name,
        amount_usd=reservation.estimated_cost_usd,
        held_s=budgets.HELD_MS // 1000,
    )
