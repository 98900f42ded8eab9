"""TapPass: allow or deny of one call, the session kill of the loop guard, and its row in the audit."""

from typing import Final, Literal, TypeAlias

from haltline.interventions.levels.default_levels import LOOP_GUARD
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.record import EpochMs, Id, Name, Record, Text

KILLED: Final = "session_killed_loop_guard"


Verdict: TypeAlias = Literal["allow", "deny", "redact"]
"""The verdict on one call; `redact`: allowed, with other arguments."""
Event: TypeAlias = Literal["loop_suspected", "loop_detected", "policy_block", "detection", "tool_call"]
"""Events of the guard."""


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
        return "deny"
    return "redact" if decision.arguments or decision.without_arguments else "allow"


def _event(decision: Decision, *, loop: bool) -> Event:
    if loop:
        return "loop_detected" if decision.level >= Level.PAUSE else "loop_suspected"
    if decision.level >= Level.PAUSE:
        return "policy_block"
    return "detection" if decision.detector else "tool_call"


def _mild(decision: Decision) -> str:
    return "info" if decision.level is Level.ALLOW else "warn"
