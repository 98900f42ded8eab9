"""Proposals of a session whose verdict, or a person's answer, is awaited. Not thread safe, no I/O."""

import time
from collections import OrderedDict
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass

from haltline.interventions.agent.enforcement.pending_approvals import awaits_approval, is_answer
from haltline.schemas.decisions import Decision, Level

_MAX_AWAITED = 512

Verdict = Future[Decision | None]
"""None: there is none, or none any more."""


@dataclass(slots=True)
class AwaitedVerdict:
    """A proposal whose verdict is not known yet, or was too late."""

    verdict: Verdict
    since_s: float
    not_done: bool = False
    """The call was refused without a verdict: a late refusal is nothing new."""
    request_id: str | None = None
    """The request that a person is to answer; None: the worker's verdict is awaited."""

    def is_answered_by(self, decision: Decision) -> bool:
        """Whether it is what is waited for. A decision of a rule across sessions names an event without judging it.

        What refuses more than a person may let pass always ends the waiting.
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
    """By the id of the proposal; of more than 512 the oldest are forgotten."""

    def __init__(self, budget_s: float, first_budget_s: float) -> None:
        self.silent = False
        """The last verdict that was waited for did not come in time."""
        self._budget_s = budget_s
        self._first_budget_s = first_budget_s
        self._awaited: OrderedDict[str, AwaitedVerdict] = OrderedDict()
        self._first_request_s: float | None = None  # of this connection
        self._was_answered = False

    def reconnected(self) -> None:
        """The next verdict is the first of a connection."""
        self._first_request_s, self._was_answered = None, False

    def wait_s(self, budget_s: float) -> float:
        """How long the next verdict is waited for: the first of a connection may take as long as a start."""
        if self._was_answered:
            return budget_s
        now_s = time.monotonic()
        if self._first_request_s is None:
            self._first_request_s = now_s
        return max(budget_s, self._first_request_s + self._first_budget_s - now_s)

    def expect(self, event_id: str) -> Verdict:
        """The verdict that is to come on a proposal."""
        waiting = self._awaited[event_id] = AwaitedVerdict(Future(), time.monotonic())
        while len(self._awaited) > _MAX_AWAITED:
            self._awaited.popitem(last=False)
        return waiting.verdict

    def of(self, event_id: str) -> Verdict | None:
        """What is awaited on a proposal now."""
        waiting = self._awaited.get(event_id)
        return None if waiting is None else waiting.verdict

    def forget(self, event_id: str, verdict: Verdict) -> None:
        """Expects it no longer."""
        if self.of(event_id) is verdict:  # not what is expected of a person since
            del self._awaited[event_id]

    def give_up(self, event_id: str, *, refused: bool) -> None:
        """The verdict did not come in time; the call is refused for it, or goes on."""
        self.silent = True
        waiting = self._awaited.get(event_id)
        if waiting is not None:
            waiting.not_done = refused

    def answered_by(self, decision: Decision) -> AwaitedVerdict | None:
        """What waits for this decision; it waits no longer, but a person's answer stays until it is fetched."""
        waiting = self._awaited.get(decision.event_id)
        if waiting is None or not waiting.is_answered_by(decision):
            return None
        if waiting.request_id is None:
            del self._awaited[decision.event_id]
        return waiting

    def wait_on(self, decision: Decision) -> None:
        """The call may wait on, for a person's answer."""
        approval = awaits_approval(decision)
        if approval is not None:
            waiting = AwaitedVerdict(Future(), time.monotonic(), request_id=approval.request_id)
            self._awaited[decision.event_id] = waiting

    def arrived(self, waiting: AwaitedVerdict | None) -> None:
        """The worker answers in time again."""
        self._was_answered = self._was_answered or waiting is not None
        if waiting is not None and time.monotonic() - waiting.since_s <= self._budget_s:
            self.silent = False

    def end(self) -> None:
        """No verdict is to come any more."""
        for waiting in self._awaited.values():
            resolve(waiting.verdict, None)


def resolve(future: Future[None] | Verdict, value: None) -> None:
    """Sets a result that may be there already."""
    with suppress(InvalidStateError):  # answered, or nobody waits any more
        future.set_result(value)


def answer(waiting: AwaitedVerdict | None, verdict: Decision | None) -> bool:
    """False: nobody waits for it."""
    if waiting is None or waiting.not_done:
        return False
    try:
        waiting.verdict.set_result(verdict)
    except InvalidStateError:
        return False
    return True
