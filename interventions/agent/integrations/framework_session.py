"""What every adapter of a framework uses: one session's calls, turns and hints, between the framework and the guard.

    session = FrameworkSession(guard, effects={"send": "write"})
    verdict = session.before(call_id, "send", args)      # Refused: the session was stopped, the run is to end
    if isinstance(verdict, Denied):
        return verdict.text                              # what the model reads
    with session.reporting(verdict.call_id):             # an exception is reported, and goes on
        result = send(**verdict.args)
    return with_hints(result, session.after(verdict.call_id, result))

The beginning and the end of a call may also arrive apart from each other: as hooks, as lines of output, as messages.
"""

import asyncio
import contextlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypedDict, Unpack

from haltline.interventions.agent.call import checked
from haltline.interventions.agent.calls.argument_changes import NOT_CHANGED, Changes
from haltline.interventions.agent.calls.guarded_call import Action
from haltline.interventions.agent.described import CutArguments, DescribedOutput
from haltline.interventions.agent.enforcement.refusal_cause import Advice, hints_of
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import GuardOptions
from haltline.schemas.events import Effect, SentSecret, Usage

log: Final = logging.getLogger("haltline.agent")

MAX_OPEN: Final = 4096
"""Calls that have begun and not ended, of one session; beyond it the oldest counts as one without a reported end."""
NOT_CHECKED: Final = "not_checked"
"""The code of a call that was refused because the guard, or the adapter, failed."""
_MAX_ID_CHARS = 256


class CallOptions(TypedDict, total=False):
    """What else may be said of a call, as of `Guard.action`."""

    targets: Sequence[str]
    effect: Effect | str | None
    mode: Literal["async", "blocking"] | None
    loop_key: str | None


class ToolFailed(Exception):
    """The tool reported that it failed."""


class ResultUnknown(BaseException):
    """The result of a call was not reported; so it is no error, and no success either."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may be made."""

    call_id: str
    """For `after` and `failed`: the framework's own, or a new one where it has none."""
    args: dict[str, Any]
    """With the changes that were decided."""
    changed: bool = False
    """Whether these differ from what was proposed."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The call must not be made; the run goes on."""

    text: str
    """What the model reads."""
    refused: Refused

    @classmethod
    def of(cls, refused: Refused) -> "Denied":
        """Of a call that is refused, with its hints."""
        return cls(with_hints(str(refused), refused.hints), refused)

    @property
    def code(self) -> str:
        """For machines."""
        return self.refused.code


@dataclass(frozen=True, slots=True)
class Answer:
    """What is to be done about a call that was proposed."""

    refused: Refused | None = None
    """None: it may be made."""
    advice: tuple[Advice, ...] = ()
    changes: Changes = field(default_factory=Changes)
    kept: str = ""
    """Hints of earlier calls that did not reach the model."""
    call_id: str = ""

    @property
    def hints(self) -> str:
        """What the model should read besides; empty when there is nothing."""
        return "\n".join(filter(None, (self.kept, hints_of(self.advice))))

    @property
    def refusal(self) -> str:
        """What the model should read of a call that is refused, with the hints."""
        return with_hints(str(self.refused), self.hints)


@dataclass(slots=True)
class _Open:
    action: Action
    hints: str = ""


