"""Records of a session, and their common fields: decisions, findings, and entries of the control topic."""

from typing import Any

from haltline.interventions.state.effects import SessionRef
from haltline.interventions.state.session_control import Freeze, Kill, Probation, digest
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Detection, Finding
from haltline.schemas.policy import Policy
from haltline.schemas.signals import Signal


def about(event: ActionEvent, policy: Policy) -> dict[str, Any]:
    """Return the fields of a decision on an event under a policy."""
    named = {name: getattr(event, name) for name in ("session_id", "agent_id", "event_id", "call_id", "time")}
    return named | under(policy)


def about_session(who: SessionRef, policy: Policy) -> dict[str, Any]:
    """Return the fields of a decision on a session under a policy."""
    return {"session_id": who.session_id, "agent_id": who.agent_id} | under(policy)


def under(policy: Policy) -> dict[str, Any]:
    """Return the fields of the policy."""
    return {"policy": policy.name, "policy_version": policy.version}


def found(finding: Finding | None) -> dict[str, Any]:
    """Return the fields of a finding; empty without one."""
    names = ("severity", "evidence", "values", "thresholds")
    return {} if finding is None else {name: getattr(finding, name) for name in names}


def flagged(finding: Finding | None) -> dict[str, Any]:
    """Like `found`, for a decision that flags the finding for people."""
    return {} if finding is None else {**found(finding), "flag": True, "flag_severity": finding.severity}


def detection(
    policy: Policy, finding: Finding, cause: ActionEvent | Signal | Decision, *subject: str, **fields: Any
) -> Detection:
    """Return the record of a finding at an input; `subject` has the further parts of its id."""
    return Detection(
        detection_id=digest("detection", finding.detector, finding.code, *subject),
        agent_id=cause.agent_id,
        event_id=cause.event_id,
        time=cause.time,
        finding=finding,
        **under(policy),
        **fields,
    )


def record_of(
    who: SessionRef, state: ControlState, code: str, since: Kill | Freeze | Probation, **more: Any
) -> ControlRecord:
    """Return a session's record for the compacted topic; `since`: time, operator and reason; `more`: other fields."""
    return ControlRecord(
        scope=ScopeKind.SESSION,
        id=who.session_id,
        state=state,
        code=code,
        reason=since.reason,
        decision_id=since.decision_id,
        agent_id=who.agent_id,
        by=since.by,
        since=since.since_ms,
        **more,
    )


def control_record(who: SessionRef, kill: Kill, decided_at: int | None = None) -> ControlRecord:
    """Return the record of a killed session."""
    return record_of(
        who,
        ControlState.KILLED,
        kill.code,
        kill,
        decided_at=decided_at,
        stopped_at=kill.stopped_at_ms,
        time_to_stop_ms=kill.time_to_stop_ms,
        issued=kill.issued if kill.issued > 1 else None,
        escalated_at=kill.escalated_at_ms,
        unheard=(kill.unheard and kill.stopped_at_ms is None) or None,
        locked_until=kill.locked_until_ms,
    )
