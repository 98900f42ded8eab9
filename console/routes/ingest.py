"""What agents report: `/api/v1/ingest`, entries of Agent Sentinel's ledger, published as events; and their tools."""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from sqlalchemy import Engine, select

from haltline.console.context import AgentClient, Context, ContextDep, SdkHeaders, Viewer
from haltline.console.http.routing import StrictRoute
from haltline.console.read_model import tables
from haltline.console.read_model.store import put, values
from haltline.console.routes import spending as budgets
from haltline.interventions.agent.producers.cleaning import cleaned
from haltline.interventions.agent.redaction.secrets import redact
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.events import ActionEvent, Amount, Effect, Kind, Outcome, Usage
from haltline.schemas.problems import problem_of
from haltline.schemas.record import EARLIEST_MS, LATEST_MS, Id, JsonObject, Name

router = APIRouter(prefix="/api/v1", tags=["agents"], route_class=StrictRoute)


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


@router.post("/actions/register")
def register(here: ContextDep, _: AgentClient, registration: Registration) -> Registered:
    """Stores an agent's tools; rules that name tools by globs are sent to its SDK with the matching tools."""
    table = tables.tools.c
    now_ms = time.time_ns() // 1_000_000
    rows = {
        tool.name: {"agent_id": registration.agent_id, "name": tool.name, "body": _tool_json(tool), "since_ms": now_ms}
        for tool in registration.actions
    }
    with here.engine.begin() as connection:
        known = set(connection.execute(select(table.name).where(table.agent_id == registration.agent_id)).scalars())
        put(connection, tables.tools, list(rows.values()))
    return Registered(registered=len(rows.keys() - known), updated=len(rows.keys() & known), total=len(rows))


@router.get("/actions")
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


def _tool_json(tool: Tool) -> str:
    # Not orjson: a tool's schema may contain an integer of more than 64 bits.
    return json.dumps(redact(tool.model_dump(mode="json")), default=str)


CLEANING: Final = GuardSettings(mode="local", max_output_chars=8192)
REPLAYED: Final = "replayed"
SOURCE: Final = "agentsentinel"

_OUTCOMES: Final[Mapping[str, Outcome]] = {
    "success": Outcome.OK,
    "completed": Outcome.OK,
    "ok": Outcome.OK,
    "error": Outcome.ERROR,
    "failed": Outcome.ERROR,
    "timeout": Outcome.TIMEOUT,
    "blocked": Outcome.REFUSED,
    "denied": Outcome.REFUSED,
    "rejected": Outcome.REFUSED,
}
_EFFECTS: Final = {"read": Effect.READ, "low": Effect.WRITE, "medium": Effect.MUTATE, "high": Effect.MUTATE}
_TOKENS: Final = (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))
_MAX_KEPT_BYTES: Final = 4096


EXAMPLE: Final[JsonObject] = {
    "id": "0d9be6a8-6ba5-4a9f-b7f3-3f6f9de11c2a",
    "timestamp": "2026-01-01T12:00:00+00:00",
    "action": "delete_asset",
    "cost_usd": 0.01,
    "duration_ms": 12.5,
    "outcome": "success",
    "tags": ["warehouse"],
    "payload": {"inputs": {"asset_id": "stg_sales"}, "outputs": "deleted"},
}


class Payload(BaseModel):
    """The input and the output of a call."""

    model_config = ConfigDict(extra="allow")

    inputs: JsonObject = Field(default_factory=dict)
    outputs: Any = None


