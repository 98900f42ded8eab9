"""`/api/v1/incidents`: related decisions, the worst first, and operators' commands on them."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import BaseModel, Field

from haltline.console.context import TAKEN_IN_WITHIN_S, ContextDep, OperatorClient, Viewer
from haltline.console.http.routing import NO_SUCH_ID, From, Limit, Page, Skip, StrictRoute, Until
from haltline.schemas import wire
from haltline.schemas.control import CommandKind, ControlRecord, control_key
from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.record import JsonObject, rfc3339
from haltline.streams.history import queries
from haltline.streams.history.incident_report import Report
from haltline.streams.history.kept import Where
from haltline.streams.operator.kill_trail import kill_trail

router = APIRouter(prefix="/api/v1/incidents", tags=["incidents"], route_class=StrictRoute)

_MAX_TRAIL = 100

IncidentId = Annotated[
    str, Path(min_length=1, max_length=256, description="The incident's id or its beginning, or the id of its report.")
]


@dataclass(frozen=True, kw_only=True)
class IncidentFilter:
    """A filter of incidents; None: any. Its fields are the parameters of the route that lists them."""

    session_id: str | None = None
    """The incident's own session, or the last one that it counted."""
    agent_id: str | None = None
    start_ms: From = None
    """Time of the last decision."""
    end_ms: Until = None
    state: Annotated[list[IncidentState] | None, Query(description="Any of these.")] = None
    open_only: Annotated[bool, Query(description="Only those that are not resolved.")] = False
    scope: ScopeKind | None = None
    scope_id: str | None = None
    cause: Annotated[str | None, Query(description="The rule, or what else it is about.")] = None
    level: Annotated[Level | None, Query(description="At least this level.")] = None
    severity: Annotated[Severity | None, Query(description="At least this severe.")] = None
    assignee: Annotated[str | None, Query(description="Its assignee; empty: not assigned.")] = None

    def where(self) -> list[Where]:
        """The conditions of the filter."""
        level, severity = (None if one is None else one.rank for one in (self.level, self.severity))
        held: list[Where] = [
            (column, op, value)
            for column, op, value in (
                ("session_id", "=", self.session_id), ("agent_id", "=", self.agent_id), ("scope", "=", self.scope),
                ("scope_id", "=", self.scope_id), ("cause", "=", self.cause), ("state", "in", self.state),
                ("last_ms", ">=", self.start_ms), ("last_ms", "<=", self.end_ms), ("level", ">=", level),
                ("severity", ">=", severity), ("assignee", "=", self.assignee or None),
            )
            if value is not None
        ]  # fmt: skip
        held += [queries.OPEN] if self.open_only else []
        return held + ([("assignee", "none", None)] if self.assignee == "" else [])


class Incident(IncidentRecord):
    """The current state of an incident; after a stop of its session, with the stop's report."""

    time: str
    """Time of the last decision."""
    code: str
    """The code of the last decision, if the topic still has it."""
    reason: str
    """The reason of the decision with the highest level."""
    report: JsonObject
    """The report of the stop that ended it; empty: it did not end with a stop."""
    first: str
    last: str
    changed: str
    targets: list[str]
    """The target, or those of the calls in the last decision's evidence; 8 at most."""
    kill: list[str] = Field(default_factory=list)
    """Of one incident: what became of the last kill of its session or agent, in lines."""


class IncidentList(Page):
    """A page of incidents, the worst first: what is open, then by severity, level and the last decision."""

    incidents: list[Incident]


class Change(IncidentRecord):
    """One revision of an incident."""

    time: str


class IncidentAction(BaseModel):
    """The reason; the assignee, for `assign`; and the length, for `snooze`."""

    reason: Annotated[str, Field(min_length=1, max_length=4096)]
    assignee: Annotated[str | None, Field(min_length=1, max_length=256)] = None
    lasts: timedelta = timedelta(hours=1)


class IncidentActionResult(BaseModel):
    """The outcome of an operator's command."""

    command_id: str
    answered: bool
    """Whether a worker has carried it out; if not, it stays on the topic for when one runs."""
    incident: Incident
    """Its state after the command."""


@router.get("")
def incidents(
    here: ContextDep,
    _: Viewer,
    filters: Annotated[IncidentFilter, Depends()],
    skip: Skip = 0,
    limit: Limit = 50,
) -> IncidentList:
    """The incidents that match every filter, the worst first; dates are those of the last decision."""
    where = filters.where()
    found = queries.incidents(here.kept, *where, skip=skip, limit=limit)
    return IncidentList(
        incidents=_shown(here, found), total=here.kept.count("incidents", *where), skip=skip, limit=limit
    )


