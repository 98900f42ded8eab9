"""`POST /api/v1/ingest`: entries of Agent Sentinel's ledger, published as events on `actions`."""

import json
import time
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException
from pydantic import BaseModel, Field, ValidationError

from haltline.console.compat.ledger import Entry, events_of
from haltline.console.context import AgentClient, Context, ContextDep
from haltline.console.http.routing import StrictRoute
from haltline.console.routes import spending as budgets
from haltline.interventions.agent.redaction.secrets import redact
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.events import ActionEvent
from haltline.schemas.problems import problem_of
from haltline.schemas.record import Id, JsonObject

router = APIRouter(prefix="/api/v1", tags=["agents"], route_class=StrictRoute)

MAX_ENTRIES = 1000
_SHOWN = 2000


class Batch(BaseModel):
    """Entries of one run."""

    run_id: Id | None = None
    """The session; an entry's own takes precedence."""
    agent_id: Id | None = None
    mission_id: Id | None = None
    entries: Annotated[list[JsonObject], Field(max_length=MAX_ENTRIES)]


class Rejected(BaseModel):
    """An entry that could not be read; it is kept on the dead letter topic."""

    index: int
    problem: str


class Accepted(BaseModel):
    """The outcome of a batch. The same entry sent again counts once."""

    accepted: int
    skipped: int
    """Simulated entries of a replay, which did not happen."""
    rejected: list[Rejected]


@router.post("/ingest", status_code=202, responses={400: {"description": "No entry of it can be read."}})
def ingest(
    here: ContextDep,
    who: AgentClient,
    batch: Batch,
    x_sentinel_agent_id: Annotated[str | None, Header()] = None,
    x_sentinel_run_id: Annotated[str | None, Header()] = None,
) -> Accepted:
    """Publishes agents' actions, to which all rules apply. Returns when the broker has confirmed all of them.

    Unreadable entries are refused one by one; the others are published.
    """
    session_id = batch.run_id or x_sentinel_run_id or f"run-of-{batch.agent_id or x_sentinel_agent_id or who.name}"
    agent_id = batch.agent_id or x_sentinel_agent_id or who.name
    events: list[ActionEvent] = []
    spent: list[budgets.Spent] = []
    rejected: list[tuple[Rejected, JsonObject]] = []
    skipped = 0
    for index, rejected_body in enumerate(batch.entries):
        try:
            entry = Entry.model_validate(rejected_body)
            made = events_of(entry, session_id=session_id[:256], agent_id=agent_id[:256], mission_id=batch.mission_id)
        except ValidationError as error:
            rejected.append(
                (Rejected(index=index, problem=f"entries[{index}].{problem_of(error)}"[:_SHOWN]), rejected_body)
            )
            continue
        except (TypeError, ValueError) as error:
            rejected.append((Rejected(index=index, problem=f"entries[{index}]: {error}"[:_SHOWN]), rejected_body))
            continue
        events += made
        skipped += not made
        if made and entry.cost_usd:
            call = budgets.Call(entry.action, entry.cost_usd, made[0].session_id, batch.mission_id or "")
            spent.append(budgets.Spent(f"{made[0].session_id}/{entry.id}"[:256], entry.time_ms, call))
    publish(here, events)
    budgets.spend(here.engine, spent)
    _dead_letter(here, rejected)
    if rejected and len(rejected) == len(batch.entries):
        raise HTTPException(400, "; ".join(one.problem for one, _ in rejected[:5]))
    return Accepted(
        accepted=len(batch.entries) - len(rejected) - skipped,
        skipped=skipped,
        rejected=[one for one, _ in rejected],
    )


def publish(here: Context, events: list[ActionEvent]) -> None:
    """Publish events on `actions`, keyed by session, and wait for the broker's confirmation. Raises Unreachable."""
    if events:
        records = [(event.session_id.encode(), event.to_json()) for event in events]
        here.sender.send_all(here.settings.topics.actions, records)


def _dead_letter(here: Context, rejected: list[tuple[Rejected, JsonObject]]) -> None:
    if not rejected:
        return
    letters = [
        DeadLetter(
            reason=BadRecord.INVALID,
            detail=one.problem,
            topic="api/v1/ingest",
            partition=0,
            offset=one.index,
            timestamp_ms=time.time_ns() // 1_000_000,
        )
        for one, _ in rejected
    ]
    bodies = [(None, _encoded(redact(rejected_entry))) for _, rejected_entry in rejected]
    here.sender.send_all(here.settings.topics.dead_letter, bodies, headers=[letter.headers() for letter in letters])


def _encoded(entry: JsonObject) -> bytes:
    return json.dumps(entry, default=str).encode()
