"""The guard: the interface for an agent's tools. `calls.call_gate` has the path of a call."""

import asyncio
import atexit
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

from haltline.interventions.agent.call import Call, Targets, checked, describe_turn, key_of, loop_key_of, targets_of
from haltline.interventions.agent.calls.call_gate import CallGate
from haltline.interventions.agent.calls.event_publisher import now_ms
from haltline.interventions.agent.calls.guarded_call import Action, Raised, wait
from haltline.interventions.agent.calls.tool_decorator import guarded, name_of
from haltline.interventions.agent.checkpoints import CannotKeep, Checkpoints
from haltline.interventions.agent.described import DescribedOutput
from haltline.interventions.agent.enforcement.refusal_cause import Advice
from haltline.interventions.agent.prompts import Prompts
from haltline.interventions.agent.redaction.secrets import without_secrets
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import DEFAULT_AGENT, CallMode, GuardOptions, GuardSettings
from haltline.interventions.agent.stored_sessions import GUARD, StoredSessions, state_folder
from haltline.interventions.agent.transport.transport import Decider, Transport
from haltline.interventions.agent.transport.transport_factory import decider_of, transport_of
from haltline.schemas.author_rules import RUN_STARTED
from haltline.schemas.control import Stage
from haltline.schemas.events import Effect, Kind, Task, Usage
from haltline.schemas.payloads import Checkpoint

P = ParamSpec("P")
R = TypeVar("R")

log: Final = logging.getLogger("haltline.agent")

_PARENTS_LINKS: list[Transport] = []


class ToolOptions(TypedDict, total=False):
    """Options of a guarded function."""

    name: str | None
    """Default: the function's name."""
    effect: Effect | str | None
    """Raises the effect known from the name."""
    targets: Targets | None
    """Names of arguments, or a function from the arguments to `["asset_id=fact_sales"]`."""
    mode: Literal["async", "blocking"] | None
    """Default: the guard's mode. With `async`, calls of this tool never wait for a verdict, even if they destroy."""
    cost_usd: float | None
    """The cost of a call; by default its price in the rules."""
    once: Targets | None
    """Names of arguments, or a function to texts: calls equal in these are made once, and the result is returned again.
    """
    loop_key: Callable[[Mapping[str, Any]], str] | str | None
    """A text, or a function from the arguments to one: calls with an equal key are the same call in a loop."""


