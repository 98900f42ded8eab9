"""A person's approval of one call, bound to its canonical parameters and used once.

What is stopped with PAUSE carries a request. An operator approves it, rejects it, or asks for more first; a
critical one takes several operators. An approval lets one call with exactly these parameters pass: the one that
waits, or the next one. Time allows nothing: what nobody answers expires, is refused, and is told apart from what
somebody rejected. What is harder than PAUSE is not for an approval to let pass, nor is anything after a kill.

A request expires twice: on the agent's own clock when a call asks (`expires_ms`), and on the worker's at a tick
(`due_ms`, which counts from the first tick that sees it). Whichever comes first refuses.
"""

from collections.abc import Callable
from typing import Final

import orjson

from haltline.interventions.parameters import parameters
from haltline.interventions.said import NOTHING, Said, Who
from haltline.interventions.standing import Standing, digest
from haltline.interventions.tickets import Ticket, Waiter
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import ApprovalState, Decision, Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Policy

MAX_TICKETS: Final = 32
"""Requests of a session that are remembered, the oldest forgotten first: without one, nothing passes."""
MAX_WAITING: Final = 8
"""Calls of one request that wait, the first forgotten first: its side refuses it when its own time is over."""
ARM: Final = 1

_SHOWN_TARGETS = 8
_SHOWN_CHARS = 500
_MESSAGES = {
    ApprovalState.PENDING: "This needs a person's approval. Do nothing more until it is given.",
    ApprovalState.REJECTED: "A person has refused this. Do not try to reach the same end another way; report it.",
    ApprovalState.EXPIRED: "Nobody has approved this in time, so it is refused. Report it instead.",
    ApprovalState.USED: "The approval was for one call, and another one has used it. Report it instead.",
    ApprovalState.CANCELLED: "The request for an approval was taken back, so it is refused.",
}


def on_event(
    standing: Standing,
    event: ActionEvent,
    decision: Decision | None,
    policy: Policy,
    effect: Callable[[], Effect],
) -> Decision | None:
    """The decision on an event, with what approvals make of it. `effect` tells what the call does."""
    if standing.killed is not None or (decision is not None and decision.level > Level.PAUSE):
        return decision
    if event.kind is Kind.COMPLETED and event.outcome is Outcome.REFUSED:
        _take_back(standing, event)
    pauses = decision is not None and decision.level is Level.PAUSE
    if not pauses and not standing.approvals:
        return decision
    bound = parameters(event) if event.kind in {Kind.PROPOSED, Kind.COMPLETED} else None
    if bound is None:
        return decision
    ticket = _known(standing, bound, event.time)
    if decision is not None and pauses and ticket is None:
        ticket = standing.approvals[bound] = _request(event, decision, bound, policy, effect())
        if len(standing.approvals) > MAX_TICKETS:
            del standing.approvals[next(iter(standing.approvals))]
        _wait(ticket, event)
        return _with(decision, ticket)
    if ticket is None or event.kind is not Kind.PROPOSED:
        return decision if ticket is None or decision is None or not ticket.is_open else _with(decision, ticket)
    level = Level.PAUSE
    if ticket.state == ApprovalState.APPROVED:
        ticket.state, level = ApprovalState.USED.value, Level.ALLOW
        ticket.waiting = [Waiter(event.event_id, event.call_id)]
    elif ticket.state == ApprovalState.REJECTED:
        level = Level.BLOCK
    else:
        ticket.asked += 1
        ticket.state = ApprovalState.PENDING.value
        _wait(ticket, event)
        if decision is not None and pauses:
            return _with(decision, ticket)
    who, to = Who(event.session_id, event.agent_id), Waiter(event.event_id, event.call_id)
    return _answer(ticket, who, policy, time_ms=event.time, to=to, level=level)