class FrameworkSession:
    """The calls of one guard, by the ids that their framework gives them. Thread safe."""

    def __init__(
        self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None, changes_arguments: bool = True
    ) -> None:
        """`effects` says, by name, what tools do whose names do not tell.

        Without `changes_arguments`, as the framework cannot, a call that is only allowed with other arguments is
        denied. Raises ValueError for an effect that does not exist.
        """
        self.guard = guard
        self._effects = {name: checked(name, effect, None)[0] for name, effect in (effects or {}).items()}
        self._changes_arguments = changes_arguments
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._kept: list[str] = []
        self._lock = threading.Lock()

    # The whole of a call: hints wait here until the model reads a result.

    def before(self, call_id: str | None, name: str, args: Any = None, **options: Any) -> Allowed | Denied:
        """Whether the call may be made; waits as the guard's mode says. The options are those of `propose`.

        `args` are an object, or its JSON as the model wrote it. Whatever fails in here denies the call.

        Raises:
            Refused: the session was stopped, and so its run has to end.

        """
        named = arguments_of(args)
        try:
            return self._verdict(self.propose(call_id, name, named, **options), named)
        except Exception as error:
            return self._not_checked(error)

    async def before_async(self, call_id: str | None, name: str, args: Any = None, **options: Any) -> Allowed | Denied:
        """As `before`; does not block the event loop."""
        named = arguments_of(args)
        try:
            return self._verdict(await self.propose_async(call_id, name, named, **options), named)
        except Exception as error:
            return self._not_checked(error)

    def after(self, call_id: str, output: Any = None, *, error: BaseException | str | None = None) -> str:
        """The call has ended, and the model reads this output, or how it failed. Returns the hints to add to it."""
        return self._end(call_id, output, error) or ""

    def failed(self, call_id: str, error: BaseException | str) -> None:
        """The call has ended without a result that hints could be added to: they are added to the next one."""
        self.keep(self._end(call_id, None, error) or "")

    @contextlib.contextmanager
    def reporting(self, call_id: str) -> Iterator[None]:
        """An exception that leaves the block is that of the call, and goes on."""
        try:
            yield
        except BaseException as error:
            self.failed(call_id, error)
            raise

    def before_turn(self) -> None:
        """Raises Refused when the session was stopped: no more tokens are spent."""
        self.guard.check()

    async def before_turn_async(self) -> None:
        """As `before_turn`; does not block the event loop."""
        if self.guard.ready:
            self.guard.check()
        else:
            await asyncio.to_thread(self.guard.check)

    def turn(self, usage: Usage | None = None, output: str | DescribedOutput | None = None) -> None:
        """Publishes a turn of the model."""
        self.guard.model_turn(usage=usage, output=output or None)

    def subagent(self, **options: Unpack[GuardOptions]) -> Self:
        """A session below this one: what stops this one stops it."""
        return type(self)(
            self.guard.subagent(**options),
            effects={name: effect for name, effect in self._effects.items() if effect is not None},
            changes_arguments=self._changes_arguments,
        )

    def end(self) -> None:
        """Ends the session."""
        self.abandon()
        self.guard.close()

    async def end_async(self) -> None:
        """As `end`; does not block the event loop."""
        await asyncio.to_thread(self.end)

    # Its parts, for those that return hints with the verdict, or that report what has been done already.

    def propose(
        self,
        call_id: str | None,
        name: str,
        args: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Answer:
        """Says what is about to be done, waits as the guard's mode says, and returns the answer with its hints.

        Raises:
            ValueError: an effect or a mode that does not exist.

        """
        action = self._action(call_id, name, args, **options)
        try:
            action.__enter__()  # its end is another message's
        except Refused as refused:
            return Answer(refused, action.advice, kept=self.take_kept())
        return self._admitted(action)

    async def propose_async(
        self,
        call_id: str | None,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        cut: CutArguments | None = None,
        secrets_sent: Sequence[SentSecret] = (),
        asks: bool = False,
        **options: Unpack[CallOptions],
    ) -> Answer:
        """As `propose`; does not block the event loop. `cut` describes arguments that are not whole.

        `secrets_sent` are those that a client has recognized itself.

        `asks`: with the mode `async` as well, a call that may destroy something waits, as the guard's `ask_from` says.
        """
        action = self._action(call_id, name, args, **options)
        action.call.cut, action.call.secrets_sent = cut, secrets_sent
        if asks and options.get("mode") == "async":
            action.call.is_mode_explicit = False  # it counts as the guard's
        try:
            await action.__aenter__()  # as above
        except Refused as refused:
            return Answer(refused, action.advice, kept=self.take_kept())
        return self._admitted(action)

    def complete(self, call_id: str, value: Any = None, *, error: BaseException | str | None = None) -> bool:
        """Reports the result of a call. False: no such call is open."""
        return self._end(call_id, value, error) is not None

    def is_open(self, call_id: str) -> bool:
        """Whether the call was allowed, and its end was not reported yet."""
        with self._lock:
            return _id(call_id) in self._open

    @property
    def has_open(self) -> bool:
        """Whether any call is open."""
        with self._lock:
            return bool(self._open)

    def keep(self, hints: str) -> None:
        """Hints that could not be returned with their call, as it had no result: the next one returns them."""
        if hints:
            with self._lock:
                self._kept.append(hints)

    def take_kept(self) -> str:
        """The hints that wait for the next result; from now on they do not."""
        with self._lock:
            kept, self._kept = self._kept, []
        return "\n".join(kept)

    def abandon(self, *, but: str | None = None) -> int:
        """The results of the calls that are open, except one, will not be reported. Returns how many they are."""
        with self._lock:
            left = [call_id for call_id in self._open if call_id != but]
        for call_id in left:
            self.failed(call_id, ResultUnknown("its result was not reported"))
        return len(left)

    # Inside.

    def _verdict(self, answer: Answer, args: Mapping[str, Any]) -> Allowed | Denied:
        if answer.refused is not None:
            answer.refused.hints = answer.hints
            if self.guard.killed:
                raise answer.refused
            return Denied.of(answer.refused)
        if answer.changes and not self._changes_arguments:
            # With the arguments that were proposed it must not be made.
            changed = json.dumps(answer.changes.of(args), default=str)
            self._end(answer.call_id, None, "not made: other arguments were required")
            text = f"This call is only allowed with other arguments: {changed}"
            return Denied(with_hints(text, answer.hints), Refused(NOT_CHANGED, text, answer.changes.decision))
        with self._lock:
            if (call := self._open.get(answer.call_id)) is not None:
                call.hints = answer.hints
        return Allowed(answer.call_id, answer.changes.of(args), changed=bool(answer.changes))

    def _not_checked(self, error: Exception) -> Denied:
        if isinstance(error, Refused):
            raise error
        log.error("haltline: session %s: a call could not be checked", self.guard.session_id, exc_info=error)
        refused = Refused(NOT_CHECKED, "This call could not be checked, and so it was not made. Report it instead.")
        return Denied.of(refused)

    def _end(self, call_id: str, value: Any, error: BaseException | str | None) -> str | None:
        """Reports the end, and returns the hints that wait. None: no such call is open."""
        with self._lock:
            call = self._open.pop(_id(call_id), None)
        if call is None:
            return None
        if value is not None:
            call.action.result(value)
        failure = ToolFailed(error) if isinstance(error, str) else error
        call.action.__exit__(None if failure is None else type(failure), failure, None)
        return call.hints

    def _action(
        self, call_id: str | None, name: str, args: Mapping[str, Any] | None, **options: Unpack[CallOptions]
    ) -> Action:
        name = _whole(name) or "unknown"
        options["effect"] = options.get("effect") or self._effects.get(name)
        action = self.guard.action(name, args=args, **options)
        if call_id:
            action.call.call_id = _id(call_id)  # the agent's own, so that its logs and ours agree
        return action

    def _admitted(self, action: Action) -> Answer:
        with self._lock:
            is_taken = action.call_id in self._open
        if is_taken:  # some servers number the calls of each response from zero
            self.failed(action.call_id, ResultUnknown("another call has its id"))
        oldest = None
        with self._lock:
            self._open[action.call_id] = _Open(action)
            if len(self._open) > MAX_OPEN:
                oldest = next(iter(self._open))
        if oldest is not None:
            self.failed(oldest, ResultUnknown("too many calls are open"))
        return Answer(advice=action.advice, changes=action.changes, kept=self.take_kept(), call_id=action.call_id)


def with_hints(text: str, hints: str) -> str:
    """A text that the model reads, with the hints after it."""
    return "\n\n".join(filter(None, (text, hints)))


def arguments_of(args: Any) -> dict[str, Any]:
    """Arguments by name: those of an object, or of its JSON; what is neither is the argument `arguments`."""
    if isinstance(args, str):
        try:
            read = json.loads(args or "{}")
        except (ValueError, RecursionError):
            return {"arguments": args}
        return read if isinstance(read, dict) else {"arguments": read}
    if isinstance(args, Mapping):
        return {str(name): value for name, value in args.items()}
    return {} if args is None else {"arguments": args}


def tokens(input_tokens: int | None, output_tokens: int | None, cached: int | None = 0) -> Usage:
    """A turn's usage, where the input is counted with what came from the cache."""
    cached = max(cached or 0, 0)
    return Usage(
        input_tokens=max((input_tokens or 0) - cached, 0),
        output_tokens=max(output_tokens or 0, 0),
        cache_read_tokens=cached,
    )


def _whole(text: str) -> str:
    """Without halves of surrogate pairs, which JSON lets through and no event can hold."""
    return text.encode(errors="replace").decode()


def _id(call_id: str) -> str:
    return _whole(call_id[:_MAX_ID_CHARS])