class Guard:
    """Watches one session of one agent: publishes its calls, and refuses those that must not be made.

    Keyword arguments are the fields of GuardSettings; or pass a GuardSettings, which the keywords then change.
    `on_advice` is called in the call's thread, with each Advice before a call continues. `checkpoints` saves states of
    the work, which a ROLLBACK restores. `parent` is the guard of the session above, set by `subagent`. Raises
    ValueError for invalid settings or an invalid policy; after that it raises only Refused.
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
        self._prompts = Prompts()
        above = None if parent is None else parent._gate
        self._gate = CallGate(
            self.settings,
            on_advice=on_advice,
            decider=decider_of(self.settings, None if above is None else above.decider),
            checkpoints=checkpoints,
            parent=above,
        )
        self._gate.connect(link or transport_of(self.settings))
        if self.settings.mode == "local" and self.settings.bootstrap is None and parent is None:
            self._stay_stopped()
        self._begin()

    @property
    def decider(self) -> Decider | None:
        """The decider of this process, with its counts; None unless the mode is `local`."""
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
        """The reason against a further model turn, as far as it is known; None: no reason."""
        self._gate.follow_parent()
        cause = self._gate.enforcer.against("", ())
        return None if cause is None else cause.refusal()

    def on_change(self, changed: Callable[[], object]) -> None:
        """Call this, in any thread, when what is in force for the session may have changed."""
        self._gate.enforcer.changed = changed

    def wait_until_ready(self) -> None:
        """Wait until the restrictions in force are known, at most for the start budget."""
        if not self.ready and (left_s := self._gate.start_left_s()) > 0:
            wait(self._gate.enforcer.when_loaded(), left_s)

    def pause_s(self, name: str, args: Mapping[str, Any]) -> float:
        """Return the seconds for which such a call would wait now, as it repeats a poll that is slowed."""
        return self._gate.pause_s(name, args)

    @property
    def degraded(self) -> str | None:
        """Why decisions are not reliable now, as text; None if they are."""
        return self._gate.degraded

    @property
    def ready(self) -> bool:
        """Whether the control topic has been read, so that the restrictions in force are known."""
        return self._gate.enforcer.is_loaded

    @property
    def dropped(self) -> int:
        """Records that did not reach the broker because it was down for too long, or too slow."""
        return self._gate.publisher.dropped + self._gate.transport.undelivered

    @property
    def limits(self) -> dict[str, float]:
        """The limits of the session's THROTTLE by name: `batch_size`, `max_tokens` ...; empty without one."""
        return self._gate.throttled.limits(now_ms())

    @property
    def spent_usd(self) -> float:
        """The session's spending, as counted for `session_budget` of the rules."""
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
        """Decorator: every call of the function passes through the guard; a coroutine function stays one.

        The options are those of ToolOptions. Raises TypeError for a generator function, which has no single end, and
        ValueError for an invalid effect or mode.
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
        """Return one call as a context manager, `with` or `async with`; `targets` are `["asset_id=fact_sales"]`.

        Entering raises Refused if the call must not be made. With a `key`, the second call of this name and key gets
        the first one's result: `action.replayed` is then true, and the call must not be made again. Calls of this name
        with an equal `loop_key` count as the same call for loop detection. Raises ValueError for an invalid effect or
        mode.
        """
        effect, mode = checked(name, effect, mode)
        return self._action(name, args or {}, targets, effect, mode, cost_usd=cost_usd, key=key, loop_key=loop_key)

    def check(self) -> None:
        """Check before a model turn, and in long work outside of tools. Raises Refused if the session was stopped.

        Stopped: killed, or frozen by an operator or a PAUSE of the whole session; also by one above it, its agent, its
        mission or the fleet.
        """
        self.start()
        self.wait_until_ready()
        self._gate.follow_parent()
        cause = self._gate.against_turn()
        if cause is not None:
            self._gate.note_refused_turn(cause)
            raise cause.refusal()

    def model_turn(self, *, usage: Usage | None = None, output: str | DescribedOutput | None = None) -> None:
        """Publish one turn of the model: its usage (increments; None: unknown) and its output."""
        self.start()
        if usage is not None:
            self._gate.rules.spend(usage.cost_usd)
            self._gate.throttled.used(usage)
        self._gate.publish(Kind.MODEL_TURN, usage=usage, **(describe_turn(output, self.settings) if output else {}))

    def begin_run(self) -> None:
        """Start the next run of the session: `run_budget` is unspent again, and evidence is cleared."""
        self.start()
        self._gate.rules.begin_run()
        self._gate.publish(Kind.HEARTBEAT, action=RUN_STARTED)

    def prompt(self, text: str) -> None:
        """Report a new prompt of the session's user: progress is judged from here on.

        The text itself is not published. A prompt that says nothing new (`continue`, or one given before) is a no-op,
        and so is the first, for which the session was started. Raises TypeError if it is not a text.
        """
        if not isinstance(text, str):
            raise TypeError(f"prompt: expected a text, got {type(text).__name__}")
        self.start()
        self._gate.note_prompt(text)
        if self._prompts.take(text):
            self._tell_task((self.settings.task or Task()).model_copy(update={"prompts": self._prompts.count}))

    def checkpoint(self, checkpoint_id: str, *, safe: bool = True) -> None:
        """Report a state saved under this id: a rollback names it in `Refused.decision.checkpoint`."""
        self.start()
        self._gate.publish(Kind.HEARTBEAT, checkpoint=Checkpoint(id=checkpoint_id, safe=safe))

    def keep(self, checkpoint_id: str | None = None, *, safe: bool = True) -> str | None:
        """Save a state with `checkpoints` and report it, for a ROLLBACK to restore. Returns its id.

        None: it could not be saved, which is logged, or this guard has no `checkpoints`.
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

    def settings_changed(self, file: str) -> None:
        """Report that settings of this guard have changed: a heartbeat with the file as its target."""
        self.start()
        self._gate.publish(Kind.HEARTBEAT, action="settings_changed", targets=[f"path={file}"])

    def tell_children(self, children: Sequence[str]) -> None:
        """Report sessions that were stopped with this one. No-op unless the session was killed."""
        killed = self._gate.enforcer.killed
        if killed is not None and children:
            self._gate.publisher.acknowledge(
                Stage.CHILDREN, killed.decision_id, killed.decided_at_ms, children=children
            )

    def has_read(self, name: str, args: Mapping[str, Any], result: Any) -> None:
        """Report a call made by another process of this session, so that secrets of its result are recognized."""
        self._gate.held.take(args, result, action=name)

    def stored(self) -> bytes | None:
        """Return the session's counts, its stop and digests of its prompts for a later process; None: no counts.

        Only in mode `local`, where this process has them.
        """
        counts = None if self._gate.decider is None else self._gate.decider.stored()
        return None if counts is None else " ".join(self._prompts.stored()).encode() + b"\n" + counts

    def go_on(self, stored: bytes) -> None:
        """Go on from what an earlier process has `stored`, before the first call; a stop that it has stays in force.

        Raises ValueError if it cannot be read.
        """
        if self._gate.decider is not None:
            prompts, _, counts = stored.partition(b"\n")
            record = self._gate.decider.restore(counts)
            self._prompts.restore(prompts.decode().split(" "))
            if record is not None:
                self._gate.enforcer.control(record.key, record)

    def subagent(self, **options: Unpack[GuardOptions]) -> "Guard":
        """Return the guard of a session below this one, `with` or `async with`: a kill of this session kills it too.

        It has this one's settings, rules (with separate counts), policy, checkpoints and connection, except for
        `options`. Raises Refused if its tree of sessions may start no more agents.
        """
        self._gate.follow_parent()
        cause = self._gate.enforcer.against_agents()
        if cause is not None:
            raise cause.refusal()
        return self.below(**options)

    def below(self, **options: Unpack[GuardOptions]) -> "Guard":
        """Return the same for an agent that somebody else has started."""
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
        """Start receiving decisions, and report the session's start. Returns at once; idempotent."""
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
        except Exception:  # no thread available, the interpreter shuts down: calls follow the fail policy
            log.exception("haltline: session %s: cannot receive decisions", self.session_id)
        if not self._is_fork:
            self._tell_task(self.settings.task)

    def _tell_task(self, task: Task | None) -> None:
        self._gate.publish(Kind.SESSION_STARTED, task=without_secrets(task, self.settings.keys))

    def close(self) -> None:
        """Report the session's end, wait until all is sent (at most `close_budget_s`), stop receiving."""
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

    def __exit__(self, *raised: *Raised) -> None:
        self.close()

    async def __aexit__(self, *raised: *Raised) -> None:
        await asyncio.to_thread(self.close)

    # Internal.

    def _stay_stopped(self) -> None:
        """Stay stopped if an earlier process was, and store a stop of this one: no control topic has it."""
        stored = StoredSessions(state_folder(os.environ))

        def changed() -> None:
            if self.stopped is None:
                stored.remove(self.session_id, GUARD)
            elif (state := self.stored()) is not None:
                stored.write(self.session_id, GUARD, state)

        self._gate.on_stop = changed
        if (state := stored.read(self.session_id, GUARD, now_s=time.time())) is not None:
            try:
                self.go_on(state)
            except ValueError as error:
                log.warning("haltline: session %s: its stored stop cannot be read: %s", self.session_id, error)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._start_lock = threading.Lock()
        self._closed = False

    def _go_on_after_fork(self) -> None:
        """Reconnect in a forked child, which has neither the threads nor the connections of its parent."""
        _PARENTS_LINKS.append(self._gate.transport)  # closing it here would wait for threads that do not exist
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
