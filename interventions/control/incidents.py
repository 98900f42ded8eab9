"""Incidents: related decisions under one id, open until resolved. Pure.

All decisions about a session are one incident, whatever their causes (`session_incidents`). Those about an agent, a
mission, a target, a tree or the fleet are one per cause, stored with its state across sessions. Each decision that is
more than a plain verdict opens an incident, or counts on the open one. An incident closes with the end, the kill or the
reset of its subject, after a time without decisions, or by a person; later decisions open another one, with another id.

Revisions are counted whether they are published or not, so that a replay gives the same numbers. The first hundred
decisions of an incident are published one by one, then each tenth up to a thousand, each hundredth up to ten thousand
and so on. Small counts are therefore exact, and a loop of a million refusals takes some hundreds of records. A change
of level, of the approval or of the state is always published, with the exact count.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from haltline.interventions.levels.default_levels import cause_of_rule
from haltline.interventions.state.open_incident import About, OpenIncident
from haltline.interventions.state.session_control import digest
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Approval, ApprovalState, Decision, Level, Mode
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.policy import Policy

MAX_OPEN: Final = 64
"""Open incidents of one session or scope; beyond it, the one that counted longest ago is closed."""
RECORDED_SINGLY: Final = 100
ACTS: Final = frozenset(
    {CommandKind.ACKNOWLEDGE, CommandKind.ASSIGN, CommandKind.COMMENT, CommandKind.RESOLVE, CommandKind.SNOOZE}
)
"""The commands of operators for incidents."""
BY_OPERATOR: Final = "resolved_by_operator"
QUIET: Final = "quiet"
"""The resolution of an incident without decisions for `operations.incident_quiet_h`."""

_SHOWN_CHARS: Final = 500
_WAITS: Final = frozenset({ApprovalState.PENDING, ApprovalState.INFO_REQUESTED})

Open = dict[str, OpenIncident]
"""Open incidents by their first cause; the one that counted longest ago first."""


def is_incident(decision: Decision) -> bool:
    """Return whether a decision is more than a plain verdict, and not of a rule in shadow mode."""
    return decision.mode is not Mode.SHADOW and (decision.level > Level.ALLOW or decision.flag)


def note(
    incidents: Open,
    about: About,
    decision: Decision,
    cause: str,
    *,
    agent_id: str,
    mission_id: str | None = None,
    joins: str | None = None,
) -> list[IncidentRecord]:
    """Open the incident of a cause, or count the decision on the open one. Returns the records to publish.

    `joins`: the cause of the open incident to count on, instead of one of its own.
    """
    records: list[IncidentRecord] = []
    opened_for = joins or cause
    incident = incidents.pop(opened_for, None)
    change = IncidentChange.COUNTED
    if incident is None:
        change = IncidentChange.OPENED
        incident = _opened(about, decision, cause)
        while len(incidents) >= MAX_OPEN:
            records += close(incidents, about, "too_many_open", decision.time, causes=[next(iter(incidents))])
    incidents[opened_for] = incident
    incident.count += 1
    incident.last_ms = max(incident.last_ms, decision.time)
    incident.decision_id = decision.decision_id
    incident.session_id = decision.session_id
    incident.agent_id = agent_id
    incident.mission_id = mission_id or incident.mission_id
    if decision.level is Level.KILL:
        incident.snoozed_until = None
    before = incident.now()
    if cause not in before.causes:
        incident.joined.append(cause)
    if _take_over(incident, decision):
        change = IncidentChange.ESCALATED
    approval = _new_request(incident, decision.approval)
    if approval is not None:
        incident.request_id = approval.request_id
        change = IncidentChange.APPROVAL if change is IncidentChange.COUNTED else change
    if change is IncidentChange.COUNTED and cause in before.causes and not _is_recorded(incident.count):
        incident.revision += 1
        return records
    state = None if approval is None else approval.state
    records.append(
        incident.next_revision(
            change, about, decision.time, approval=state, before=before if before != incident.now() else None
        )
    )
    return records


def on_answers(
    incidents: Open, about: About, decisions: Iterable[Decision], *, next_request: Callable[[str], str | None]
) -> list[IncidentRecord]:
    """Update the incidents whose requests were answered or have expired. Returns the records to publish.

    `next_request`: returns the request of a cause that is open now, if any.
    """
    records: list[IncidentRecord] = []
    last = {d.approval.request_id: (d.approval, d.time) for d in decisions if d.approval is not None}
    for request_id, (approval, time_ms) in last.items():
        by = (approval.rejected_by if approval.state is ApprovalState.REJECTED else approval.approved_by)[-1:]
        answer = (approval.state, time_ms, by[0] if by else None)
        records += _on_answer(incidents, about, request_id, answer, next_request)
    return records


def on_time(
    incidents: Open, about: About, waiting: Collection[str], time_ms: int, *, next_request: Callable[[str], str | None]
) -> list[IncidentRecord]:
    """Update the incidents whose request is not among those that wait. Returns the records to publish."""
    over = {i.request_id: None for i in incidents.values() if i.request_id is not None and i.request_id not in waiting}
    records: list[IncidentRecord] = []
    for request_id in over:
        records += _on_answer(incidents, about, request_id, (ApprovalState.EXPIRED, time_ms, None), next_request)
    return records


def _on_answer(
    incidents: Open,
    about: About,
    request_id: str,
    answer: tuple[ApprovalState, int, str | None],
    next_request: Callable[[str], str | None],
) -> list[IncidentRecord]:
    """Update the incidents of a request. `answer`: its state, the time of the change, and the operator, if any."""
    state, time_ms, by = answer
    records: list[IncidentRecord] = []
    for incident in [i for i in incidents.values() if i.request_id == request_id]:
        if state not in _WAITS:
            incident.request_id = next_request(incident.cause)
        records.append(incident.next_revision(IncidentChange.APPROVAL, about, time_ms, by=by, approval=state))
    return records


def act(incidents: Open, about: About, command: Command) -> list[IncidentRecord]:
    """Apply an operator's command to an incident. Returns no record if it is not open, or already in that state."""
    incident = next((i for i in incidents.values() if i.incident_id == command.incident_id), None)
    if incident is None:
        return _closed_as_seen(command)
    match command.kind:
        case CommandKind.ACKNOWLEDGE:
            if incident.state == IncidentState.ACKNOWLEDGED:
                return []
            incident.state, change = IncidentState.ACKNOWLEDGED.value, IncidentChange.ACKNOWLEDGED
        case CommandKind.ASSIGN:
            if incident.assignee == command.assignee:
                return []
            incident.assignee, change = command.assignee, IncidentChange.ASSIGNED
        case CommandKind.COMMENT:
            change = IncidentChange.COMMENTED
        case CommandKind.SNOOZE:
            incident.snoozed_until, change = command.until, IncidentChange.SNOOZED
        case CommandKind.RESOLVE:
            of, by, comment = [incident.cause], command.by, command.reason
            return close(incidents, about, BY_OPERATOR, command.time, causes=of, by=by, comment=comment)
        case _:
            return []
    return [incident.next_revision(change, about, command.time, by=command.by, comment=command.reason)]


