"""A person's approval of one call, bound to its canonical parameters and used once.

A PAUSE has a request. An operator approves it, rejects it, or asks a question first; a critical one takes several
operators. An approval allows one call with exactly these parameters: the one that waits, or the next one. A request
without an answer expires and its call is refused, with another code than a rejected one. An approval allows nothing
above PAUSE, and no call of a killed session.

One cause has one open request. A further call that is paused for it, with other parameters, is queued behind that
request: a rejection or the expiry applies to all of them; an approval allows its own call, and opens a request for the
next one. For rules that ask once in a session the answer applies to more: see `declared_batches`.
A PAUSE without a call (on a model turn, or on spending) freezes the session until its request is approved or an
operator lifts it, also after the request has expired.

A request expires on two clocks, whichever is first: the event time of a call (`expires_ms`), and the worker's at a tick
(`due_ms`, counted from the first tick that sees it).
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from haltline.interventions.control import declared_batches
from haltline.interventions.control.request_queue import answered_by, forget, gather, head_of, line_up, remember
from haltline.interventions.levels import hold
from haltline.interventions.levels.default_levels import cause_of_rule, freeze_code
from haltline.interventions.state.approval_ticket import ApprovalTicket, Waiter
from haltline.interventions.state.call_digest import parameters
from haltline.interventions.state.effects import NOTHING, ControlEffects, SessionRef
from haltline.interventions.state.records import about_session
from haltline.interventions.state.session_control import Freeze, SessionControl, digest
from haltline.schemas.control import HALTLINE, Command, CommandKind, ControlState
from haltline.schemas.decisions import WHOLE_SESSION, ApprovalState, Decision, Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Policy
from haltline.schemas.record import canonical_json

MAX_WAITING: Final = 8
"""Calls that can wait for one request; the oldest is dropped first, and its guard refuses it at its expiry."""
ARM: Final = 1

_OVER: Final = frozenset({ApprovalState.USED, ApprovalState.REJECTED, ApprovalState.CANCELLED, ApprovalState.EXPIRED})
_SHOWN_TARGETS = 8
_SHOWN_CHARS = 500


def on_event(
    control: SessionControl,
    event: ActionEvent,
    decision: Decision | None,
    policy: Policy,
    effect: Callable[[], Effect],
) -> Decision | None:
    """Return the decision on an event, changed by open and answered approvals. `effect` gives the call's effect."""
    if decision is not None and decision.detector == hold.DETECTOR and control.held is not None:
        return _freeze(control, event, decision, policy) if control.held.by == HALTLINE else decision
    if control.killed is not None or (decision is not None and decision.level > Level.PAUSE):
        return decision
    if event.kind is Kind.COMPLETED and event.outcome is Outcome.REFUSED:
        _take_back(control, event)
    pauses = decision is not None and decision.level is Level.PAUSE
    if not pauses and not control.approvals:
        return decision
    bound = parameters(event) if event.kind in {Kind.PROPOSED, Kind.COMPLETED} else None
    if decision is not None and hold.freezes(event, decision):
        return _freeze(control, event, decision, policy)
    if bound is None:
        return decision
    ticket = _known(control, bound, event.time)
    if ticket is not None and ticket.state == ApprovalState.CANCELLED and (pauses or event.kind is Kind.PROPOSED):
        # The request was not answered, and the call is repeated: open a new request.
        ticket = _reopened(control, ticket, event, bound, policy)
    if decision is not None and pauses and ticket is None:
        if (refused := declared_batches.after_rejection(control, decision)) is not None:
            return refused
        ticket = _request(event, decision, bound, policy, effect())
        remember(control, bound, ticket)
        head = line_up(control, ticket)
        _wait(ticket, event)
        return _with(decision, head, ticket)
    if ticket is None or event.kind is not Kind.PROPOSED:
        if ticket is None or decision is None or not ticket.is_open:
            return decision
        return _with(decision, head_of(control, ticket), ticket)
    return _again(control, ticket, event, decision if pauses else None, policy)


