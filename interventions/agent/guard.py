"""The guard: what an agent's tools go through. The main path is `_admission`."""

import asyncio
import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from haltline.interventions.agent.action import Action, Steps, wait
from haltline.interventions.agent.allowance import Allowance
from haltline.interventions.agent.calls import Call, Targets, checked, describe_error, describe_output, targets_of
from haltline.interventions.agent.causes import Advice, Cause
from haltline.interventions.agent.enforcer import Enforcer
from haltline.interventions.agent.link import Link
from haltline.interventions.agent.pending import APPROVAL_EXPIRED, APPROVAL_PENDING, awaits_approval
from haltline.interventions.agent.redaction import without_secrets
from haltline.interventions.agent.refused import NO_VERDICT, Refused
from haltline.interventions.agent.reporter import Reporter, now_ms
from haltline.interventions.agent.settings import CallMode, GuardOptions, GuardSettings
from haltline.interventions.agent.tools import guarded, name_of
from haltline.interventions.agent.ways import decider_of, link_of
from haltline.interventions.parameters import parameters
from haltline.schemas.control import Stage
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome, Usage
from haltline.schemas.payloads import Checkpoint
from haltline.schemas.policy import Policy

P = ParamSpec("P")
R = TypeVar("R")

log: Final = logging.getLogger("haltline.agent")

_NOBODY: Final = Cause(
    "", NO_VERDICT, "Nobody could be asked whether this may be done, and it could do harm. Report it instead."
)

_PARENTS_LINKS: list[Link] = []


