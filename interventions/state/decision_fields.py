"""Common fields of decisions: their subject, and their finding; and the record of a finding."""

from typing import Any

from haltline.interventions.state.session_control import digest
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Detection, Finding
from haltline.schemas.policy import Policy
from haltline.schemas.signals import Signal


def about(event: ActionEvent, policy: Policy) -> dict[str, Any]:
    """Return the fields of a decision on an event under a policy."""
    named = {name: getattr(event, name) for name in ("session_id", "agent_id", "event_id", "call_id", "time")}
    return named | under(policy)


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