def _again(
    control: SessionControl, ticket: ApprovalTicket, event: ActionEvent, pause: Decision | None, policy: Policy
) -> Decision:
    """Return the decision on a call that already has a request; `pause`: the decision that pauses it now."""
    head, level = head_of(control, ticket), Level.PAUSE
    if ticket.state == ApprovalState.APPROVED:
        ticket.state, level = ApprovalState.USED.value, Level.ALLOW
        ticket.waiting = [Waiter(event.event_id, event.call_id)]
    elif ticket.state == ApprovalState.REJECTED:
        level = Level.BLOCK
    else:
        ticket.asked += 1
        ticket.state = ApprovalState.PENDING.value
        _wait(ticket, event)
        if pause is not None:
            return _with(pause, head, ticket)
    who, to = SessionRef(event.session_id, event.agent_id), Waiter(event.event_id, event.call_id)
    answer = _answer(head, who, policy, time_ms=event.time, to=to, level=level)
    return _with(answer, head, ticket) if ticket.behind else answer


def _freeze(control: SessionControl, event: ActionEvent, decision: Decision, policy: Policy) -> Decision:
    """Freeze the whole session, with one open request, however often the rule finds the cause."""
    bound = digest("session", event.session_id)
    ticket = _known(control, bound, event.time)
    if ticket is None or not ticket.is_open:
        ticket = _request(event, decision, bound, policy, Effect.READ)
        remember(control, bound, ticket)
        ticket.action, ticket.targets, ticket.arguments = WHOLE_SESSION, [], ""
    if control.held is None:
        code, reason = freeze_code(decision.detector), decision.reason[:_SHOWN_CHARS]
        control.held = Freeze(ControlState.FROZEN.value, HALTLINE, reason, event.time, decision.decision_id, code)
        control.judging = None
    if decision.detector == hold.DETECTOR:  # the request expired, and the session goes on
        ticket.cause = hold.cause_of(control.held)
    _wait(ticket, event)
    return _with(decision, ticket, ticket)


def release(control: SessionControl, who: SessionRef, policy: Policy, time_ms: int, by: str) -> tuple[Decision, ...]:
    """Approve the request of the session's freeze, which the caller lifts. Returns the answers to publish."""
    ticket = control.approvals.pop(digest("session", who.session_id), None)
    if ticket is None or not ticket.is_open:
        return ()
    ticket.approved_by = [*ticket.approved_by, by]
    return _approved(ticket, who, policy, time_ms).decisions


def freezes(control: SessionControl, command: Command) -> bool:
    """Return whether a command answers the request that freezes the session."""
    ticket = _seen(control, command)
    frozen = control.held is not None and control.held.by == HALTLINE
    return frozen and ticket is not None and ticket.action == WHOLE_SESSION


def on_command(control: SessionControl, who: SessionRef, command: Command, policy: Policy) -> ControlEffects:
    """Return the effects of an operator's answer; none for a request that is closed or was replaced."""
    ticket = _seen(control, command)
    if ticket is None or not ticket.is_open or ticket.behind:
        return ControlEffects(followup="approval_void")
    if command.kind is CommandKind.ASK:
        ticket.state, ticket.question = ApprovalState.INFO_REQUESTED.value, command.reason
        return _answer_all(ticket, who, policy, command.time, Level.BLOCK if ticket.waiting else Level.NUDGE)
    yes, no = ticket.approved_by, ticket.rejected_by
    if command.kind is CommandKind.REJECT:
        yes, no = no, yes
    if command.by in no:
        no.remove(command.by)
    if command.by not in yes:
        yes.append(command.by)
    if len(ticket.approved_by) >= ticket.quorum:
        if control.history is not None:
            control.history.forgive()
        effects = _approved(ticket, who, policy, command.time)
        for other in declared_batches.approve(control, ticket, policy, command.time):
            effects = _and(effects, *_approved(other, who, policy, command.time).decisions)
        return _and(effects, _next_in_line(control, ticket, who, policy, command.time))
    if len(ticket.rejected_by) > ticket.voters - ticket.quorum:
        ticket.state = ApprovalState.REJECTED.value
        declared_batches.reject(control, ticket)
        gather(control, ticket)
        return _answer_all(ticket, who, policy, command.time, Level.BLOCK)
    nobody = Waiter(ticket.request_id, None)
    vote = _answer(ticket, who, policy, time_ms=command.time, to=nobody, level=Level.ALLOW, once=command.command_id)
    return ControlEffects((vote,), followup="approval_vote")


def due_ms(control: SessionControl) -> int:
    """Return when the next tick must check the requests, in epoch milliseconds; 0: never."""
    return min((ticket.due_ms or ARM for ticket in control.approvals.values() if not ticket.behind), default=0)