class Guard:
    """Watches one session of one agent: publishes what it does, and refuses what must not be done.

    Keyword arguments are the fields of GuardSettings; or pass a GuardSettings, which the keywords then change.
    `on_advice` is called, in the thread of the call, with each Advice before a call goes on. `policy` is what mode
    `local` decides by. Raises ValueError for settings that cannot work; after that nothing raises but Refused.
    """

    _started_s: float | None
    _closed: bool

    def __init__(
        self,
        settings: GuardSettings | None = None,
        /,
        *,
        on_advice: Callable[[Advice], object] | None = None,
        policy: Policy | None = None,
        link: Link | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        self.settings = GuardSettings(**options) if settings is None else settings.changed(**options)
        self._on_advice = on_advice
        self._decider = decider_of(self.settings, policy)
        self._given_link = link
        self._is_fork = False
        self._open()

    @property
    def session_id(self) -> str:
        """The session that this guard watches."""
        return self.settings.session_id

    @property
    def killed(self) -> bool:
        """Whether every further call of this guard is refused, for ever."""
        return self._enforcer.killed is not None

    @property
    def ready(self) -> bool:
        """Whether it is known what stands: the control topic has been read."""
        return self._enforcer.is_loaded

    @property
    def degraded(self) -> str | None:
        """Why decisions cannot be relied on now; None when they can. What would do harm is refused meanwhile."""
        return self._enforcer.degraded(link_up=self._link.up)

    @property
    def dropped(self) -> int:
        """Records that did not reach the broker: it was away for too long, or too slow."""
        return self._reporter.dropped + self._link.undelivered

    @overload
    def tool(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        effect: Effect | str | None = None,
        targets: Targets | None = None,
        mode: Literal["async", "blocking"] | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def tool(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        effect: Effect | str | None = None,
        targets: Targets | None = None,
        mode: Literal["async", "blocking"] | None = None,
    ) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorator: every call of the function goes through the guard; a coroutine function stays one.

        `name` is the function's own if left out. `effect` raises what the name tells; `targets` are
        names of arguments, or a function from the arguments to `["asset_id=fact_sales"]`. Raises
        TypeError for a generator function, which has no one end, and ValueError for an effect or a
        mode that does not exist.
        """

        def decorate(inner: Callable[P, R]) -> Callable[P, R]:
            action = name or name_of(inner)
            known = checked(action, effect, mode)
            return guarded(inner, lambda args: self._action(action, args, targets_of(action, targets, args), *known))

        return decorate if function is None else decorate(function)

    def action(
        self,
        name: str,
        *,
        args: Mapping[str, Any] | None = None,
        targets: Sequence[str] = (),
        effect: Effect | str | None = None,
        mode: Literal["async", "blocking"] | None = None,
    ) -> Action:
        """One call as a context manager, `with` or `async with`; `targets` are `["asset_id=fact_sales"]`.

        Entering raises Refused when the call must not be made. Raises ValueError for an effect or a
        mode that does not exist.
        """
        return self._action(name, args or {}, targets, *checked(name, effect, mode))

    def check(self) -> None:
        """For long work outside of tools, between two steps. Raises Refused when the session must not go on."""
        self.start()
        if not self._enforcer.is_loaded and (left_s := self._start_left_s()) > 0:
            wait(self._enforcer.when_loaded(), left_s)
        cause = self._enforcer.against("", ())
        if cause is not None:
            raise cause.refusal()

    def model_turn(self, *, usage: Usage | None = None, output: str | None = None) -> None:
        """Tell of one turn of the model: what it used (increments), and what it said."""
        self.start()
        self._tell(Kind.MODEL_TURN, usage=usage, **(describe_output(output, self.settings) if output else {}))

    def checkpoint(self, checkpoint_id: str, *, safe: bool = True) -> None:
        """Tell that a state was kept under this id: a rollback names it in `Refused.decision.checkpoint`."""
        self.start()
        self._tell(Kind.HEARTBEAT, checkpoint=Checkpoint(id=checkpoint_id, safe=safe))

    def start(self) -> None:
        """Begin to listen, and tell that the session has started. Returns at once; a second time does nothing."""
        if self._pid != os.getpid():
            self._go_on_after_fork()
        if self._started_s is not None:
            return
        with self._start_lock:
            if self._started_s is not None:
                return
            self._started_s = time.monotonic()
        atexit.register(self.close)
        try:
            self._link.start(self._enforcer)
        except Exception:  # no thread to be had, the interpreter ends: calls follow the fail policy
            log.exception("haltline: session %s: cannot listen", self.session_id)
        if not self._is_fork:
            self._tell(Kind.SESSION_STARTED, task=without_secrets(self.settings.task))

    def close(self) -> None:
        """Tell that the session has ended, wait until all is sent (`close_budget_s`), stop listening."""
        with self._start_lock:
            if self._started_s is None or self._closed or self._pid != os.getpid():
                return
            self._closed = True
        atexit.unregister(self.close)
        if not self._is_fork:
            self._tell(Kind.SESSION_ENDED)
        left = self._link.close(self.settings.close_budget_s)
        if left:
            log.warning("haltline: session %s: %d records did not arrive before the end", self.session_id, left)

    def __enter__(self) -> Self:
        self.start()
        return self

    async def __aenter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aexit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # For Action.

    def steps(self, action: Action) -> Steps:
        """The way to admission, with the promise that nothing but Refused comes out of it."""
        try:
            yield from self._admission(action)
        except (Refused, GeneratorExit):
            raise
        except Exception:
            log.exception("haltline: session %s: %s could not be checked", self.session_id, action.call.action)
            cause = self._enforcer.against(action.call.action, action.call.targets, action.call.effect)
            if cause is not None or self._is_closed(action.call):
                raise (cause or _NOBODY).refusal() from None

    def _admission(self, action: Action) -> Steps:
        self.start()
        call, enforcer = action.call, self._enforcer
        if not enforcer.is_loaded and (left_s := self._start_left_s()) > 0:
            yield enforcer.when_loaded(), left_s

        # 1. What stands: after a kill nothing more is asked.
        cause = enforcer.against(call.action, call.match_targets, call.effect)
        if cause is not None:
            held_back = self._refusals.take()
            raise cause.refusal() if held_back is None else self._refuse(call, cause, held_back)

        # 2. Say what is about to be done.
        closed = self._is_closed(call)
        proposal = self._reporter.event(
            Kind.PROPOSED, await_verdict=call.mode == "blocking", **call.describe(self.settings)
        )
        answer = enforcer.ask(proposal.event_id) if call.mode != "async" else None
        self._reporter.publish(proposal)
        self._decide(proposal)

        # 3. Get the verdict: from this process, from the worker within the budget, or none.
        verdict: Decision | None = None
        known = enforcer.is_loaded
        if answer is None:
            known = self.degraded is None
        elif call.mode == "local":
            verdict = enforcer.taken(proposal.event_id, answer)
        else:
            if self._link.up and (closed or not enforcer.is_silent):
                try:
                    yield answer, self.settings.budget_s
                except GeneratorExit:  # cancelled or interrupted: it is not going to be done
                    self._say_refused(call, "interrupted before it began")
                    raise
            verdict = enforcer.give_up(proposal.event_id, answer, refused=closed)
            known = known and verdict is not None
        if verdict is not None and awaits_approval(verdict) is not None:
            verdict = yield from self._approval(call, proposal, verdict)

        # 4. Obey.
        if closed and not known:
            raise self._refuse(call, enforcer.against(call.action, call.match_targets, call.effect) or _NOBODY)
        cause, advice = enforcer.admit(call, verdict, parameters(proposal))
        action.advice = tuple(advice)
        for one in advice:
            self._advise(one)
        if cause is not None:
            raise self._refuse(call, cause)

    def _approval(
        self, call: Call, proposal: ActionEvent, paused: Decision
    ) -> "Generator[tuple[Future[Any], float], None, Decision]":
        """What a person says, in time; else the request itself, which refuses."""
        answer = self._enforcer.person(proposal.event_id)
        until_ms = paused.expires or 0
        wait_s = min(self.settings.approval_wait_s, (until_ms - now_ms()) / 1000)
        try:
            if wait_s > 0 and self.settings.bootstrap is not None:
                yield answer, wait_s
        except GeneratorExit:  # cancelled or interrupted: it is not going to be done
            self._say_refused(call, "interrupted while it waited for approval")
            raise
        said = self._enforcer.taken(proposal.event_id, answer)
        if said is not None:
            return said
        return paused.model_copy(update={"code": APPROVAL_EXPIRED if now_ms() >= until_ms else APPROVAL_PENDING})

    def end(self, action: Action, error: BaseException | None) -> None:
        """Tell what came of an admitted call. Raises nothing."""
        call = action.call
        try:
            fields: dict[str, Any] = {"outcome": Outcome.OK} if error is None else describe_error(error)
            if action.has_value:
                fields |= describe_output(action.value, self.settings)
            fields["duration_ms"] = round((time.perf_counter() - action.began_s) * 1000, 3)
            event = self._reporter.event(Kind.COMPLETED, **call.describe(self.settings), **fields)
            self._reporter.publish(event)
            self._decide(event)
        except Exception:
            log.exception("haltline: session %s: the end of %s could not be told", self.session_id, call.action)
        finally:
            self._enforcer.done(call.call_id)

    # Inside.

    def _open(self) -> None:
        self._pid = os.getpid()
        self._link = self._given_link or link_of(self.settings)
        self._reporter = Reporter(self.settings, self._link)
        self._enforcer = Enforcer(self.settings, acknowledge=self._reporter.acknowledge, now_ms=now_ms)
        self._refusals = Allowance(per_s=10, burst=20)
        self._start_lock = threading.Lock()
        self._started_s, self._closed = None, False

    def _go_on_after_fork(self) -> None:
        """A child has neither the threads nor the connections of its parent, only what it knew."""
        _PARENTS_LINKS.append(self._link)  # ending it here would wait for threads that are not there
        killed = self._enforcer.killed
        self._is_fork = True
        self._open()
        if killed is not None:
            self._enforcer.stay_killed(killed)

    def _action(
        self, name: str, args: Mapping[str, Any], targets: Sequence[str], hint: Effect | None, mode: CallMode | None
    ) -> Action:
        self.start()
        return Action(self, Call(name, args, targets, hint, mode or self.settings.mode, self._reporter.call_id()))

    def _refuse(self, call: Call, cause: Cause, held_back: int = 0) -> Refused:
        self._say_refused(call, cause.code)
        if cause.decision_id:
            self._reporter.acknowledge(
                Stage.REFUSED,
                cause.decision_id,
                cause.decided_at_ms,
                call_id=call.call_id,
                action=call.action,
                detail=f"{held_back} more since the last were not told" if held_back else "",
            )
        return cause.refusal()

    def _say_refused(self, call: Call, why: str) -> None:
        """One event is enough: the detectors take a refused end without a proposal as an attempt that was none."""
        try:
            fields = call.describe(self.settings)
        except Exception:  # the refusal holds, whatever cannot be told of it
            log.exception("haltline: session %s: %s could not be described", self.session_id, call.action)
            fields = {"call_id": call.call_id}
        self._tell(Kind.COMPLETED, outcome=Outcome.REFUSED, error=why, **fields)

    def _is_closed(self, call: Call) -> bool:
        """Whether the call is refused when there is no verdict."""
        closed_from = self.settings.fail_closed_from
        return closed_from is not None and call.effect >= closed_from

    def _advise(self, advice: Advice) -> None:
        if self._on_advice is None:
            return
        try:
            self._on_advice(advice)
        except Exception:
            log.exception("haltline: on_advice raised")

    def _decide(self, event: ActionEvent) -> None:
        """Decides in this process, if that is the mode."""
        decision = self._decider.decide(event) if self._decider is not None else None
        if decision is not None:
            self._enforcer.decision(decision)

    def _tell(self, kind: Kind, **fields: Any) -> None:
        try:
            event = self._reporter.event(kind, **fields)
            self._reporter.publish(event)
            self._decide(event)
        except Exception:
            log.exception("haltline: session %s: %s could not be told", self.session_id, kind)

    def _start_left_s(self) -> float:
        if self._started_s is None:
            return 0.0
        return max(0.0, self._started_s + self.settings.start_budget_s - time.monotonic())
