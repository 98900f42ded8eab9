"""Rules that ask a person once in a session: the answer holds for what they find later in it too. Pure.

An approval declares a batch for the session, in the name of who approved: of `operations.approvals.covers` acts, for a
shift at most. Calls that wait behind the request pass with it. A rejection refuses what the rule finds from then on,
and nobody is asked again, until an operator declares a batch or resets the session. When nobody answers in time, the
call of the request is refused and no other: the next one is asked about.
"""

from typing import Final

from haltline.interventions.control.declared_batches import LONGEST, MAX_BATCHES
from haltline.interventions.levels.default_levels import ASKS_ONCE
from haltline.interventions.state.approval_ticket import Ticket
from haltline.interventions.state.session_control import DeclaredBatch, SessionControl
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.policy import Policy

REJECTED: Final = "volume_rejected"
"""The code of a call that is refused since a person has rejected an earlier one of the same rule."""
_MESSAGE = (
    "A person has refused to let this session go on with acts that destroy. Do not try another one; "
    "report what is left to do."
)


def rule_of(decision: Decision) -> str:
    """The rule of a decision that asks once in a session; empty: it asks about each call."""
    return decision.detector if decision.detector in ASKS_ONCE else ""


def approve(standing: SessionControl, ticket: Ticket, policy: Policy, time_ms: int) -> list[Ticket]:
    """Lets what the rule of an approved request finds later pass. Returns the requests that are approved with it."""
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
    """Notes who has rejected the request of such a rule."""
    if ticket.rule:
        standing.rejected[ticket.rule] = ", ".join(ticket.rejected_by)


def after_rejection(standing: SessionControl, decision: Decision) -> Decision | None:
    """The refusal of a call that is paused by a rule whose request was rejected; None: nobody has rejected one."""
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
