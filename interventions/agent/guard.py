"""The guard: what an agent's tools go through. The way of a call is in `calls.call_gate`."""

import asyncio
import atexit
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

from haltline.interventions.agent.call import Call, Targets, checked, describe_output, key_of, loop_key_of, targets_of
from haltline.interventions.agent.calls.call_gate import CallGate
from haltline.interventions.agent.calls.event_publisher import now_ms
from haltline.interventions.agent.calls.guarded_call import Action, wait
from haltline.interventions.agent.calls.tool_decorator import guarded, name_of
from haltline.interventions.agent.checkpoints import CannotKeep, Checkpoints
from haltline.interventions.agent.described import DescribedOutput
from haltline.interventions.agent.enforcement.refusal_cause import Advice
from haltline.interventions.agent.redaction.secrets import without_secrets
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import DEFAULT_AGENT, CallMode, GuardOptions, GuardSettings
from haltline.interventions.agent.transport.transport import Decider, Transport
from haltline.interventions.agent.transport.transport_factory import decider_of, transport_of
from haltline.schemas.events import Effect, Kind, Task, Usage
from haltline.schemas.payloads import Checkpoint

P = ParamSpec("P")
R = TypeVar("R")

log: Final = logging.getLogger("haltline.agent")

_PARENTS_LINKS: list[Transport] = []


class ToolOptions(TypedDict, total=False):
    """How a function is guarded."""

    name: str | None
    """The function's own if left out."""
    effect: Effect | str | None
    """Raises what the name tells."""
    targets: Targets | None
    """Names of arguments, or a function from the arguments to `["asset_id=fact_sales"]`."""
    mode: Literal["async", "blocking"] | None
    """The guard's if left out. With `async` no call of this tool waits for a verdict, also if it destroys."""
    cost_usd: float | None
    """What a call costs; the rules' price for it if left out."""
    once: Targets | None
    """Names of arguments, or a function to texts: calls that are equal in these are made once, and the result is
    given again."""
    loop_key: Callable[[Mapping[str, Any]], str] | str | None
    """A text, or a function from the arguments to one: calls for which it is equal are the same call in a loop."""


