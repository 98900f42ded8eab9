"""Proposals of a session that await a verdict, or a person's answer. Not thread safe, no I/O."""

import time
from collections import OrderedDict
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass

from haltline.interventions.agent.enforcement.pending_approvals import awaits_approval, is_answer
from haltline.schemas.decisions import Decision, Level

_MAX_AWAITED = 512

Verdict = Future[Decision | None]
"""None: there is no verdict."""


@dataclass(slots=True)
class AwaitedVerdict:
    """A proposal whose verdict has not arrived, or arrived too late."""

    verdict: Verdict
    since_s: float
    not_done: bool = False
    """The call was refused without a verdict: a late refusal changes nothing."""
    request_id: str | None = None
    """The approval request to wait for; None: the worker's verdict is awaited."""

    def is_answered_by(self, decision: Decision) -> bool:
        """Return whether the decision is the awaited one, as rules across sessions name events without judging them.

        A decision above PAUSE always ends the wait.
        """
        if decision.level > Level.PAUSE:
            return True
        if self.request_id is not None:
            return (
                is_answer(decision)
                and decision.approval is not None
                and (decision.approval.request_id == self.request_id)
            )
        return decision.scope_id is None or decision.level is Level.PAUSE


class AwaitedVerdicts:
    """Awaited verdicts by the proposal's id; beyond 512 the oldest is dropped."""

    def __init__(self, budget_s: float, first_budget_s: float) -> None:
        self.silent = False
        """The last awaited verdict did not arrive in time."""
        self._budget_s = budget_s
        self._first_budget_s = first_budget_s
        self._awaited: OrderedDict[str, AwaitedVerdict] = OrderedDict()
        self._first_request_s: float | None = None  # on this connection
        self._was_answered = False

    def reconnected(self) -> None:
        """Reset the time limit: the next verdict is the first of a new connection."""
        self._first_request_s, self._was_answered = None, False

    def wait_s(self, budget_s: float) -> float:
        """Return the seconds to wait for the next verdict: the first of a connection may take the start-up time."""
        if self._was_answered:
            return budget_s
        now_s = time.monotonic()
        if self._first_request_s is None:
            self._first_request_s = now_s
        return max(budget_s, self._first_request_s + self._first_budget_s - now_s)

    def expect(self, event_id: str) -> Verdict:
        """Register a proposal and return the future of its verdict."""
        waiting = self._awaited[event_id] = AwaitedVerdict(Future(), time.monotonic())
        while len(self._awaited) > _MAX_AWAITED:
            self._awaited.popitem(last=False)
        return waiting.verdict

    def of(self, event_id: str) -> Verdict | None:
        """Return the future of a proposal's verdict, if it is awaited."""
        waiting = self._awaited.get(event_id)
        return None if waiting is None else waiting.verdict

    def forget(self, event_id: str, verdict: Verdict) -> None:
        """Stop waiting for this verdict."""
        if self.of(event_id) is verdict:  # a person's answer may be awaited since
            del self._awaited[event_id]

    def give_up(self, event_id: str, *, refused: bool) -> None:
        """Record that the verdict did not arrive in time; the call is refused for it, or continues."""
        self.silent = True
        waiting = self._awaited.get(event_id)
        if waiting is not None:
            waiting.not_done = refused

    def answered_by(self, decision: Decision) -> AwaitedVerdict | None:
        """Return the proposal that awaits this decision, and remove it; one that awaits a person's answer stays."""
        waiting = self._awaited.get(decision.event_id)
        if waiting is None or not waiting.is_answered_by(decision):
            return None
        if waiting.request_id is None:
            del self._awaited[decision.event_id]
        return waiting

    def wait_on(self, decision: Decision) -> None:
        """Let the call wait for a person's answer."""
        approval = awaits_approval(decision)
        if approval is not None:
            waiting = AwaitedVerdict(Future(), time.monotonic(), request_id=approval.request_id)
            self._awaited[decision.event_id] = waiting

    def arrived(self, waiting: AwaitedVerdict | None) -> None:
        """Record that the worker answers in time again."""
        self._was_answered = self._was_answered or waiting is not None
        if waiting is not None and time.monotonic() - waiting.since_s <= self._budget_s:
            self.silent = False

    def end(self) -> None:
        """Complete all futures with None."""
        for waiting in self._awaited.values():
            resolve(waiting.verdict, None)


def resolve(future: Future[None] | Verdict, value: None) -> None:
    """Set a result, unless it is set already."""
    with suppress(InvalidStateError):  # answered, or cancelled
        future.set_result(value)


def answer(waiting: AwaitedVerdict | None, verdict: Decision | None) -> bool:
    """Set the verdict. False: no call waits for it."""
    if waiting is None or waiting.not_done:
        return False
    try:
        waiting.verdict.set_result(verdict)
    except InvalidStateError:
        return False
    return True
