"""Fields that decisions of one kind share: what they are about, and what found it."""

from typing import Any

from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Policy


def about(event: ActionEvent, policy: Policy) -> dict[str, Any]:
    """Of a decision on an event under a policy."""
    named = {name: getattr(event, name) for name in ("session_id", "agent_id", "event_id", "call_id", "time")}
    return named | under(policy)


def under(policy: Policy) -> dict[str, Any]:
    """Which policy decided."""
    return {"policy": policy.name, "policy_version": policy.version}


def found(finding: Finding | None) -> dict[str, Any]:
    """What a finding says of itself; nothing without one."""
    names = ("severity", "evidence", "values", "thresholds")
    return {} if finding is None else {name: getattr(finding, name) for name in names}


def flagged(finding: Finding | None) -> dict[str, Any]:
    """As `found`, of a decision that tells people of the finding."""
    return {} if finding is None else {**found(finding), "flag": True, "flag_severity": finding.severity}
