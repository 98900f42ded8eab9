"""pipeline_ex: graduated interventions, and the step reviewer's decisions allow, warn, modify, block."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.payloads import Incident, Rollback
from haltline.schemas.record import EpochMs, JsonObject, Name, Record, Text

Intervention: TypeAlias = Literal[
    "soft_correction",
    "context_reinforcement",
    "resource_throttling",
    "manual_intervention",
    "checkpoint_rollback",
    "emergency_stop",
]
"""The intervention on the agent."""
Review: TypeAlias = Literal["allow", "warn", "modify", "block"]
"""The step reviewer's decision on one action."""
Result: TypeAlias = Literal["continue", "recovery_needed", "stop"]
"""How the pipeline continues."""


class Injected(Record):
    """A message to insert into the model's conversation."""

    role: Name = "system"
    content: Text
    metadata: JsonObject


class PipelineRecord(Record):
    """A decision in pipeline_ex."""

    intervention_type: Intervention | None = None
    """None: only the step's own decision."""
    issue_type: Name
    decision: Review
    result: Result
    allows_continuation: bool
    severity: Severity | None = None
    reason: Text
    timestamp: EpochMs
    message: Injected | None = None
    resource_limits: dict[Name, float] | None = None
    modified_arguments: JsonObject | None = None
    rollback: Rollback | None = None
    incident: Incident | None = None


_TYPE: Final[Mapping[Level, Intervention | None]] = {
    Level.ALLOW: None,
    Level.NUDGE: "soft_correction",
    Level.REINFORCE: "context_reinforcement",
    Level.THROTTLE: "resource_throttling",
    Level.PAUSE: "manual_intervention",
    Level.BLOCK: None,
    Level.ROLLBACK: "checkpoint_rollback",
    Level.KILL: "emergency_stop",
}


def review_of(decision: Decision) -> Review:
    """Return the review: a refusal comes before changed arguments, and these before a warning."""
    if decision.level >= Level.PAUSE:
        return "block"
    if decision.arguments is not None or decision.without_arguments or decision.limits is not None:
        return "modify"
    return "allow" if decision.level is Level.ALLOW else "warn"


def render(decision: Decision) -> PipelineRecord:
    """Return the record of a decision; every decision has one."""
    # pipeline_ex knows one run only: it cannot express the stop of an agent or a fleet.
    kind = _TYPE[decision.level] if decision.scope is ScopeKind.SESSION else None
    message = None
    if kind is not None and decision.message:
        metadata = {"type": "intervention", "intervention_type": kind, "issue_type": decision.detector}
        if decision.checkpoint is not None:
            metadata["checkpoint_id"] = decision.checkpoint
        message = Injected(content=decision.message, metadata=metadata)
    changed = dict(decision.arguments or {})
    return PipelineRecord(
        intervention_type=kind,
        issue_type=decision.detector,
        decision=review_of(decision),
        result=_result(decision),
        allows_continuation=decision.level < Level.ROLLBACK,
        severity=decision.severity,
        reason=decision.reason,
        timestamp=decision.time,
        message=message,
        resource_limits=decision.limits,
        modified_arguments=changed or None,
        rollback=decision.rollback,
        incident=decision.incident,
    )


def _result(decision: Decision) -> Result:
    if decision.level is Level.KILL:
        return "stop"
    if decision.rollback is not None and decision.rollback.recovery_needed:
        return "recovery_needed"
    return "continue"
