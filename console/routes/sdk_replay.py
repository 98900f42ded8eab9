"""`/api/v1/replay`: recorded sessions for Agent Sentinel's SDK, which replays them at the agent, and the results."""

import json
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

from haltline.console.context import AgentClient, ContextDep, Viewer
from haltline.console.http.routing import StrictRoute
from haltline.console.read_model import tables
from haltline.console.read_model.history import events_of
from haltline.console.read_model.store import values
from haltline.interventions.agent.redaction.secrets import redact
from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind, Replayed
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.record import Id, JsonObject, rfc3339
from haltline.streams.operator.command_factory import make_command

router = APIRouter(prefix="/api/v1/replay", tags=["agents"], route_class=StrictRoute)

MAX_EVENTS = 20_000
_MAX_DIVERGENCES = 20
_OUTCOMES = {Outcome.OK: "success", Outcome.ERROR: "error", Outcome.TIMEOUT: "timeout", Outcome.REFUSED: "blocked"}


class Bundle(BaseModel):
    """The completed calls of a session, in order, in the form of the SDK's `ReplayMode.from_json`.

    Inputs are without secrets and outputs may be truncated, so a call whose arguments held a secret diverges.
    """

    run_id: str
    agent_id: str
    entries: list[dict[str, Any]]
    complete: bool
    """False: the session has more events than one response contains."""


class ReplayReport(Replayed):
    """The result of a replay, in the fields of the SDK."""

    model_config = ConfigDict(extra="ignore")

    status: Annotated[str, Field(min_length=1, max_length=64)]
    divergences: Annotated[list[JsonObject], Field(max_length=100_000)] = Field(default_factory=list)


class StoredReplay(BaseModel):
    """A result, its reporter and its time."""

    run_id: str
    reported_at: str
    by: str
    result: dict[str, Any]


@router.get("/{run_id}/bundle", responses={404: {"description": "Nothing is known of this run."}})
def bundle(here: ContextDep, _: AgentClient, run_id: Id) -> Bundle:
    """A session's calls with their recorded outputs."""
    found = events_of(here.engine, run_id, MAX_EVENTS + 1)
    events = sorted(found[:MAX_EVENTS], key=lambda event: event.time)
    if not events:
        raise HTTPException(404, f"run {run_id}: expected one that is there, got none of this id")
    proposed = {event.call_id: event for event in events if event.kind is Kind.PROPOSED and event.call_id}
    done = [event for event in events if event.kind is Kind.COMPLETED and event.outcome in _OUTCOMES]
    agent_id = next((event.agent_id for event in reversed(events) if event.agent_id != "unknown"), "unknown")
    entries = [_entry(proposed[event.call_id], event) for event in done if event.call_id in proposed]
    return Bundle(run_id=run_id, agent_id=agent_id, entries=entries, complete=len(found) <= MAX_EVENTS)


@router.post("/{run_id}/results", status_code=201)
def report(here: ContextDep, who: AgentClient, run_id: Id, body: ReplayReport) -> StoredReplay:
    """Stores the result of a replay; it appears in the session's story."""
    divergences = [_plain(one) for one in body.divergences[:_MAX_DIVERGENCES]]
    result = Replayed(**body.model_dump() | {"divergences": divergences})
    command = make_command(
        CommandKind.REPLAYED, ScopeKind.SESSION, run_id, by=who.name, reason=f"replay: {body.status}", replayed=result
    )
    here.send(command)
    return _kept(command, result)


@router.get("/{run_id}/results")
def results(here: ContextDep, _: Viewer, run_id: Id) -> list[StoredReplay]:
    """The results of the replays of a session, the latest first; the last 100."""
    table = tables.records.c
    statement = (
        select(table.body)
        .where(table.topic == "commands", table.session_id == run_id, table.kind == CommandKind.REPLAYED.value)
        .order_by(table.time_ms.desc(), table.offset.desc())
        .limit(100)
    )
    commands = [wire.decode(Command, body.encode()) for body in values(here.engine, statement)]
    return [_kept(command, command.replayed) for command in commands if command.replayed is not None]


def _entry(call: ActionEvent, done: ActionEvent) -> dict[str, Any]:
    usage = done.usage
    more = call.model_extra or {}
    return {
        "id": call.call_id,
        "action": call.action,
        "inputs": call.args or {},
        "outputs": done.error if done.outcome is not Outcome.OK else _output(done.output_head),
        "cost_usd": 0.0 if usage is None else usage.cost_usd,
        "duration_ms": done.duration_ms or 0.0,
        "outcome": _OUTCOMES[done.outcome or Outcome.OK],
        "timestamp": rfc3339(done.time),
        "tags": more.get("tags", []),
        "run_id": call.session_id,
    }


def _output(head: str | None) -> Any:
    """The parsed value, if the stored part of the output is complete JSON."""
    try:
        return None if head is None else orjson.loads(head)
    except orjson.JSONDecodeError:
        return head


def _plain(fields: JsonObject) -> JsonObject:
    value = redact(fields)
    whole = json.dumps(value, default=str)
    return json.loads(whole) if len(whole) <= 8192 else {"type": str(fields.get("type"))[:64], "cut": True}


def _kept(command: Command, result: Replayed) -> StoredReplay:
    return StoredReplay(
        run_id=command.id, reported_at=rfc3339(command.time), by=command.by, result=result.model_dump(mode="json")
    )
