"""`/api/v1/incidents`: related decisions, the worst first, and operators' commands on them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException, Path
from pydantic import BaseModel, Field

from haltline.console.context import TAKEN_IN_WITHIN_S, ContextDep, OperatorClient, Viewer
from haltline.console.http.routing import NO_SUCH_ID, Limit, Page, Skip, StrictRoute
from haltline.console.read_model import incidents as kept
from haltline.console.read_model.history import decisions_of, until
from haltline.schemas.control import CommandKind
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.record import JsonObject, rfc3339
from haltline.streams.audit.incident import Report, stop_of, whole

router = APIRouter(prefix="/api/v1/incidents", tags=["incidents"], route_class=StrictRoute)

IncidentId = Annotated[
    str, Path(min_length=1, max_length=256, description="The incident's id or its beginning, or the id of its report.")
]


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
    """The reason; and the assignee, for `assign`."""

    reason: Annotated[str, Field(min_length=1, max_length=4096)]
    assignee: Annotated[str | None, Field(min_length=1, max_length=256)] = None


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
    filters: Annotated[kept.IncidentFilter, Depends()],
    skip: Skip = 0,
    limit: Limit = 50,
) -> IncidentList:
    """The incidents that match every filter, the worst first; dates are those of the last decision."""
    found, total = kept.page(here.engine, filters, skip, limit)
    return IncidentList(incidents=_shown(here, found), total=total, skip=skip, limit=limit)


@router.get("/{incident_id}", responses=NO_SUCH_ID)
def incident(here: ContextDep, _: Viewer, incident_id: IncidentId) -> Incident:
    """The current state of one incident."""
    (shown,) = _shown(here, [_one(here, incident_id)])
    return shown.model_copy(update={"kill": kept.kill_of(here.engine, shown)})


@router.get("/{incident_id}/history", responses=NO_SUCH_ID)
def history(here: ContextDep, _: Viewer, incident_id: IncidentId) -> list[Change]:
    """Every change of the incident in order, with time and author; of more than a hundred similar ones, only some."""
    found = _one(here, incident_id)
    return [
        Change(**record.model_dump() | {"time": rfc3339(record.changed_at)})
        for record in kept.history(here.engine, found.incident_id) or [found]
    ]


@router.get("/{incident_id}/report", responses=NO_SUCH_ID)
def report(here: ContextDep, _: Viewer, incident_id: IncidentId) -> Report:
    """The whole report: timeline, impact, root cause, advice and the last 50 actions before the hardest decision."""
    found = _one(here, incident_id)
    events, decisions = until(here.engine, found.session_id or found.scope_id, found.changed_at)
    stop = stop_of(decisions, found)
    if stop is None:
        raise HTTPException(404, f"incident {incident_id}: expected decisions that are still known, got none")
    return whole(stop, decisions, events)


@router.post("/{incident_id}/{word}", responses=NO_SUCH_ID)
def act(
    here: ContextDep,
    who: OperatorClient,
    incident_id: IncidentId,
    word: Literal["acknowledge", "assign", "comment", "resolve"],
    body: IncidentAction,
) -> IncidentActionResult:
    """Acknowledges, assigns, comments or resolves an incident. Resolving it closes its open request as refused.

    409 for a resolved incident, which stays resolved, and for a second acknowledgement.
    """
    assignee = body.assignee if word == "assign" else None
    before = _one(here, incident_id)
    acted = here.inbox.act(CommandKind(word), before, by=who.name, reason=body.reason, assignee=assignee)
    if acted.place is not None:
        here.feeder.wait_for(acted.place, TAKEN_IN_WITHIN_S)
    (shown,) = _shown(here, [acted.after or acted.before])
    return IncidentActionResult(command_id=acted.command.command_id, answered=acted.after is not None, incident=shown)


def _one(here: ContextDep, name: str) -> IncidentRecord:
    found = kept.find(here.engine, name)
    if not found:
        raise HTTPException(404, f"incident {name}: not found")
    if len(found) > 1:
        raise HTTPException(409, f"incident {name}: expected the beginning of one id, got that of several")
    return found[0]


def _shown(here: ContextDep, records: list[IncidentRecord]) -> list[Incident]:
    decisions = decisions_of(here.engine, (record.decision_id for record in records))
    unnamed = [record.decision_id for record in records if record.target is None]
    evident = kept.targets_of(here.engine, [decisions[name] for name in unnamed if name in decisions])
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