class Entry(BaseModel):
    """One line of the ledger."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [EXAMPLE]},
    )

    id: Annotated[str, Field(min_length=1, max_length=200)]
    timestamp: datetime
    action: Annotated[str, Field(min_length=1, max_length=512)]
    cost_usd: Amount = 0.0
    duration_ms: Amount = 0.0
    outcome: Name = "success"
    tags: list[Name] = Field(default_factory=list, max_length=100)
    payload: Payload = Field(default_factory=Payload)
    compliance_metadata: JsonObject | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    task_id: Id | None = None
    mission_id: Id | None = None
    impact: Literal["read", "low", "medium", "high"] | None = None

    @field_validator("timestamp")
    @classmethod
    def _of_this_century(cls, value: datetime) -> datetime:
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        if not EARLIEST_MS <= moment.timestamp() * 1000 < LATEST_MS:
            raise ValueError(f"expected a time from 2000 to 2100, got {value.isoformat()}")
        return moment

    @property
    def time_ms(self) -> int:
        """The end of the call in epoch milliseconds, when the SDK writes its ledger."""
        return round(self.timestamp.timestamp() * 1000)


def events_of(entry: Entry, *, session_id: str, agent_id: str, mission_id: str | None) -> list[ActionEvent]:
    """The events of an entry, in order; none for simulated calls of a replay."""
    if entry.outcome == REPLAYED:
        return []
    inputs = entry.payload.inputs
    who = {
        "session_id": entry.run_id or session_id,
        "agent_id": entry.agent_id or agent_id,
        "mission_id": entry.mission_id or mission_id,
        "source": SOURCE,
    }
    more = {name: value for name, value in _more(entry).items() if value}
    tokens = next((pair for pair in _TOKENS if all(isinstance(inputs.get(name), int) for name in pair)), None)
    if tokens is not None and isinstance(inputs.get("model"), str):
        usage = Usage(cost_usd=entry.cost_usd, **_counts(inputs, tokens))
        fields = {"event_id": entry.id, "kind": Kind.MODEL_TURN, "time": entry.time_ms, "usage": usage}
        return [
            cleaned(ActionEvent(**fields, action=entry.action, duration_ms=entry.duration_ms, **who, **more), CLEANING)
        ]
    outcome = _OUTCOMES.get(entry.outcome, Outcome.UNKNOWN)
    call = {"call_id": entry.id, "action": entry.action, **who}
    text = entry.payload.outputs
    failed = outcome in {Outcome.ERROR, Outcome.TIMEOUT, Outcome.REFUSED}
    proposed = ActionEvent(
        event_id=entry.id,
        kind=Kind.PROPOSED,
        time=max(EARLIEST_MS, entry.time_ms - round(min(entry.duration_ms, 1e12))),
        args=inputs,
        effect=None if entry.impact is None else _EFFECTS[entry.impact],
        **call,
        **more,
    )
    completed = ActionEvent(
        event_id=f"{entry.id}:completed",
        kind=Kind.COMPLETED,
        time=entry.time_ms,
        outcome=outcome,
        error=_text(text) if failed and text is not None else None,
        output_head=None if failed or text is None else _json(text),
        duration_ms=entry.duration_ms,
        usage=Usage(cost_usd=entry.cost_usd) if entry.cost_usd else None,
        **call,
    )
    return [cleaned(event, CLEANING) for event in (proposed, completed)]


def _more(entry: Entry) -> dict[str, Any]:
    compliance = redact(entry.compliance_metadata)
    short = compliance if len(_json(compliance)) <= _MAX_KEPT_BYTES else None
    return {"task_id": entry.task_id, "tags": redact(entry.tags), "compliance": short}


def _counts(inputs: JsonObject, names: tuple[str, str]) -> dict[str, int]:
    most = 2**53
    return {
        field: min(most, max(0, inputs[name]))
        for field, name in zip(("input_tokens", "output_tokens"), names, strict=True)
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    # Not orjson: an output may contain an integer of more than 64 bits.
    return json.dumps(value, default=str, ensure_ascii=False)


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
def ingest(here: ContextDep, who: AgentClient, batch: Batch, sdk: SdkHeaders) -> Accepted:
    """Publishes agents' actions, to which all rules apply. Returns when the broker has confirmed all of them.

    Unreadable entries are refused one by one; the others are published.
    """
    agent_id = batch.agent_id or sdk.agent_id or who.name
    session_id = batch.run_id or sdk.run_id or f"run-of-{agent_id}"
    events: list[ActionEvent] = []
    spent: list[budgets.Spent] = []
    rejected: list[Rejected] = []
    skipped = 0
    for index, given in enumerate(batch.entries):
        try:
            entry = Entry.model_validate(given)
            made = events_of(entry, session_id=session_id[:256], agent_id=agent_id[:256], mission_id=batch.mission_id)
        except (TypeError, ValueError) as error:
            why = f".{problem_of(error)}" if isinstance(error, ValidationError) else f": {error}"
            rejected.append(Rejected(index=index, problem=f"entries[{index}]{why}"[:_SHOWN]))
            continue
        events += made
        skipped += not made
        if made and entry.cost_usd:
            call = budgets.Call(entry.action, entry.cost_usd, made[0].session_id, batch.mission_id or "")
            spent.append(budgets.Spent(f"{made[0].session_id}/{entry.id}"[:256], entry.time_ms, call))
    publish(here, events)
    budgets.spend(here.engine, spent)
    _dead_letter(here, batch, rejected)
    if rejected and len(rejected) == len(batch.entries):
        raise HTTPException(400, "; ".join(one.problem for one in rejected[:5]))
    return Accepted(accepted=len(batch.entries) - len(rejected) - skipped, skipped=skipped, rejected=rejected)


def publish(here: Context, events: list[ActionEvent]) -> None:
    """Publish events on `actions`, keyed by session, and wait for the broker's confirmation. Raises Unreachable."""
    if events:
        records = [(event.session_id.encode(), event.to_json()) for event in events]
        here.sender.send_all(here.settings.topics.actions, records)


def _dead_letter(here: Context, batch: Batch, rejected: list[Rejected]) -> None:
    now_ms = time.time_ns() // 1_000_000
    common = {"reason": BadRecord.INVALID, "topic": "api/v1/ingest", "partition": 0, "timestamp_ms": now_ms}
    letters = [DeadLetter(**common, detail=one.problem, offset=one.index).headers() for one in rejected]
    bodies = [(None, _json(redact(batch.entries[one.index])).encode()) for one in rejected]
    here.sender.send_all(here.settings.topics.dead_letter, bodies, headers=letters)
