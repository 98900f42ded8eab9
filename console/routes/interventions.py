"""`/api/v1/interventions`: prevented or changed calls, in the contract of Agent Sentinel's platform."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Response
from pydantic import BaseModel

from haltline.console.compat.records import (
    Intervention,
    InterventionList,
    NewIntervention,
    Statistics,
    fields_of,
    shown,
)
from haltline.console.context import AgentClient, ContextDep, PolicyAdmin, Viewer
from haltline.console.http.routing import NO_SUCH_ID, Limit, Skip, StrictRoute, answer
from haltline.console.read_model import intervention_queries
from haltline.console.read_model.intervention_queries import InterventionFilter
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.streams.operator.command_factory import make_command

router = APIRouter(prefix="/api/v1/interventions", tags=["interventions"], route_class=StrictRoute)


Filters = Annotated[InterventionFilter, Depends()]


@router.get("", response_model=InterventionList)
@router.get("/", include_in_schema=False)
def list_interventions(
    here: ContextDep,
    _: Viewer,
    filters: Filters,
    skip: Skip = 0,
    limit: Limit = 50,
) -> Response:
    """The interventions that match every filter, the newest first."""
    page = intervention_queries.page(here.engine, filters, skip, limit)
    found = [fields_of(body) for body in page.bodies]
    return answer({"interventions": found, "total": page.total, "more": page.more, "skip": skip, "limit": limit})


@router.get("/stats", response_model=Statistics)
def statistics(here: ContextDep, _: Viewer, filters: Filters) -> Response:
    """Counts and sums of the interventions that match every filter. A repeated call counts its cost once."""
    return answer(intervention_queries.statistics(here.engine, filters))


class Day(BaseModel):
    """The interventions of a day in UTC."""

    date: str
    levels: dict[str, int]
    """Counts by level; empty name: records of other guards, which have no levels."""


class OfAgent(BaseModel):
    """The interventions of an agent."""

    agent_id: str
    count: int
    levels: dict[str, int]


class Breakdown(BaseModel):
    """Counts for charts."""

    by_day: list[Day]
    """Days with interventions."""
    by_agent: list[OfAgent]
    """Those with the most interventions first; 20 at most."""
    agents: int
    """The number of all agents."""


@router.get("/breakdown")
def breakdown(here: ContextDep, _: Viewer, filters: Filters) -> Breakdown:
    """Counts by day and level, and by agent and level, of the interventions that match every filter."""
    return Breakdown(**intervention_queries.breakdown(here.engine, filters))


@router.get("/{record_id}", responses=NO_SUCH_ID)
def intervention(here: ContextDep, _: Viewer, record_id: str) -> Intervention:
    """One intervention."""
    body = intervention_queries.one(here.engine, record_id)
    if body is None:
        raise HTTPException(404, f"intervention {record_id}: expected one that is there, got none of this id")
    return shown(body)


@router.post("", status_code=201, response_model=Intervention)
@router.post("/", status_code=201, include_in_schema=False)
def create(
    here: ContextDep,
    who: AgentClient,
    new: NewIntervention,
    x_sentinel_agent_id: Annotated[str | None, Header()] = None,
    x_sentinel_run_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Stores a record of another system's guard. The same record sent again counts once."""
    record = new.record(agent_id=x_sentinel_agent_id, run_id=x_sentinel_run_id)
    here.send(
        make_command(
            CommandKind.RECORD, ScopeKind.SESSION, record.run_id, by=who.name, reason="sent by its guard", record=record
        )
    )
    return answer(fields_of(record.to_json().decode()), 201)


@router.delete("/{record_id}", status_code=204, responses=NO_SUCH_ID)
def hide(
    here: ContextDep,
    who: PolicyAdmin,
    record_id: str,
    reason: Annotated[str, Query(min_length=1, max_length=4096)] = "deleted by API",
) -> Response:
    """Hides a record from lists and sums. It stays in the audit, with the operator and the reason."""
    found = intervention(here, who, record_id)
    here.send(
        make_command(CommandKind.HIDE, ScopeKind.SESSION, found.run_id, by=who.name, reason=reason, record_id=record_id)
    )
    return Response(status_code=204)
