"""Approvals that an agent's own guard asks for, as Agent Sentinel's SDK does: in the same inbox as those of a PAUSE.

Its guard holds the call back and asks what became of the request. Who receives the approval uses it, for the one
call that the request is about. Another call, also one with the same parameters, needs another request.
"""

from typing import Final

from haltline.interventions.control.incidents import REQUESTED
from haltline.interventions.control.request_queue import answered_by, remember
from haltline.interventions.state.approval_ticket import Ticket, Waiter
from haltline.interventions.state.call_digest import parameters_of
from haltline.interventions.state.decision_fields import under
from haltline.interventions.state.effects import ControlEffects, SessionRef
from haltline.interventions.state.session_control import SessionControl, digest
from haltline.schemas.control import CallRequest, Command
from haltline.schemas.decisions import ApprovalState, Decision, Level
from haltline.schemas.policy import ApprovalRules, Policy
from haltline.schemas.record import canonical_json

CODE: Final = REQUESTED
_SHOWN_CHARS: Final = 500
_REFUSED_BY: Final = "haltline"


def on_request(standing: SessionControl, who: SessionRef, command: Command, policy: Policy) -> ControlEffects:
    """Takes a request in. Of a session that is killed it is refused at once; the same one twice is once."""
    call_request, request_id = command.request, command.request_id
    if call_request is None or request_id is None or _key(request_id) in standing.approvals:
        return ControlEffects(followup="approval_void")
    ticket = ticket_of(command, request_id, call_request, policy.operated.approvals)
    if standing.killed is not None:
        ticket.state, ticket.rejected_by = ApprovalState.REJECTED.value, [_REFUSED_BY]
        return ControlEffects((decision_on(ticket, who, command, policy),), followup="approval_rejected")
    remember(standing, _key(request_id), ticket)
    return ControlEffects((decision_on(ticket, who, command, policy),), followup=CODE)


def ticket_of(command: Command, request_id: str, call_request: CallRequest, rules: ApprovalRules) -> Ticket:
    """The request as a session remembers it."""
    quorum, voters = answered_by(rules, call_request.priority)
    return Ticket(
        request_id=request_id,
        nonce=digest("nonce", request_id, command.command_id, command.id),
        parameters=parameters_of(call_request.action, call_request.args, call_request.targets),
        priority=call_request.priority.value,
        action=call_request.action,
        targets=call_request.targets,
        arguments=canonical_json(call_request.args or {}).decode()[:_SHOWN_CHARS],
        reason=call_request.why[:_SHOWN_CHARS],
        quorum=quorum,
        voters=voters,
        since_ms=command.time,
        expires_ms=command.time + round(call_request.expires_s * 1000),
        waiting=[Waiter(request_id, None)],
        asked_by=command.by,
        cause=REQUESTED,
    )


def decision_on(ticket: Ticket, who: SessionRef, command: Command, policy: Policy) -> Decision:
    """The decision about a new request."""
    agent_id = who.agent_id if command.request is None else command.request.agent_id
    waits = ticket.state == ApprovalState.PENDING
    return Decision(
        decision_id=digest("approval", ticket.request_id, CODE),
        session_id=who.session_id,
        agent_id=agent_id,
        event_id=ticket.request_id,
        time=command.time,
        level=Level.NUDGE if waits else Level.BLOCK,
        code=CODE if waits else "approval_rejected",
        reason=f"{ticket.action}: {ticket.reason}" if waits else f"{ticket.action}: the session is killed",
        detector="approval",
        **under(policy),
        approval=ticket.as_approval(),
        expires=ticket.expires_ms,
    )


def _key(request_id: str) -> str:
    """No digest of parameters: a call that haltline itself pauses never finds this request."""
    return f"request:{request_id}"
