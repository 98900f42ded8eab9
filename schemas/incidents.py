"""Incidents: the decisions about one session, or one scope and cause, as records of the `incidents` topic."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.decisions import ApprovalState, Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.record import EpochMs, Id, Name, Record, Text


class IncidentState(StrEnum):
    """The state of an incident."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class IncidentChange(StrEnum):
    """The change that a record reports."""

    OPENED = "opened"
    COUNTED = "counted"
    """One more decision, at no higher level or severity."""
    ESCALATED = "escalated"
    """The highest level or severity has risen."""
    APPROVAL = "approval"
    """Its approval request was opened, answered, or has expired."""
    ACKNOWLEDGED = "acknowledged"
    ASSIGNED = "assigned"
    COMMENTED = "commented"
    RESOLVED = "resolved"
    SNOOZED = "snoozed"


class Before(Record):
    """An incident's fields before a change."""

    level: Level
    severity: Severity | None = None
    causes: list[Name]


class IncidentRecord(Record):
    """One revision of an incident; the record with the highest `revision` is its current state.

    Its key is the session id, or `scope:id` of another scope: all revisions of one are in order in one partition.
    Revisions may be left out, as the first hundred decisions of a cause are published one by one and later ones in
    steps; the last record of an incident that is resolved has the exact count.
    """

    v: int = 1
    incident_id: Id
    """A hash of scope, cause and the opening event: the same after redelivery or replay."""
    revision: Annotated[int, Field(ge=1)]
    """Grows by one with each record of the incident: `incident_id` and `revision` identify a change permanently."""
    change: IncidentChange
    state: IncidentState
    scope: ScopeKind
    scope_id: Id
    cause: Name
    """The rule's subject, such as `no_progress`, or another event, such as `kill_unacknowledged`. For a session's
    incident, that of its first decision."""
    causes: list[Name] | None = None
    """All causes found while it is open, `cause` first; left out: `cause` only."""
    rule: Name = ""
    """The rule of the decision with the highest level, such as `repetition`; empty: no rule."""
    session_id: Id | None = None
    """The session of the last decision."""
    agent_id: Id = "unknown"
    mission_id: Id | None = None
    level: Level
    """The highest so far."""
    severity: Severity | None = None
    """The highest so far."""
    before: Before | None = None
    """With a change that raised the level or the severity, or added a cause: the previous fields."""
    count: Annotated[int, Field(ge=1)]
    """Decisions while it is open."""
    first_at: EpochMs
    last_at: EpochMs
    """Event times of the first and the last decision."""
    changed_at: EpochMs
    """Event time of the change; for an operator's act, the time of the command."""
    summary: Text
    """The reason of the decision with the highest level; among equal levels, of the most severe one."""
    target: Name | None = None
    decision_id: Id
    """The last counted decision."""
    request_id: Id | None = None
    """The approval request that is open; at most one."""
    approval: ApprovalState | None = None
    """With the change `approval`: the request's new state."""
    assignee: Name | None = None
    snoozed_until: EpochMs | None = None
    """Before it, the incident notifies nobody; a kill ends that."""
    by: Name | None = None
    """The operator whose act led to this revision."""
    comment: Text | None = None
    resolution: Name | None = None
    """Why it is resolved: `session_ended`, `session_killed`, `session_reset`, `resolved_by_operator` and so on."""

    @property
    def key(self) -> str:
        """The record's key on the topic."""
        return self.scope_id if self.scope is ScopeKind.SESSION else f"{self.scope}:{self.scope_id}"

    def is_snoozed(self, at_ms: int) -> bool:
        """Return whether an operator wants to hear nothing of it at this time (epoch ms)."""
        return self.snoozed_until is not None and at_ms < self.snoozed_until

    def stands_over(self, known: "IncidentRecord | None") -> bool:
        """Return whether it replaces the revision known so far; a resolved incident stays resolved.

        A worker that restarts at its last checkpoint may reuse revision numbers that the clock published after it.
        """
        if known is None:
            return True
        if known.state is IncidentState.RESOLVED:
            return False
        return self.state is IncidentState.RESOLVED or self.revision >= known.revision
