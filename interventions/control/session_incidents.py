"""The incidents of one session with their requests to people: opening, counting and closing.

One incident is open at a time, whatever the causes: later decisions count on it.
"""

from collections.abc import Sequence
from dataclasses import replace

from haltline.interventions.control import approvals, incidents, request_queue
from haltline.interventions.control.kills import UNACKNOWLEDGED
from haltline.interventions.state.effects import ControlEffects, SessionRef
from haltline.interventions.state.open_incident import About
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Finding
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.policy import Policy

KILLED, ENDED, RESET = "session_killed", "session_ended", "session_reset"
SCOPE_KILLED = "scope_killed"
"""Its agent, its mission, the fleet or a session above it was killed, and the agent's side acknowledged the stop."""
RESOLVED = "incident_resolved"
"""The reason for closing a request whose incident a person resolved."""


def on_event(
    control: SessionControl,
    event: ActionEvent,
    decision: Decision | None,
    *,
    killed_before: bool,
    findings: Sequence[Finding],
) -> tuple[Decision | None, list[IncidentRecord]]:
    """Return the decision on an event with its incident, and the records of that incident.

    Refusals of a session that was killed before are no incident, as its kill is one already. Activity after a kill is
    an incident, found by `findings`.
    """
    if decision is None or not incidents.is_incident(decision) or (killed_before and not findings):
        return decision, []
    causes: dict[str, str] = {}
    if decision.approval is not None:
        causes = request_queue.causes(control)
    cause = findings[0].code if killed_before else incidents.cause_of(decision, causes)
    about, joins = About(ScopeKind.SESSION, event.session_id), _joined(control, cause)
    records = incidents.note(
        control.incidents, about, decision, cause, agent_id=event.agent_id, mission_id=event.mission_id, joins=joins
    )
    return decision.model_copy(update={"incident_id": control.incidents[joins].incident_id}), records


def on_time(control: SessionControl, who: SessionRef, policy: Policy, time_ms: int) -> list[IncidentRecord]:
    """End what is over at an event's time: requests that expired before a tick closed them, and quiet incidents.

    Incidents without decisions for the policy's time are closed unless the session is stopped.
    """
    about, records = About(ScopeKind.SESSION, who.session_id), list[IncidentRecord]()
    if any(incident.request_id is not None for incident in control.incidents.values()):
        waiting = request_queue.causes_waiting(control, time_ms).values()
        records += incidents.on_time(
            control.incidents,
            about,
            {request for requests in waiting for request in requests},
            time_ms,
            next_request=lambda cause: _next_of(control, cause, time_ms),
        )
    if control.killed is None and control.held is None:
        records += incidents.close_quiet(control.incidents, about, time_ms, policy)
    return records


def on_effects(control: SessionControl, who: SessionRef, effects: ControlEffects) -> ControlEffects:
    """Add the incidents to the effects of an operator, an answer or the clock."""
    if not effects.decisions:
        return effects
    about, first = About(ScopeKind.SESSION, who.session_id), effects.decisions[0]
    records: list[IncidentRecord] = []
    if effects.incident is not None:
        cause = effects.incident.code
        joins = _joined(control, cause)
        records += incidents.note(control.incidents, about, first, cause, agent_id=who.agent_id, joins=joins)
    of_request = {
        request: incident.incident_id
        for request, cause in request_queue.causes(control).items()
        if (incident := control.incidents.get(_joined(control, cause))) is not None
    }
    if effects.incident is None:
        records += incidents.on_answers(
            control.incidents,
            about,
            effects.decisions,
            next_request=lambda cause: _next_of(control, cause, first.time),
        )
    opened = records[0].incident_id if effects.incident is not None else None
    decisions = tuple(
        d.model_copy(update={"incident_id": known})
        if (known := opened if d.approval is None else of_request.get(d.approval.request_id))
        else d
        for d in effects.decisions
    )
    return replace(effects, decisions=decisions, incidents=tuple(records))


def close(
    control: SessionControl, who: SessionRef, policy: Policy, time_ms: int, why: str, *, by: str | None = None
) -> tuple[tuple[Decision, ...], list[IncidentRecord]]:
    """Close the requests, then the incidents, of a session that ends, is killed or reset."""
    closed = approvals.close(control, who, policy, time_ms, why) if control.approvals else ()
    about = About(ScopeKind.SESSION, who.session_id)
    return closed, incidents.close(control.incidents, about, why, time_ms, by=by) if control.incidents else []


def on_act(control: SessionControl, who: SessionRef, command: Command, policy: Policy) -> ControlEffects:
    """Apply an operator's command to an incident, closing requests that no longer need an answer."""
    about = About(ScopeKind.SESSION, who.session_id)
    belongs = {request: _joined(control, of) for request, of in request_queue.causes(control).items()}
    records = incidents.act(control.incidents, about, command)
    if not records:
        return ControlEffects(followup="incident_void")
    decisions: tuple[Decision, ...] = ()
    if command.kind is CommandKind.RESOLVE:
        cause = records[0].cause
        requests = {request for request, of in belongs.items() if of == cause}
        decisions = approvals.close(control, who, policy, command.time, RESOLVED, requests=requests)
        records += incidents.on_answers(
            control.incidents,
            about,
            decisions,
            next_request=lambda of: _next_of(control, of, command.time),
        )
    return ControlEffects(decisions, incidents=tuple(records), followup=f"incident_{records[0].change}")


def on_scope_killed(
    control: SessionControl, who: SessionRef, policy: Policy, time_ms: int
) -> tuple[tuple[Decision, ...], list[IncidentRecord]]:
    """Close the requests and incidents of a session that has stopped for a kill above it.

    Later ones belong to a later process that still runs: then this is the end of an earlier process, and closes
    nothing.
    """
    is_open = any(ticket.since_ms > time_ms for ticket in control.approvals.values()) or any(
        incident.last_ms > time_ms for incident in control.incidents.values()
    )
    return ((), []) if is_open else close(control, who, policy, time_ms, SCOPE_KILLED)


def on_stopped(control: SessionControl, who: SessionRef, time_ms: int) -> list[IncidentRecord]:
    """Close the incident of a kill that the agent's side acknowledged after the deadline."""
    about = About(ScopeKind.SESSION, who.session_id)
    incident = control.incidents.get(UNACKNOWLEDGED)
    if incident is None or incident.joined:
        return []  # its activity in between needs review by a person
    return incidents.close(control.incidents, about, "kill_acknowledged", time_ms, causes=[UNACKNOWLEDGED])


def _joined(control: SessionControl, cause: str) -> str:
    """Return the cause of the open incident that this one joins; the same cause if it opens its own."""
    return cause if cause in control.incidents else next(reversed(control.incidents), cause)


def _next_of(control: SessionControl, cause: str, time_ms: int) -> str | None:
    """Return the open request of an incident, by the incident's first cause."""
    waiting = request_queue.causes_waiting(control, time_ms)
    return next((requests[0] for of, requests in waiting.items() if _joined(control, of) == cause), None)
