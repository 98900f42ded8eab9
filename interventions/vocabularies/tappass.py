"""TapPass: allow or deny of one call, the session kill of the loop guard, and its row in the audit."""

from enum import StrEnum
from typing import Final

from haltline.interventions.levels.default_levels import LOOP_GUARD
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.record import EpochMs, Id, Name, Record, Text

KILLED: Final = "session_killed_loop_guard"


class Verdict(StrEnum):
    """The verdict on one call."""

    ALLOW = "allow"
    DENY = "deny"
    REDACT = "redact"
    """Allowed, with other arguments."""


class Event(StrEnum):
    """Events of the guard."""

    LOOP_SUSPECTED = "loop_suspected"
    LOOP_DETECTED = "loop_detected"
    POLICY_BLOCK = "policy_block"
    DETECTION = "detection"
    TOOL_CALL = "tool_call"


class AuditRow(Record):
    """A decision as a row of TapPass's audit."""

    audit_id: Id
    trace_id: Id
    session_id: Id
    agent_id: Name
    policy_version: Name
    phase: Name = "before"
    step_id: Name
    decision: Verdict
    event_kind: Event
    severity: Name
    """info, warn, error or critical."""
    response_code: Name | None = None
    """The response to the call, and to every later one of a killed session."""
    reason: Text
    requires_approval: bool = False
    """Blocked until `subject.approval.granted`."""
    timestamp: EpochMs


def render(decision: Decision) -> AuditRow:
    """Return the row of a decision; every decision has one."""
    killed = decision.level is Level.KILL
    loop = decision.detector in LOOP_GUARD or decision.code == KILLED
    return AuditRow(
        audit_id=decision.decision_id,
        trace_id=decision.event_id,
        session_id=decision.session_id,
        agent_id=decision.agent_id,
        policy_version=f"{decision.policy}@{decision.policy_version}",
        step_id="loop_guard" if loop else decision.detector or "pipeline",
        decision=_verdict(decision),
        event_kind=_event(decision, loop=loop),
        severity="critical" if killed else "error" if decision.level >= Level.PAUSE else _mild(decision),
        response_code=decision.code if decision.level >= Level.PAUSE else None,
        reason=f"session_killed: {decision.reason}"
        if killed and not decision.reason.startswith("session_killed")
        else decision.reason,
        requires_approval=decision.level is Level.PAUSE,
        timestamp=decision.time,
    )


def _verdict(decision: Decision) -> Verdict:
    if decision.level >= Level.PAUSE:
        return Verdict.DENY
    return Verdict.REDACT if decision.arguments or decision.without_arguments else Verdict.ALLOW


def _event(decision: Decision, *, loop: bool) -> Event:
    if loop:
        return Event.LOOP_DETECTED if decision.level >= Level.PAUSE else Event.LOOP_SUSPECTED
    if decision.level >= Level.PAUSE:
        return Event.POLICY_BLOCK
    return Event.DETECTION if decision.detector else Event.TOOL_CALL


def _mild(decision: Decision) -> str:
    return "info" if decision.level is Level.ALLOW else "warn"
