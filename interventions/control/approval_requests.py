"""Approvals requested by an agent's own guard, like Agent Sentinel's SDK; in the same inbox as those of a PAUSE.

The guard holds the call back and polls the request. It uses an approval for the one call of the request. Another call,
even with the same parameters, needs another request.
"""

from typing import Final

from haltline.interventions.control.incidents import REQUESTED
from haltline.interventions.control.request_queue import answered_by, remember
from haltline.interventions.state.approval_ticket import Ticket, Waiter
from haltline.interventions.state.call_digest import parameters_of
from haltline.interventions.state.effects import ControlEffects, SessionRef
from haltline.interventions.state.records import under
from haltline.interventions.state.session_control import SessionControl, digest
from haltline.schemas.control import CallRequest, Command
from haltline.schemas.decisions import ApprovalState, Decision, Level
from haltline.schemas.policy import ApprovalRules, Policy
from haltline.schemas.record import canonical_json

CODE: Final = REQUESTED
_SHOWN_CHARS: Final = 500
_REFUSED_BY: Final = "haltline"


def on_request(standing: SessionControl, who: SessionRef, command: Command, policy: Policy) -> ControlEffects:
    """Add a request, once per id. In a killed session it is rejected at once."""
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
    """Return the ticket that the session stores for the request."""
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
    """Return the decision about a new request."""
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
    """Return the key of a request. It is no digest of parameters, so that calls paused by haltline never match it."""
    return f"request:{request_id}"
