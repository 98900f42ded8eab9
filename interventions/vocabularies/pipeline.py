"""pipeline_ex: graduated interventions, and the step reviewer's decisions allow, warn, modify, block."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.payloads import Incident, Rollback
from haltline.schemas.record import EpochMs, JsonObject, Name, Record, Text


class Intervention(StrEnum):
    """The intervention on the agent."""

    SOFT_CORRECTION = "soft_correction"
    CONTEXT_REINFORCEMENT = "context_reinforcement"
    RESOURCE_THROTTLING = "resource_throttling"
    MANUAL_INTERVENTION = "manual_intervention"
    CHECKPOINT_ROLLBACK = "checkpoint_rollback"
    EMERGENCY_STOP = "emergency_stop"


class Review(StrEnum):
    """The step reviewer's decision on one action."""

    ALLOW = "allow"
    WARN = "warn"
    MODIFY = "modify"
    BLOCK = "block"


class Result(StrEnum):
    """How the pipeline continues."""

    CONTINUE = "continue"
    RECOVERY_NEEDED = "recovery_needed"
    STOP = "stop"


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
    Level.NUDGE: Intervention.SOFT_CORRECTION,
    Level.REINFORCE: Intervention.CONTEXT_REINFORCEMENT,
    Level.THROTTLE: Intervention.RESOURCE_THROTTLING,
    Level.PAUSE: Intervention.MANUAL_INTERVENTION,
    Level.BLOCK: None,
    Level.ROLLBACK: Intervention.CHECKPOINT_ROLLBACK,
    Level.KILL: Intervention.EMERGENCY_STOP,
}


def review_of(decision: Decision) -> Review:
    """Return the review: a refusal comes before changed arguments, and these before a warning."""
    if decision.level >= Level.PAUSE:
        return Review.BLOCK
    if decision.arguments is not None or decision.without_arguments or decision.limits is not None:
        return Review.MODIFY
    return Review.ALLOW if decision.level is Level.ALLOW else Review.WARN


def render(decision: Decision) -> PipelineRecord:
    """Return the record of a decision; every decision has one."""
    # pipeline_ex knows one run only: it cannot express the stop of an agent or a fleet.
    kind = _TYPE[decision.level] if decision.scope is ScopeKind.SESSION else None
    message = None
    if kind is not None and decision.message:
        metadata = {"type": "intervention", "intervention_type": kind.value, "issue_type": decision.detector}
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
        return Result.STOP
    if decision.rollback is not None and decision.rollback.recovery_needed:
        return Result.RECOVERY_NEEDED
    return Result.CONTINUE