def on_due(control: SessionControl, who: SessionRef, policy: Policy, now_ms: int) -> ControlEffects:
    """Return the effects of the first request that is due: its expiry is set, or it expires."""
    for bound, ticket in control.approvals.items():
        if ticket.behind:
            continue  # ends with the one before it
        if not ticket.due_ms:
            ticket.due_ms = now_ms + ticket.expires_ms - ticket.since_ms
            return NOTHING
        if ticket.due_ms <= now_ms:
            is_over = ticket.state in _OVER
            asks_on = ticket.rule and not is_over
            following = _next_in_line(control, ticket, who, policy, ticket.due_ms) if asks_on else None
            gather(control, ticket)
            forget(control, bound)
            if is_over:
                return NOTHING
            ticket.state = ApprovalState.EXPIRED.value
            return _and(_answer_all(ticket, who, policy, ticket.due_ms, Level.BLOCK), following)
    return NOTHING


def close(
    control: SessionControl,
    who: SessionRef,
    policy: Policy,
    time_ms: int,
    why: str,
    *,
    requests: Collection[str] | None = None,
) -> tuple[Decision, ...]:
    """Close the open requests with these ids, or all, when no answer is needed; waiting calls are refused."""
    closed: list[Decision] = []
    for ticket in list(control.approvals.values()):
        if not ticket.is_open or ticket.behind or (requests is not None and ticket.request_id not in requests):
            continue
        ticket.state, ticket.closed = ApprovalState.CANCELLED.value, why
        if time_ms >= ticket.expires_ms:  # it has expired, and no tick has closed it yet
            ticket.state, ticket.closed = ApprovalState.EXPIRED.value, ""
        gather(control, ticket)
        closed += _answer_all(ticket, who, policy, time_ms, Level.BLOCK).decisions
        for bound in ticket.also:  # each gets a new request if the call is repeated
            control.approvals[bound].behind = ""
        ticket.also = []
    return tuple(closed)


def _seen(control: SessionControl, command: Command) -> ApprovalTicket | None:
    """Return the request that a command answers, if it is unchanged; None for a killed session."""
    ticket = next((t for t in control.approvals.values() if t.request_id == command.request_id), None)
    return None if ticket is None or ticket.nonce != command.nonce or control.killed is not None else ticket


def _known(control: SessionControl, bound: str, time_ms: int) -> ApprovalTicket | None:
    """Return the request for such a call if it has not expired at `time_ms` (event time)."""
    ticket = control.approvals.get(bound)
    over = ticket is None or time_ms >= ticket.expires_ms or ticket.state == ApprovalState.USED
    return None if over else ticket  # a tick reports the expiry, unless a new request replaces it before


def _request(event: ActionEvent, decision: Decision, bound: str, policy: Policy, effect: Effect) -> ApprovalTicket:
    rules = policy.operated.approvals
    priority = decision.severity or Severity.MEDIUM
    rule = declared_batches.rule_of(decision)
    if priority is Severity.CRITICAL and (effect is not Effect.DESTRUCTIVE or rule):
        priority = Severity.HIGH
    quorum, voters = answered_by(rules, priority)
    request_id = digest("approval", event.session_id, event.event_id, bound)[:16]
    return ApprovalTicket(
        request_id=request_id,
        nonce=digest("nonce", request_id, decision.decision_id, bound),
        parameters=bound,
        priority=priority.value,
        action=event.action,
        targets=event.targets[:_SHOWN_TARGETS],
        arguments=canonical_json(event.args or {}).decode()[:_SHOWN_CHARS],
        reason=decision.reason[:_SHOWN_CHARS],
        quorum=quorum,
        voters=voters,
        since_ms=event.time,
        expires_ms=event.time + round(rules.expires_s * 1000),
        cause=cause_of_rule(decision.detector or decision.code),
        rule=rule,
    )


def _reopened(
    control: SessionControl, ticket: ApprovalTicket, event: ActionEvent, bound: str, policy: Policy
) -> ApprovalTicket:
    """Return a new request for a call whose request was closed."""
    request_id = digest("approval", event.session_id, event.event_id, bound)[:16]
    again = replace(
        ticket,
        request_id=request_id,
        nonce=digest("nonce", request_id, ticket.nonce, bound),
        state=ApprovalState.PENDING.value,
        approved_by=[],
        rejected_by=[],
        question="",
        asked=0 if event.kind is Kind.PROPOSED else 1,
        due_ms=0,
        waiting=[],
        since_ms=event.time,
        expires_ms=event.time + round(policy.operated.approvals.expires_s * 1000),
        behind="",
        also=[],
        closed="",
    )
    remember(control, bound, again)
    line_up(control, again)
    return again


