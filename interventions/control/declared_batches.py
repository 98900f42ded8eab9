"""Bulk work that an operator declares or approves: who may destroy how much of what, until when, and how much is used.

A declared batch lifts the volume limits for its targets only: a repetition of the same target still counts, and so does
everything beyond its maximum. It is valid for a shift at most, whatever the command states. Each covered action is
published, so that its use is in the audit.

For a rule that asks a person once in a session, the answer covers its later findings. An approval declares a batch for
the session in the approver's name: `operations.approvals.covers` actions, for a shift at most. Calls queued behind the
request pass with it. After a rejection, the rule's findings are refused without another request, until an operator
declares a batch or resets the session. A request that expires refuses only its own call: the next call opens another
request.
"""

from datetime import timedelta
from typing import Final

from haltline.interventions.levels.default_levels import ASKS_ONCE
from haltline.interventions.state.approval_ticket import ApprovalTicket
from haltline.interventions.state.records import about
from haltline.interventions.state.session_control import DeclaredBatch, SessionControl, digest
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy

LONGEST: Final = timedelta(hours=8)
"""The longest validity of a declared batch: its operator's shift."""
MAX_BATCHES: Final = 16
"""Declared batches of a session; the oldest is dropped first."""
CODE: Final = "declared_batch"


def declare(control: SessionControl, command: Command) -> None:
    """Store a declared batch, dropping the oldest beyond the maximum. Idempotent per command."""
    batch = command.batch
    if batch is None or any(known.command_id == command.command_id for known in control.batches):
        return
    longest_ms = command.time + round(LONGEST.total_seconds() * 1000)
    control.batches.append(
        DeclaredBatch(
            batch.actions,
            batch.targets,
            batch.max_deletes,
            min(batch.expires, longest_ms),
            command.by,
            command.reason[:512],
            command.command_id,
        )
    )
    del control.batches[:-MAX_BATCHES]


def decision_on(declared: DeclaredBatch, event: ActionEvent, decision: Decision | None, policy: Policy) -> Decision:
    """Return the decision on an action that a batch covers, with the batch's use so far."""
    use: dict[str, float | int | str] = {
        "batch": declared.command_id,
        "batch_used": declared.used,
        "batch_max": declared.max_deletes,
    }
    if decision is not None and (decision.level is not Level.ALLOW or decision.would is not None):
        return decision.model_copy(update={"values": {**decision.values, **use}})
    return Decision(
        decision_id=digest(CODE, event.session_id, event.event_id),
        level=Level.ALLOW,
        code=CODE,
        reason=f"{declared.used} of the {declared.max_deletes} that {declared.by} declared: {declared.reason}",
        detector=CODE,
        values={**use, "batch_by": declared.by},
        **about(event, policy),
    )


REJECTED: Final = "volume_rejected"
"""The code of a call refused because an earlier one of the same rule was rejected."""


def rule_of(decision: Decision) -> str:
    """Return the rule of a decision that asks once in a session; empty if the rule asks about each call."""
    return decision.detector if decision.detector in ASKS_ONCE else ""


def approve(control: SessionControl, ticket: ApprovalTicket, policy: Policy, time_ms: int) -> list[ApprovalTicket]:
    """Allow later findings of an approved request's rule. Returns the requests that are approved with it."""
    covers = policy.operated.approvals.covers
    if not ticket.rule or not covers:
        return []
    control.batches.append(
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
    del control.batches[:-MAX_BATCHES]
    behind = {bound: control.approvals[bound] for bound in ticket.also}
    covered = {bound: other for bound, other in behind.items() if other.rule == ticket.rule}
    ticket.also = [bound for bound in behind if bound not in covered]
    for other in covered.values():
        other.behind, other.approved_by = "", list(ticket.approved_by)
    return list(covered.values())


def reject(control: SessionControl, ticket: ApprovalTicket) -> None:
    """Store who rejected the request of such a rule."""
    if ticket.rule:
        control.rejected[ticket.rule] = ", ".join(ticket.rejected_by)


def after_rejection(control: SessionControl, decision: Decision) -> Decision | None:
    """Return the refusal of a call that a rejected rule pauses; None if its request was not rejected."""
    by = control.rejected.get(rule_of(decision))
    if by is None:
        return None
    return decision.model_copy(
        update={
            "level": Level.BLOCK,
            "code": REJECTED,
            "reason": f"{decision.reason}; rejected for this session by {by}",
            "message": "",
        }
    )
