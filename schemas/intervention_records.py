"""Intervention records: prevented or changed calls, in the fields of Agent Sentinel's interventions API."""

from enum import StrEnum

from pydantic import Field

from haltline.schemas.payloads import Remediation, Usd
from haltline.schemas.record import EpochMs, Id, JsonObject, Name, Record, Text


class RecordType(StrEnum):
    """The kind of an intervention."""

    HARD_BLOCK = "hard_block"
    APPROVAL_REQUIRED = "approval_required"
    RATE_LIMITED = "rate_limited"
    BUDGET_EXCEEDED = "budget_exceeded"
    DOWNGRADE = "downgrade"
    """The call ran with less: other arguments, or from an earlier state."""
    WARNING = "warning"
    BUDGET_WARNING = "budget_warning"
    MISSING_EVIDENCE = "missing_evidence"
    PII_BLOCKED = "pii_blocked"
    CONTENT_BLOCKED = "content_blocked"
    LOOP_DETECTED = "loop_detected"
    IDEMPOTENT_REPLAY = "idempotent_replay"
    """A call that has already run is not run again."""


class RecordOutcome(StrEnum):
    """The result of the call."""

    BLOCKED = "blocked"
    ESCALATED = "escalated"
    APPROVED_AFTER_REVIEW = "approved_after_review"
    REJECTED_AFTER_REVIEW = "rejected_after_review"
    MODIFIED = "modified"
    WARNED = "warned"


class RiskLevel(StrEnum):
    """The severity of the prevented harm."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    MINIMAL = "minimal"


class InterventionFields(Record):
    """The fields that a record on a topic and in the platform's API have in common."""

    id: Id
    type: RecordType
    outcome: RecordOutcome
    action_name: Name
    description: Text
    agent_id: Name
    run_id: Id
    """The session."""
    mission_id: Id | None = None
    task_id: Id | None = None
    """The call."""
    policy_id: Name
    """The rule."""
    policy_name: Name
    risk_level: RiskLevel
    estimated_cost_usd: Usd = 0.0
    actual_cost_usd: Usd = 0.0
    """The actual cost of the call, if it ran and the cost is known."""
    cost_prevented_usd: Usd = 0.0
    """Counted once for a call that is repeated."""
    attempt: int = 1
    """How often this same call was refused recently."""
    blast_radius: Text = ""
    reason: Text
    agent_intent: Text = ""
    """The task's goal, if known."""
    original_inputs: JsonObject | None = None
    modified_inputs: JsonObject | None = None


class InterventionRecord(InterventionFields):
    """One intervention."""

    remediation_payload: Remediation | None = None
    context: JsonObject = Field(default_factory=dict)
    timestamp: EpochMs
    created_at: EpochMs | None = None