def on_command(standing: Standing, who: Who, command: Command, policy: Policy) -> Said:
    """An operator's answer to a request. One that is not open, or is not the one that was seen, changes nothing."""
    ticket = _seen(standing, command)
    if ticket is None or not ticket.is_open:
        return Said(told="approval_void")
    if command.kind is CommandKind.WITHDRAW:
        ticket.state = ApprovalState.CANCELLED.value
        return _tell(ticket, who, policy, command.time, Level.BLOCK)
    if command.kind is CommandKind.ANSWER:
        ticket.state, ticket.answer = ApprovalState.PENDING.value, command.reason
        return Said((_noted(ticket, who, command, policy),), told="approval_answered")
    if command.kind is CommandKind.ASK:
        ticket.state, ticket.question = ApprovalState.INFO_REQUESTED.value, command.reason
        if ticket.asked_by:  # its side asks again and again, and goes on waiting
            return Said((_noted(ticket, who, command, policy),), told="approval_info_requested")
        return _tell(ticket, who, policy, command.time, Level.BLOCK if ticket.waiting else Level.NUDGE)
    yes, no = ticket.approved_by, ticket.rejected_by
    if command.kind is CommandKind.REJECT:
        yes, no = no, yes
    if command.by in no:
        no.remove(command.by)
    if command.by not in yes:
        yes.append(command.by)
    if len(ticket.approved_by) >= ticket.quorum:
        if standing.history is not None and not ticket.asked_by:
            standing.history.forgive()
        return _approved(ticket, who, policy, command.time)
    if len(ticket.rejected_by) > ticket.voters - ticket.quorum:
        ticket.state = ApprovalState.REJECTED.value
        return _tell(ticket, who, policy, command.time, Level.BLOCK)
    nobody = Waiter(ticket.request_id, None)
    vote = _answer(ticket, who, policy, time_ms=command.time, to=nobody, level=Level.ALLOW, once=command.command_id)
    return Said((vote,), told="approval_vote")


def on_use(standing: Standing, who: Who, command: Command, policy: Policy) -> Said:
    """Who asked for an approval makes the call now: it is used, and the same again changes nothing."""
    ticket = _seen(standing, command)
    if ticket is None or ticket.state != ApprovalState.APPROVED or not ticket.asked_by:
        return Said(told="approval_void")
    ticket.state, to = ApprovalState.USED.value, Waiter(ticket.request_id, None)
    used = _answer(ticket, who, policy, time_ms=command.time, to=to, level=Level.ALLOW, once=command.command_id)
    return Said((used,), told="approval_used")


def due_ms(standing: Standing) -> int:
    """When a tick has to look at the requests, epoch milliseconds; 0: never."""
    return min((ticket.due_ms or ARM for ticket in standing.approvals.values()), default=0)


def on_due(standing: Standing, who: Who, policy: Policy, now_ms: int) -> Said:
    """What follows from the first request that is due: its end is set, or it has come."""
    for bound, ticket in standing.approvals.items():
        if not ticket.due_ms:
            ticket.due_ms = now_ms + ticket.expires_ms - ticket.since_ms
            return NOTHING
        if ticket.due_ms <= now_ms:
            del standing.approvals[bound]
            if ticket.state in {ApprovalState.USED, ApprovalState.REJECTED, ApprovalState.CANCELLED}:
                return NOTHING
            ticket.state = ApprovalState.EXPIRED.value
            return _tell(ticket, who, policy, ticket.due_ms, Level.BLOCK)
    return NOTHING


def _seen(standing: Standing, command: Command) -> Ticket | None:
    """The request that a command is about, as it was seen; None for a session that is killed."""
    ticket = next((t for t in standing.approvals.values() if t.request_id == command.request_id), None)
    return None if ticket is None or ticket.nonce != command.nonce or standing.killed is not None else ticket


def _known(standing: Standing, bound: str, time_ms: int) -> Ticket | None:
    """The request about such a call that still holds at this moment of event time."""
    ticket = standing.approvals.get(bound)
    over = ticket is None or time_ms >= ticket.expires_ms or ticket.state == ApprovalState.USED
    return None if over else ticket  # a tick says so, unless a new request takes its place before


def _request(event: ActionEvent, decision: Decision, bound: str, policy: Policy, effect: Effect) -> Ticket:
    rules = policy.operated.approvals
    priority = decision.severity or Severity.MEDIUM
    if priority is Severity.CRITICAL and effect is not Effect.DESTRUCTIVE:
        priority = Severity.HIGH
    critical = priority is Severity.CRITICAL
    request_id = digest("approval", event.session_id, event.event_id, bound)[:16]
    return Ticket(
        request_id=request_id,
        nonce=digest("nonce", request_id, decision.decision_id, bound),
        parameters=bound,
        priority=priority.value,
        action=event.action,
        targets=event.targets[:_SHOWN_TARGETS],
        arguments=orjson.dumps(event.args or {}).decode()[:_SHOWN_CHARS],
        reason=decision.reason[:_SHOWN_CHARS],
        quorum=rules.critical_quorum if critical else rules.quorum,
        voters=max(rules.critical_voters, rules.critical_quorum) if critical else rules.quorum,
        since_ms=event.time,
        expires_ms=event.time + round(rules.expires_s * 1000),
    )


