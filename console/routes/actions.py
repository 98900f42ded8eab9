"""`/api/v1/actions`: the tools that agents have registered."""

import json
import time
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine, select

from haltline.console.context import AgentClient, ContextDep, Viewer
from haltline.console.http.routing import StrictRoute
from haltline.console.read_model import tables
from haltline.console.read_model.store import put, values
from haltline.interventions.agent.redaction.secrets import redact
from haltline.schemas.record import Id, JsonObject

router = APIRouter(prefix="/api/v1/actions", tags=["agents"], route_class=StrictRoute)


class Tool(BaseModel):
    """One tool; further fields are kept."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[str, Field(min_length=1, max_length=512)]


class Registration(BaseModel):
    """The tools of an agent."""

    agent_id: Id
    sdk_version: Annotated[str, Field(max_length=64)] = ""
    actions: Annotated[list[Tool], Field(max_length=1000)]


class Registered(BaseModel):
    """The outcome."""

    status: str = "success"
    registered: int
    updated: int
    total: int


@router.post("/register")
def register(here: ContextDep, _: AgentClient, registration: Registration) -> Registered:
    """Stores an agent's tools; rules that name tools by globs are sent to its SDK with the matching tools."""
    table = tables.tools.c
    now_ms = time.time_ns() // 1_000_000
    rows = {
        tool.name: {"agent_id": registration.agent_id, "name": tool.name, "body": _json(tool), "since_ms": now_ms}
        for tool in registration.actions
    }
    with here.engine.begin() as connection:
        known = set(connection.execute(select(table.name).where(table.agent_id == registration.agent_id)).scalars())
        put(connection, tables.tools, list(rows.values()))
    return Registered(registered=len(rows.keys() - known), updated=len(rows.keys() & known), total=len(rows))


@router.get("")
def tools(here: ContextDep, _: Viewer, agent_id: str | None = None) -> list[JsonObject]:
    """The tools, by agent and name; the first 10,000."""
    table = tables.tools.c
    statement = select(table.agent_id, table.body).order_by(table.agent_id, table.name).limit(10_000)
    if agent_id is not None:
        statement = statement.where(table.agent_id == agent_id)
    with here.engine.connect() as connection:
        return [json.loads(body) | {"agent_id": agent} for agent, body in connection.execute(statement).all()]


def known(engine: Engine) -> frozenset[str]:
    """The names of all tools."""
    return frozenset(values(engine, select(tables.tools.c.name).distinct()))


def _json(tool: Tool) -> str:
    # Not orjson: a tool's schema may contain an integer of more than 64 bits.
    return json.dumps(redact(tool.model_dump(mode="json")), default=str)
