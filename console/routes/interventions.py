"""`/api/v1/interventions`: prevented or changed calls, in the contract of Agent Sentinel's platform."""

import hashlib
import json
import time
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Query, Response
from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from pydantic_core import from_json

from haltline.console.context import AgentClient, ContextDep, PolicyAdmin, SdkHeaders, Viewer
from haltline.console.http.routing import NO_SUCH_ID, Limit, Page, Skip, StrictRoute, answer
from haltline.console.read_model import intervention_queries
from haltline.console.read_model.intervention_queries import InterventionFilter
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.intervention_records import (
    InterventionFields,
    InterventionRecord,
    RecordOutcome,
    RecordType,
    RiskLevel,
)
from haltline.schemas.payloads import Usd
from haltline.schemas.record import EpochMs, Id, JsonObject, Name, Text, rfc3339
from haltline.streams.operator.command_factory import make_command

ORGANIZATION = "haltline"
"""The only organization of a console."""

_PREVENTED = frozenset({RecordOutcome.BLOCKED, RecordOutcome.REJECTED_AFTER_REVIEW})


def _either(platform: str, sdk: str) -> Any:
    return AliasChoices(platform, sdk)


class NewIntervention(BaseModel):
    """A record of another system's guard; the SDK's field names are accepted as well."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [
                {
                    "type": "hard_block",
                    "outcome": "blocked",
                    "action_name": "dangerous_operation",
                    "description": "Attempted dangerous operation",
                    "agent_id": "my-agent",
                    "run_id": "run_123",
                    "policy_id": "policy_456",
                    "risk_level": "high",
                    "estimated_cost_usd": 10.0,
                    "blast_radius": "Could have corrupted user data",
                    "reason": "Action blocked by safety policy",
                    "original_inputs": {"target": "production"},
                }
            ]
        },
    )

    type: Annotated[RecordType, Field(validation_alias=_either("type", "intervention_type"))]
    outcome: RecordOutcome
    action_name: Annotated[Name, Field(min_length=1)]
    description: Annotated[Text | None, Field(validation_alias=_either("description", "action_description"))] = None
    agent_id: Name | None = None
    run_id: Id | None = None
    mission_id: Id | None = None
    task_id: Id | None = None
    policy_id: Name | None = None
    policy_name: Name | None = None
    risk_level: RiskLevel = RiskLevel.MEDIUM
    estimated_cost_usd: Annotated[Usd, Field(validation_alias=_either("estimated_cost_usd", "estimated_cost"))] = 0.0
    actual_cost_usd: Annotated[Usd, Field(validation_alias=_either("actual_cost_usd", "actual_cost"))] = 0.0
    blast_radius: Text | JsonObject | None = None
    reason: Text | None = None
    agent_intent: Text | None = None
    original_inputs: JsonObject | None = None
    modified_inputs: JsonObject | None = None
    remediation_payload: JsonObject | None = None
    context: JsonObject | None = None
    timestamp: EpochMs | None = None

    def record(self, *, agent_id: str | None, run_id: str | None) -> InterventionRecord:
        """The stored record; `agent_id` and `run_id` come from the request's headers, for a record that lacks them.

        The same record sent twice has the same id, and so counts once.
        """
        now_ms = time.time_ns() // 1_000_000
        fields = self.model_dump(mode="json", exclude_none=True)
        run = self.run_id or run_id or "unknown"
        # Not orjson: the arguments may contain an integer of more than 64 bits.
        name = json.dumps([fields, run, None if self.timestamp is not None else now_ms], sort_keys=True)
        radius = self.blast_radius or ""
        context = dict(self.context or {})
        if self.remediation_payload is not None:
            context["remediation_payload"] = self.remediation_payload
        return InterventionRecord(
            **vars(self)
            | {
                "id": f"int_{hashlib.sha256(name.encode()).hexdigest()[:32]}",
                "description": self.description or self.action_name,
                "agent_id": self.agent_id or agent_id or "unknown",
                "run_id": run,
                "policy_id": self.policy_id or self.policy_name or "",
                "policy_name": self.policy_name or self.policy_id or "",
                "cost_prevented_usd": self.estimated_cost_usd if self.outcome in _PREVENTED else 0.0,
                "blast_radius": radius if isinstance(radius, str) else json.dumps(radius)[:16_384],
                "reason": self.reason or "",
                "agent_intent": self.agent_intent or "",
                "context": context,
                "remediation_payload": None,  # in the context: another guard's has other fields
                "timestamp": self.timestamp or now_ms,
                "created_at": now_ms,
            }
        )


class Intervention(InterventionFields):
    """A record in the platform's API."""

    remediation_payload: JsonObject | None
    context: JsonObject
    timestamp: str
    organization_id: str
    created_at: str


_ABSENT: Final = dict.fromkeys(("mission_id", "task_id", "original_inputs", "modified_inputs", "remediation_payload"))
"""Fields that are left out unless known."""


class InterventionList(Page):
    """A page of records, the newest first."""

    interventions: list[Intervention]
    more: bool = False
    """A text search found more than `total`; narrow it to reach the oldest."""


class Statistics(BaseModel):
    """Counts and sums of records."""

    total_interventions: int
    by_type: dict[str, int]
    by_outcome: dict[str, int]
    cost_prevented_usd: float
    high_risk_blocks: int
    time_series: list[dict[str, Any]]
    """By day in UTC."""
    top_blocked_actions: list[dict[str, Any]]
    top_triggering_policies: list[dict[str, Any]]


def shown(body: str) -> Intervention:
    """The response for a row's record."""
    return Intervention.model_validate(fields_of(body))


def fields_of(body: str) -> JsonObject:
    """The same as a dict without validation, for a page of many."""
    fields = from_json(body)
    made = fields.get("created_at") or fields["timestamp"]
    return {
        **_ABSENT,
        **fields,
        "timestamp": rfc3339(fields["timestamp"]),
        "created_at": rfc3339(made),
        "organization_id": ORGANIZATION,
    }


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
def create(here: ContextDep, who: AgentClient, new: NewIntervention, sdk: SdkHeaders) -> Response:
    """Stores a record of another system's guard. The same record sent again counts once."""
    record = new.record(agent_id=sdk.agent_id, run_id=sdk.run_id)
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
