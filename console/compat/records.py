"""Intervention records over HTTP, in both spellings of Agent Sentinel: its SDK's and its platform's."""

import hashlib
import json
import time
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from pydantic_core import from_json

from haltline.console.http.routing import Page
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome, RecordType, RiskLevel
from haltline.schemas.payloads import Usd
from haltline.schemas.record import EpochMs, Id, JsonObject, Name, Text, rfc3339

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
        of_record = {name: value for name, value in vars(self).items() if name != "remediation_payload"}
        return InterventionRecord(
            **of_record
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
                "timestamp": self.timestamp or now_ms,
                "created_at": now_ms,
            }
        )


class Intervention(BaseModel):
    """A record in the platform's API."""

    model_config = ConfigDict(extra="allow")

    id: str
    type: str
    outcome: str
    action_name: str
    description: str
    agent_id: str
    run_id: str
    mission_id: str | None = None
    task_id: str | None = None
    policy_id: str
    policy_name: str
    risk_level: str
    estimated_cost_usd: float
    actual_cost_usd: float
    cost_prevented_usd: float
    attempt: int
    blast_radius: str
    reason: str
    agent_intent: str
    original_inputs: JsonObject | None
    modified_inputs: JsonObject | None
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