def _and(effects: ControlEffects, *more: Decision | None) -> ControlEffects:
    return replace(effects, decisions=(*effects.decisions, *(one for one in more if one is not None)))


def _next_in_line(
    control: SessionControl, head: ApprovalTicket, who: SessionRef, policy: Policy, time_ms: int
) -> Decision | None:
    """After an approval, open a request for the first queued call, and queue the others behind it."""
    others, head.also = head.also, []
    if not others:
        return None
    first, *rest = (control.approvals[bound] for bound in others)
    first.behind, first.also, first.due_ms = "", [ticket.parameters for ticket in rest], 0
    # The time starts now, as nobody could answer it before.
    first.since_ms, first.expires_ms = time_ms, time_ms + round(policy.operated.approvals.expires_s * 1000)
    for ticket in rest:
        ticket.behind, ticket.expires_ms = first.request_id, first.expires_ms
    return _answer(first, who, policy, time_ms=time_ms, to=Waiter(first.request_id, None), level=Level.PAUSE)


def _wait(ticket: ApprovalTicket, event: ActionEvent) -> None:
    if event.kind is Kind.PROPOSED and event.await_verdict:
        ticket.waiting.append(Waiter(event.event_id, event.call_id))
        del ticket.waiting[:-MAX_WAITING]


def _take_back(control: SessionControl, event: ActionEvent) -> None:
    """Handle a call that was not made: it no longer waits, and its approval stays unused."""
    for ticket in control.approvals.values():
        if event.call_id is None or not any(w.call_id == event.call_id for w in ticket.waiting):
            continue
        ticket.waiting = [w for w in ticket.waiting if w.call_id != event.call_id]
        if ticket.state == ApprovalState.USED:
            ticket.state = ApprovalState.APPROVED.value


def _approved(ticket: ApprovalTicket, who: SessionRef, policy: Policy, time_ms: int) -> ControlEffects:
    if not ticket.waiting or ticket.action == WHOLE_SESSION:  # for the next call, or for all calls of the session
        ticket.state = ApprovalState.APPROVED.value
        return _answer_all(ticket, who, policy, time_ms, Level.ALLOW)
    ticket.state = ApprovalState.USED.value
    first, *others = ticket.waiting
    ticket.waiting = [first]
    answers = [_answer(ticket, who, policy, time_ms=time_ms, to=first, level=Level.ALLOW)]
    answers += [_answer(ticket, who, policy, time_ms=time_ms, to=other, level=Level.BLOCK) for other in others]
    return ControlEffects(tuple(answers), followup="approval_approved")


def _answer_all(ticket: ApprovalTicket, who: SessionRef, policy: Policy, time_ms: int, level: Level) -> ControlEffects:
    """Give every waiting call the same answer; if none waits, return an answer addressed to no call."""
    waiting, ticket.waiting = ticket.waiting or [Waiter(ticket.request_id, None)], []
    answers = [_answer(ticket, who, policy, time_ms=time_ms, to=waiter, level=level) for waiter in waiting]
    return ControlEffects(tuple(answers), followup=f"approval_{ticket.state}")


def _with(decision: Decision, head: ApprovalTicket, ticket: ApprovalTicket) -> Decision:
    approval = head.as_approval()
    if ticket is not head:
        approval = approval.model_copy(update={"behind": True})
    return decision.model_copy(update={"approval": approval, "expires": head.expires_ms})


def _answer(
    ticket: ApprovalTicket, who: SessionRef, policy: Policy, *, time_ms: int, to: Waiter, level: Level, once: str = ""
) -> Decision:
    state = ApprovalState(ticket.state)
    names = ", ".join(ticket.rejected_by if state is ApprovalState.REJECTED else ticket.approved_by)
    allowed = level is Level.ALLOW and state in {ApprovalState.APPROVED, ApprovalState.USED}
    code = "approved" if allowed else f"approval_{'vote' if level is Level.ALLOW else state}"
    stood = f" as {ticket.closed.replace('_', ' ')}" if ticket.closed else f" by {names}" if names else ""
    return Decision(
        decision_id=digest("approval", ticket.request_id, code, to.event_id, once),
        event_id=to.event_id,
        call_id=to.call_id,
        time=time_ms,
        level=level,
        code=code,
        reason=f"{ticket.action}: {code}{stood}; was stopped for: {ticket.reason}",
        detector="approval",
        **about_session(who, policy),
        approval=ticket.as_approval(),
        expires=ticket.expires_ms if level is Level.PAUSE else None,
    )
