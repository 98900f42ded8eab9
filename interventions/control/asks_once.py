"""Rules that ask a person once in a session; the answer covers their later findings. Pure.

An approval declares a batch for the session in the approver's name: `operations.approvals.covers` actions, for a shift
at most. Calls queued behind the request pass with it. After a rejection, the rule's findings are refused without
another request, until an operator declares a batch or resets the session. A request that expires refuses only its own
call: the next call opens another request.
"""

from typing import Final

from haltline.interventions.control.declared_batches import LONGEST, MAX_BATCHES
from haltline.interventions.levels.default_levels import ASKS_ONCE
from haltline.interventions.state.approval_ticket import Ticket
from haltline.interventions.state.session_control import DeclaredBatch, SessionControl
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.policy import Policy

REJECTED: Final = "volume_rejected"
"""The code of a call refused because an earlier one of the same rule was rejected."""
_MESSAGE = (
    "A person has refused to let this session go on with acts that destroy. Do not try another one; "
    "report what is left to do."
)


def rule_of(decision: Decision) -> str:
    """Return the rule of a decision that asks once in a session; empty if the rule asks about each call."""
    return decision.detector if decision.detector in ASKS_ONCE else ""


def approve(standing: SessionControl, ticket: Ticket, policy: Policy, time_ms: int) -> list[Ticket]:
    """Allow later findings of an approved request's rule. Returns the requests that are approved with it."""
    covers = policy.operated.approvals.covers
    if not ticket.rule or not covers:
        return []
    standing.batches.append(
        DeclaredBatch(
            actions="*",
            targets=[],
            max_deletes=covers,
            expires_ms=time_ms + round(LONGEST.total_seconds() * 1000),
            by=", ".join(ticket.approved_by),
            reason=f"approved: {ticket.reason}"[:512],
            command_id=ticket.request_id,
        )
    )
    del standing.batches[:-MAX_BATCHES]
    behind = {bound: standing.approvals[bound] for bound in ticket.also}
    covered = {bound: other for bound, other in behind.items() if other.rule == ticket.rule}
    ticket.also = [bound for bound in behind if bound not in covered]
    for other in covered.values():
        other.behind, other.approved_by = "", list(ticket.approved_by)
    return list(covered.values())


def reject(standing: SessionControl, ticket: Ticket) -> None:
    """Store who rejected the request of such a rule."""
    if ticket.rule:
        standing.rejected[ticket.rule] = ", ".join(ticket.rejected_by)


def after_rejection(standing: SessionControl, decision: Decision) -> Decision | None:
    """Return the refusal of a call that a rejected rule pauses; None if its request was not rejected."""
    by = standing.rejected.get(rule_of(decision))
    if by is None:
        return None
    return decision.model_copy(
        update={
            "level": Level.BLOCK,
            "code": REJECTED,
            "reason": f"{decision.reason}; rejected for this session by {by}",
            "message": _MESSAGE,
        }
    )
