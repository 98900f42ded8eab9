"""Approval requests of a session: one per cause is published, further calls are queued behind it. Pure."""

from typing import Final

from haltline.interventions.state.approval_ticket import ApprovalTicket
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.findings import Severity
from haltline.schemas.policy import ApprovalRules

MAX_TICKETS: Final = 32
"""Requests stored per session, the oldest dropped first; a call without a request does not pass."""


def causes(control: SessionControl) -> dict[str, str]:
    """Return the cause of each request, by request id."""
    return {ticket.request_id: ticket.cause for ticket in control.approvals.values()}


def answered_by(rules: ApprovalRules, priority: Severity) -> tuple[int, int]:
    """Return the number of approvals a request needs, and the number of people who may answer."""
    if priority is not Severity.CRITICAL:
        return rules.quorum, rules.quorum
    return rules.critical_quorum, max(rules.critical_voters, rules.critical_quorum)


def remember(control: SessionControl, bound: str, ticket: ApprovalTicket) -> None:
    """Store a request; beyond the maximum, drop the oldest without others behind it."""
    forget(control, bound)
    control.approvals[bound] = ticket
    if len(control.approvals) > MAX_TICKETS:
        oldest = next((key for key, one in control.approvals.items() if not one.also), next(iter(control.approvals)))
        forget(control, oldest)


def forget(control: SessionControl, bound: str) -> None:
    """Remove a request, with those behind it."""
    ticket = control.approvals.pop(bound, None)
    if ticket is None:
        return
    for behind in ticket.also:
        control.approvals.pop(behind, None)
    for other in control.approvals.values():
        if bound in other.also:
            other.also.remove(bound)


def line_up(control: SessionControl, ticket: ApprovalTicket) -> ApprovalTicket:
    """Return the open request of the ticket's cause, to queue it behind; the ticket itself if there is none."""
    head = next(
        (
            t
            for t in control.approvals.values()
            if t is not ticket and t.cause == ticket.cause and t.is_open and not t.behind
            and t.expires_ms > ticket.since_ms
        ),
        None,
    )  # fmt: skip
    if head is None:
        return ticket
    head.also.append(ticket.parameters)
    ticket.behind, ticket.expires_ms = head.request_id, head.expires_ms
    return head


def head_of(control: SessionControl, ticket: ApprovalTicket) -> ApprovalTicket:
    """Return the request that is reported: the ticket itself, or the one that it is behind."""
    if not ticket.behind:
        return ticket
    return next((t for t in control.approvals.values() if t.request_id == ticket.behind), ticket)


def gather(control: SessionControl, head: ApprovalTicket) -> None:
    """Give the requests behind it the same state, and move their waiting calls to it: all are answered as one."""
    for bound in head.also:
        ticket = control.approvals[bound]
        head.waiting += ticket.waiting
        ticket.state, ticket.closed, ticket.waiting = head.state, head.closed, []


def causes_waiting(control: SessionControl, time_ms: int) -> dict[str, list[str]]:
    """Return the requests that can be answered at `time_ms` by cause, without expired ones that no tick has closed."""
    waiting: dict[str, list[str]] = {}
    for ticket in control.approvals.values():
        if ticket.is_open and not ticket.behind and ticket.expires_ms > time_ms:
            waiting.setdefault(ticket.cause, []).append(ticket.request_id)
    return waiting
