"""An open incident in the state of a session or a scope. Plain JSON values."""

from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from haltline.schemas.decisions import ApprovalState, Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import Before, IncidentChange, IncidentRecord, IncidentState


@dataclass(frozen=True, slots=True)
class About:
    """The subject of incidents."""

    scope: ScopeKind
    id: str
    key: str = ""
    """The input of ids; empty: `scope:id`. A tree and its first session have the same scope and id."""


class _Details(TypedDict, total=False):
    """Fields of one revision only."""

    by: str | None
    comment: str | None
    resolution: str
    approval: ApprovalState | None
    before: Before | None


@dataclass
class OpenIncident:
    """The decisions about one session, or about one scope and cause, since the incident was opened."""

    incident_id: str
    cause: str
    first_ms: int
    last_ms: int
    decision_id: str
    level: str
    summary: str
    severity: str | None = None
    rule: str = ""
    revision: int = 0
    state: str = IncidentState.OPEN.value
    count: int = 0
    target: str | None = None
    request_id: str | None = None
    """The open approval request."""
    assignee: str | None = None
    snoozed_until: int | None = None
    session_id: str | None = None
    agent_id: str = "unknown"
    mission_id: str | None = None
    joined: list[str] = field(default_factory=list)
    """The other causes found while it is open."""

    @property
    def causes(self) -> list[str]:
        """All causes, the first one first."""
        return [self.cause, *self.joined]

    def now(self) -> Before:
        """The current values, for comparison after a change."""
        severity = None if self.severity is None else Severity(self.severity)
        return Before(level=Level(self.level), severity=severity, causes=self.causes)

    def next_revision(
        self,
        change: IncidentChange,
        about: About,
        time_ms: int,
        **more: Unpack[_Details],
    ) -> IncidentRecord:
        """Return the next revision, for publishing."""
        self.revision += 1
        kept = {name: value for name, value in vars(self).items() if name in IncidentRecord.model_fields}
        return IncidentRecord(
            **kept,
            change=change,
            scope=about.scope,
            scope_id=about.id,
            causes=self.causes if self.joined else None,
            first_at=self.first_ms,
            last_at=self.last_ms,
            changed_at=time_ms,
            **more,
        )