class Guard:
    """Watches one session of one agent: publishes what it does, and refuses what must not be done.

    Keyword arguments are the fields of GuardSettings; or pass a GuardSettings, which the keywords then change.
    `on_advice` is called, in the thread of the call, with each Advice before a call goes on. `checkpoints` keeps
    states of the work, to which a ROLLBACK goes back. `parent` is the guard of the session above, as `subagent` gives
    it. Raises ValueError for settings or a policy that cannot work; after that nothing raises but Refused.
    """

    _gate: CallGate
    _closed: bool

    def __init__(
        self,
        settings: GuardSettings | None = None,
        /,
        *,
        on_advice: Callable[[Advice], object] | None = None,
        checkpoints: Checkpoints | None = None,
        link: Transport | None = None,
        parent: "Guard | None" = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        self.settings = GuardSettings(**options) if settings is None else settings.changed(**options)
        self._on_advice = on_advice
        self._checkpoints = checkpoints
        self._given_link = link
        self._is_fork = False
        self._prompts, self._last_prompt = 0, 0
        above = None if parent is None else parent._gate
        self._gate = CallGate(
            self.settings,
            start=self.start,
            on_advice=on_advice,
            decider=decider_of(self.settings, None if above is None else above.decider),
            checkpoints=checkpoints,
            parent=above,
        )
        self._gate.connect(link or transport_of(self.settings))
        self._begin()

    @property
    def decider(self) -> Decider | None:
        """Who decides in this process, with what it has counted; None unless the mode is `local`."""
        return self._gate.decider

    @property
    def session_id(self) -> str:
        """The session that this guard watches."""
        return self.settings.session_id

    @property
    def killed(self) -> bool:
        """Whether every further call of this guard is refused."""
        self._gate.follow_parent()
        return self._gate.enforcer.killed is not None

    @property
    def stopped(self) -> Refused | None:
        """Why no further turn of the model is to be made, as far as it is known by now; None: nothing is against it."""
        self._gate.follow_parent()
        cause = self._gate.enforcer.against("", ())
        return None if cause is None else cause.refusal()

    @property
    def degraded(self) -> str | None:
        """Why decisions cannot be relied on now, in words; None when they can."""
        return self._gate.degraded

    @property
    def ready(self) -> bool:
        """Whether it is known what stands: the control topic has been read."""
        return self._gate.enforcer.is_loaded

    @property
    def dropped(self) -> int:
        """Records that did not reach the broker: it was away for too long, or too slow."""
        return self._gate.publisher.dropped + self._gate.transport.undelivered

    @property
    def limits(self) -> dict[str, float]:
        """What the session was throttled to, by name: `batch_size`, `max_tokens` ...; empty when it is not."""
        return self._gate.throttled.limits(now_ms())

    @property
    def spent_usd(self) -> float:
        """What the session has spent, as far as `session_budget` of the rules counts it."""
        return self._gate.rules.spent_usd

    @overload
    def tool(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def tool(
        self, function: None = None, /, **options: Unpack[ToolOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def tool(
        self, function: Callable[P, R] | None = None, /, **options: Unpack[ToolOptions]
    ) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorator: every call of the function goes through the guard; a coroutine function stays one.

        The options are those of ToolOptions. Raises TypeError for a generator function, which has no one end, and
        ValueError for an effect or a mode that does not exist.
        """

        def decorate(inner: Callable[P, R]) -> Callable[P, R]:
            action = options.get("name") or name_of(inner)
            effect, mode = checked(action, options.get("effect"), options.get("mode"))
            targets, once, cost_usd = options.get("targets"), options.get("once"), options.get("cost_usd")
            loop_key = options.get("loop_key")

            def enter(args: Mapping[str, Any]) -> Action:
                key = None if once is None else key_of(action, once, args)
                return self._action(
                    action,
                    args,
                    targets_of(action, targets, args),
                    effect,
                    mode,
                    cost_usd=cost_usd,
                    key=key,
                    loop_key=loop_key_of(action, loop_key, args),
                )

            return guarded(inner, enter)

        return decorate if function is None else decorate(function)

    def action(
        self,
        name: str,
        *,
        args: Mapping[str, Any] | None = None,
        targets: Sequence[str] = (),
        effect: Effect | str | None = None,
        mode: Literal["async", "blocking"] | None = None,
        cost_usd: float | None = None,
        key: str | None = None,
        loop_key: str | None = None,
    ) -> Action:
        """One call as a context manager, `with` or `async with`; `targets` are `["asset_id=fact_sales"]`.

        Entering raises Refused when the call must not be made. With a `key`, the second call of this name and key gives
        the first one's result: `action.replayed` is then true, and nothing is to be done. Calls of this name
        with an equal `loop_key` are the same call when loops are looked for. Raises ValueError for an effect or a mode
        that does not exist.
        """
        effect, mode = checked(name, effect, mode)
        return self._action(name, args or {}, targets, effect, mode, cost_usd=cost_usd, key=key, loop_key=loop_key)

    def check(self) -> None:
        """Before a turn of the model, and in long work outside of tools. Raises Refused when the session was stopped.

        Stopped is what was killed, or frozen by an operator or a PAUSE of the whole session; also one above it, its
        agent, its mission or the fleet.
        """
        self.start()
        if not self._gate.enforcer.is_loaded and (left_s := self._gate.start_left_s()) > 0:
            wait(self._gate.enforcer.when_loaded(), left_s)
        self._gate.follow_parent()
        cause = self._gate.enforcer.against("", ())
        if cause is not None:
            raise cause.refusal()

    def model_turn(self, *, usage: Usage | None = None, output: str | DescribedOutput | None = None) -> None:
        """Publish one turn of the model: what it used (increments; None: unknown), and its output."""
        self.start()
        if usage is not None:
            self._gate.rules.spend(usage.cost_usd)
            self._gate.throttled.used(usage)
        self._gate.publish(Kind.MODEL_TURN, usage=usage, **(describe_output(output, self.settings) if output else {}))

    def begin_run(self) -> None:
        """The next run of the same session: nothing of `run_budget` is spent, and no evidence has been seen."""
        if self._pid != os.getpid():
            self._go_on_after_fork()
        self._gate.rules.begin_run()

    def prompt(self, text: str) -> None:
        """The user of a session gives another prompt: whether it gets on is asked anew from there.

        The text is not published, only that there is another one; the same prompt once more is none. Raises TypeError
        for what is no text.
        """
        if not isinstance(text, str):
            raise TypeError(f"prompt: expected a text, got {type(text).__name__}")
        is_first, is_same = not self._prompts, hash(text) == self._last_prompt
        if is_same:
            return
        self._last_prompt, self._prompts = hash(text), self._prompts + 1
        self.start()
        if is_first:
            return  # the session was started for it
        self._tell_task((self.settings.task or Task()).model_copy(update={"prompts": self._prompts}))

    def checkpoint(self, checkpoint_id: str, *, safe: bool = True) -> None:
        """Tell that a state was kept under this id: a rollback names it in `Refused.decision.checkpoint`."""
        self.start()
        self._gate.publish(Kind.HEARTBEAT, checkpoint=Checkpoint(id=checkpoint_id, safe=safe))

    def keep(self, checkpoint_id: str | None = None, *, safe: bool = True) -> str | None:
        """Keep a state of the work with `checkpoints`, and tell of it; a ROLLBACK goes back to it. Returns its id.

        None: it could not be kept, which is logged, or this guard has no `checkpoints`.
        """
        checkpoint_id = checkpoint_id or uuid.uuid4().hex[:12]
        if self._checkpoints is None:
            return None
        try:
            self._checkpoints.keep(checkpoint_id)
        except CannotKeep as error:
            log.warning("haltline: session %s: %s", self.session_id, error)
            return None
        self.checkpoint(checkpoint_id, safe=safe)
        return checkpoint_id

    def has_read(self, name: str, args: Mapping[str, Any], result: Any) -> None:
        """Another process of this session has made a call: the secrets of its result are recognized here as well."""
        self._gate.held.take(args, result, action=name)

    def subagent(self, **options: Unpack[GuardOptions]) -> "Guard":
        """The guard of a session below this one, `with` or `async with`: a kill of this session is one of that too.

        It has this one's settings, rules (with counts of its own), policy, checkpoints and connection, but for
        `options`.
        """
        parent = self.settings
        changes: GuardOptions = {
            "session_id": uuid.uuid4().hex,
            "parent_session_id": parent.session_id,
            "root_session_id": parent.root_session_id or parent.session_id,
            "ancestors": parent.lineage,
            "task": None,
        }
        changes.update(options)
        return Guard(
            parent.changed(**changes),
            on_advice=self._on_advice,
            checkpoints=self._checkpoints,
            link=self._given_link,
            parent=self,
        )

    def start(self) -> None:
        """Begin to listen, and tell that the session has started. Returns at once; a second time does nothing."""
        if self._pid != os.getpid():
            self._go_on_after_fork()
        if self._gate.started_s is not None:
            return
        with self._start_lock:
            if self._gate.started_s is not None:
                return
            self._gate.started_s = time.monotonic()
        if self.settings.agent_id == DEFAULT_AGENT:
            log.warning(
                "haltline: session %s: expected an agent_id, got none: several sessions are counted by host only",
                self.session_id,
            )
        atexit.register(self.close)
        try:
            self._gate.transport.start(self._gate.enforcer)
        except Exception:  # no thread to be had, the interpreter ends: calls follow the fail policy
            log.exception("haltline: session %s: cannot listen", self.session_id)
        if not self._is_fork:
            self._tell_task(self.settings.task)

    def _tell_task(self, task: Task | None) -> None:
        key, pii = self.settings.digest_key.encode(), self.settings.pii_key
        self._gate.publish(Kind.SESSION_STARTED, task=without_secrets(task, key=key, pii=pii))

    def close(self) -> None:
        """Tell that the session has ended, wait until all is sent (`close_budget_s`), stop listening."""
        with self._start_lock:
            if self._gate.started_s is None or self._closed or self._pid != os.getpid():
                return
            self._closed = True
        atexit.unregister(self.close)
        if not self._is_fork:
            self._gate.publish(Kind.SESSION_ENDED)
        left = self._gate.transport.close(self.settings.close_budget_s)
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

    # Inside.

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._start_lock = threading.Lock()
        self._closed = False

    def _go_on_after_fork(self) -> None:
        """A child has neither the threads nor the connections of its parent, only what it knew."""
        _PARENTS_LINKS.append(self._gate.transport)  # ending it here would wait for threads that are not there
        self._is_fork = True
        self._gate.after_fork(self._given_link or transport_of(self.settings))
        self._begin()

    def _action(
        self,
        name: str,
        args: Mapping[str, Any],
        targets: Sequence[str],
        hint: Effect | None,
        mode: CallMode | None,
        *,
        cost_usd: float | None = None,
        key: str | None = None,
        loop_key: str | None = None,
    ) -> Action:
        self.start()
        call_id = self._gate.publisher.call_id()
        call = Call(
            name,
            args,
            targets,
            hint,
            mode or self.settings.mode,
            call_id,
            cost_usd,
            key,
            is_mode_explicit=mode is not None,
            loop_key=loop_key,
        )
        return Action(self._gate, call)