def close(
    incidents: Open,
    about: About,
    why: str,
    time_ms: int,
    *,
    causes: Iterable[str] | None = None,
    by: str | None = None,
    comment: str | None = None,
) -> list[IncidentRecord]:
    """Resolve the incidents of these causes, or all if None."""
    records = []
    for cause in list(incidents if causes is None else causes):
        incident = incidents.pop(cause, None)
        if incident is None:
            continue
        incident.state, incident.request_id = IncidentState.RESOLVED.value, None
        records.append(
            incident.next_revision(IncidentChange.RESOLVED, about, time_ms, by=by, comment=comment, resolution=why)
        )
    return records


def close_quiet(incidents: Open, about: About, time_ms: int, policy: Policy) -> list[IncidentRecord]:
    """Resolve the incidents without an open request, and without decisions for `operations.incident_quiet_h`."""
    before_ms = time_ms - policy.operated.incident_quiet_h * 3_600_000
    over = [cause for cause, i in incidents.items() if i.last_ms < before_ms and i.request_id is None]
    return close(incidents, about, QUIET, time_ms, causes=over)


def _closed_as_seen(command: Command) -> list[IncidentRecord]:
    """Return the end of an incident that is not stored here, such as one of a lost state."""
    seen = command.incident
    if command.kind is not CommandKind.RESOLVE or seen is None or seen.incident_id != command.incident_id:
        return []
    ended: dict[str, object] = {
        "revision": seen.revision + 1,
        "change": IncidentChange.RESOLVED,
        "state": IncidentState.RESOLVED,
        "changed_at": command.time,
        "request_id": None,
        "approval": None,
        "by": command.by,
        "comment": command.reason,
        "resolution": BY_OPERATOR,
    }
    return [seen.model_copy(update=ended)]


def cause_of(decision: Decision, requests: Mapping[str, str]) -> str:
    """Return the cause of a decision; `requests`: causes of approval requests by their ids."""
    if decision.detector == "approval" and decision.approval is not None:
        return requests.get(decision.approval.request_id) or decision.detector
    return cause_of_rule(decision.detector or decision.code)


def _opened(about: About, decision: Decision, cause: str) -> OpenIncident:
    key = about.key or f"{about.scope}:{about.id}"
    return OpenIncident(
        incident_id=digest("incident", key, cause, decision.event_id),
        cause=cause,
        first_ms=decision.time,
        last_ms=decision.time,
        decision_id=decision.decision_id,
        level=decision.level.value,
        severity=None if decision.severity is None else decision.severity.value,
        summary=decision.reason[:_SHOWN_CHARS],
        rule=decision.detector,
        target=decision.target,
    )


def _new_request(incident: OpenIncident, approval: Approval | None) -> Approval | None:
    """Return the request of a decision if it is open, and becomes the incident's."""
    is_open = approval is not None and approval.state in _WAITS
    return approval if is_open and incident.request_id is None else None


def _take_over(incident: OpenIncident, decision: Decision) -> bool:
    """Show the decision with the highest level, of equal ones the most severe. Returns whether either rose."""
    level = Level(incident.level)
    severe = decision.severity is not None and (
        incident.severity is None or decision.severity > Severity(incident.severity)
    )
    if decision.severity is not None and severe:
        incident.severity = decision.severity.value
    if decision.level > level or (severe and decision.level is level):
        incident.level = decision.level.value
        incident.summary = decision.reason[:_SHOWN_CHARS]
        incident.rule = decision.detector
        incident.target = decision.target or incident.target
        return True
    return severe


def _is_recorded(count: int) -> bool:
    """Return whether this decision is published: the first two digits of the count are always exact."""
    return count % 10 ** max(0, len(str(count)) - 2) == 0 if count >= RECORDED_SINGLY else True