def _wait(ticket: Ticket, event: ActionEvent) -> None:
    if event.kind is Kind.PROPOSED and event.await_verdict:
        ticket.waiting.append(Waiter(event.event_id, event.call_id))
        del ticket.waiting[:-MAX_WAITING]


def _take_back(standing: Standing, event: ActionEvent) -> None:
    """A call was not made after all: it waits no longer, and an approval that it was given is still there."""
    for ticket in standing.approvals.values():
        if event.call_id is None or not any(w.call_id == event.call_id for w in ticket.waiting):
            continue
        ticket.waiting = [w for w in ticket.waiting if w.call_id != event.call_id]
        if ticket.state == ApprovalState.USED:
            ticket.state = ApprovalState.APPROVED.value


def _approved(ticket: Ticket, who: Who, policy: Policy, time_ms: int) -> Said:
    if ticket.asked_by or not ticket.waiting:  # who asked says itself when it makes the call
        ticket.state = ApprovalState.APPROVED.value
        return _tell(ticket, who, policy, time_ms, Level.ALLOW)
    ticket.state = ApprovalState.USED.value
    first, *others = ticket.waiting
    ticket.waiting = [first]
    answers = [_answer(ticket, who, policy, time_ms=time_ms, to=first, level=Level.ALLOW)]
    answers += [_answer(ticket, who, policy, time_ms=time_ms, to=other, level=Level.BLOCK) for other in others]
    return Said(tuple(answers), told="approval_approved")


def _tell(ticket: Ticket, who: Who, policy: Policy, time_ms: int, level: Level) -> Said:
    """The same answer to all that wait; to nobody in particular when nothing waits."""
    waiting, ticket.waiting = ticket.waiting or [Waiter(ticket.request_id, None)], []
    answers = [_answer(ticket, who, policy, time_ms=time_ms, to=waiter, level=level) for waiter in waiting]
    return Said(tuple(answers), told=f"approval_{ticket.state}")


def _noted(ticket: Ticket, who: Who, command: Command, policy: Policy) -> Decision:
    """How a request stands that somebody's own guard waits for: told to it, and it goes on waiting."""
    to = Waiter(ticket.request_id, None)
    return _answer(ticket, who, policy, time_ms=command.time, to=to, level=Level.NUDGE, once=command.command_id)


def _with(decision: Decision, ticket: Ticket) -> Decision:
    return decision.model_copy(update={"approval": ticket.said(), "expires": ticket.expires_ms})


def _answer(
    ticket: Ticket, who: Who, policy: Policy, *, time_ms: int, to: Waiter, level: Level, once: str = ""
) -> Decision:
    state = ApprovalState(ticket.state)
    names = ", ".join(ticket.rejected_by if state is ApprovalState.REJECTED else ticket.approved_by)
    allowed = level is Level.ALLOW and state in {ApprovalState.APPROVED, ApprovalState.USED}
    code = "approved" if allowed else f"approval_{'vote' if level is Level.ALLOW else state}"
    message = "" if level is Level.ALLOW else _MESSAGES.get(state, "")
    if state is ApprovalState.INFO_REQUESTED:
        message = f"A person asks before this is approved: {ticket.question} Answer, then call it again as it was."
    return Decision(
        decision_id=digest("approval", ticket.request_id, code, to.event_id, once),
        session_id=who.session_id,
        agent_id=who.agent_id,
        event_id=to.event_id,
        call_id=to.call_id,
        time=time_ms,
        level=level,
        code=code,
        reason=f"{ticket.action}: {code}{f' by {names}' if names else ''}; was stopped for: {ticket.reason}",
        message=message,
        detector="approval",
        policy=policy.name,
        policy_version=policy.version,
        approval=ticket.said(),
    )