@router.get("/{incident_id}", responses=NO_SUCH_ID)
def incident(here: ContextDep, _: Viewer, incident_id: IncidentId) -> Incident:
    """The current state of one incident."""
    (shown,) = _shown(here, [_one(here, incident_id)])
    return shown.model_copy(update={"kill": _kill_of(here, shown)})


@router.get("/{incident_id}/history", responses=NO_SUCH_ID)
def history(here: ContextDep, _: Viewer, incident_id: IncidentId) -> list[Change]:
    """Every change of the incident in order, with time and author; of more than a hundred similar ones, only some."""
    found = _one(here, incident_id)
    return [
        Change(**record.model_dump() | {"time": rfc3339(record.changed_at)})
        for record in queries.revisions(here.kept, found.incident_id) or [found]
    ]


@router.get("/{incident_id}/report", responses=NO_SUCH_ID)
def report(here: ContextDep, _: Viewer, incident_id: IncidentId) -> Report:
    """The whole report: timeline, impact, root cause, advice and the last 50 actions before the hardest decision."""
    found = _one(here, incident_id)
    whole = queries.report(here.kept, found, found.session_id or found.scope_id)
    if whole is None:
        raise HTTPException(404, f"incident {incident_id}: expected decisions that are still known, got none")
    return whole


@router.post("/{incident_id}/{word}", responses=NO_SUCH_ID)
def act(
    here: ContextDep,
    who: OperatorClient,
    incident_id: IncidentId,
    word: Literal["acknowledge", "assign", "comment", "resolve", "snooze"],
    body: IncidentAction,
) -> IncidentActionResult:
    """Acknowledges, assigns, comments, snoozes or resolves an incident. Resolving closes its open request as refused.

    409 for a resolved incident, which stays resolved, and for a second acknowledgement.
    """
    assignee = body.assignee if word == "assign" else None
    lasts = body.lasts if word == "snooze" else None
    before = _one(here, incident_id)
    acted = here.inbox.act(CommandKind(word), before, by=who.name, reason=body.reason, assignee=assignee, lasts=lasts)
    if acted.place is not None:
        here.feeder.wait_for(acted.place, TAKEN_IN_WITHIN_S)
    (shown,) = _shown(here, [acted.after or acted.before])
    return IncidentActionResult(command_id=acted.command.command_id, answered=acted.after is not None, incident=shown)


def _kill_of(here: ContextDep, incident: IncidentRecord) -> list[str]:
    """What became of the last kill of an incident's session or agent, in lines."""
    if incident.scope not in (ScopeKind.SESSION, ScopeKind.AGENT):
        return []
    column, key = f"{incident.scope}_id", control_key(incident.scope, incident.scope_id)
    in_force = here.kept.rows("control", ("key", "=", key))
    called = here.kept.rows("records", ("topic", "=", "notifications"), (column, "=", incident.scope_id))
    answers = [wire.decode(NotificationRecord, row["body"].encode()) for row in called]
    same = (("scope", "=", incident.scope), ("scope_id", "=", incident.scope_id))
    return kill_trail(
        wire.decode(ControlRecord, in_force[0]["body"].encode()) if in_force else None,
        [one for one in answers if one.kill is not None and one.kill.scope is incident.scope],
        queries.incidents(here.kept, *same, limit=_MAX_TRAIL),
    )


def _one(here: ContextDep, name: str) -> IncidentRecord:
    found = queries.incidents_named(here.kept, name)
    if not found:
        raise HTTPException(404, f"incident {name}: not found")
    if len(found) > 1:
        raise HTTPException(409, f"incident {name}: expected the beginning of one id, got that of several")
    return found[0]


def _shown(here: ContextDep, records: list[IncidentRecord]) -> list[Incident]:
    decisions = queries.decisions_of(here.kept, (record.decision_id for record in records))
    unnamed = [record.decision_id for record in records if record.target is None]
    evident = queries.targets_of(here.kept, [decisions[name] for name in unnamed if name in decisions])
    shown = []
    for record in records:
        decision = decisions.get(record.decision_id)
        report = None if decision is None else decision.incident
        more = {
            "time": rfc3339(record.last_at),
            "code": record.cause if decision is None else decision.code,
            "rule": record.rule or record.cause,
            "reason": record.summary,
            "report": {} if report is None else report.model_dump(mode="json", exclude_none=True),
            "first": rfc3339(record.first_at),
            "last": rfc3339(record.last_at),
            "changed": rfc3339(record.changed_at),
            "targets": evident.get(record.decision_id, []) if record.target is None else [record.target],
        }
        shown.append(Incident(**record.model_dump() | more))
    return shown
