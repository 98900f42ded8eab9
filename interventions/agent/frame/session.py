"""The base of all framework adapters: one session's calls, turns and hints, between the framework and the guard.

    session = FrameworkSession(guard, effects={"send": "write"})
    verdict = session.before(call_id, "send", args)      # Refused: the session was stopped, end the run
    if isinstance(verdict, Denied):
        return verdict.text                              # the text for the model
    with session.reporting(verdict.call_id):             # an exception is reported, and propagates
        result = send(**verdict.args)
    return with_hints(result, session.after(verdict.call_id, result))

The beginning and the end of a call may also arrive separately: as hooks, as lines of output, as messages.
"""

import asyncio
import contextlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, Self, TypedDict, Unpack

from haltline.interventions.agent.call import checked
from haltline.interventions.agent.calls.argument_changes import NOT_CHANGED, Changes
from haltline.interventions.agent.calls.guarded_call import Action
from haltline.interventions.agent.described import CutArguments, DescribedOutput
from haltline.interventions.agent.enforcement.refusal_cause import Advice, hints_of
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import GuardOptions
from haltline.interventions.state import texts
from haltline.schemas.events import Effect, SentSecret, Usage

log: Final = logging.getLogger("haltline.agent")

MAX_OPEN: Final = 4096
"""Open calls of one session; beyond it, the oldest counts as one without a reported end."""
NOT_CHECKED: Final = "not_checked"
"""The code of a call refused because the guard, or the adapter, failed."""
_MAX_ID_CHARS = 256


class CallOptions(TypedDict, total=False):
    """Further options of a call, as in `Guard.action`."""

    targets: Sequence[str]
    effect: Effect | str | None
    mode: Literal["async", "blocking"] | None
    loop_key: str | None


class ToolFailed(Exception):
    """The tool reported that it failed."""


class ResultUnknown(BaseException):
    """The result of a call was not reported: neither an error nor a success."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may be made."""

    call_id: str
    """The id for `after` and `failed`: the framework's, or a new one if it has none."""
    args: dict[str, Any]
    """The arguments, with the changes that were decided."""
    changed: bool = False
    """Whether the arguments differ from the proposed ones."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The call must not be made; the run continues."""

    text: str
    """The text for the model."""
    refused: Refused

    @classmethod
    def of(cls, refused: Refused) -> "Denied":
        """Create it from the refusal of a call, with its hints."""
        return cls(with_hints(str(refused), refused.hints), refused)

    @property
    def code(self) -> str:
        """The code of the refusal."""
        return self.refused.code


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a proposed call."""

    refused: Refused | None = None
    """None: the call may be made."""
    advice: tuple[Advice, ...] = ()
    changes: Changes = field(default_factory=Changes)
    kept: str = ""
    """Hints of earlier calls that did not reach the model."""
    call_id: str = ""

    @property
    def hints(self) -> str:
        """The hints for the model; empty without any."""
        return "\n".join(filter(None, (self.kept, hints_of(self.advice))))

    @property
    def refusal(self) -> str:
        """The refusal for the model, with the hints."""
        return with_hints(str(self.refused), self.hints)


@dataclass(slots=True)
class _Open:
    action: Action
    hints: str = ""


class CallSession(Protocol):
    """A session whose calls are checked: by a guard of this process (`FrameworkSession`), or by the local service."""

    def begin(self) -> None:
        """Begin the session, if its first call has not."""

    def before(
        self, call_id: str | None, name: str, args: Any = None, *, effect: Effect | str | None = None
    ) -> "Allowed | Denied":
        """Return whether the call may be made. Raises Refused: the session was killed."""

    async def before_async(
        self, call_id: str | None, name: str, args: Any = None, *, effect: Effect | str | None = None
    ) -> "Allowed | Denied":
        """Like `before`, without blocking the event loop."""

    def after(self, call_id: str, output: Any = None, *, error: BaseException | str | None = None) -> str:
        """Report the end of a call. Returns the hints to add to the output."""

    def failed(self, call_id: str, error: BaseException | str) -> None:
        """Report a failed call whose result cannot have hints."""

    def abandon(self) -> int:
        """Give up the open calls. Returns their number."""

    def end(self) -> None:
        """End the session."""

    async def end_async(self) -> None:
        """Like `end`, without blocking the event loop."""


class FrameworkSession:
    """The calls of one guard, by their ids in the framework. Thread safe."""

    def __init__(
        self, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None, changes_arguments: bool = True
    ) -> None:
        """`effects`: the effects of tools, by name, where their names do not show them.

        Without `changes_arguments`, for a framework that cannot change them, a call that is only allowed with other
        arguments is denied. Raises ValueError for an invalid effect.
        """
        self.guard = guard
        self._effects = {name: checked(name, effect, None)[0] for name, effect in (effects or {}).items()}
        self._changes_arguments = changes_arguments
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._kept: list[str] = []
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Begin the session, if its first call has not."""
        self.guard.start()

    # Whole calls: hints wait here until the model reads a result.

    def before(self, call_id: str | None, name: str, args: Any = None, **options: Any) -> Allowed | Denied:
        """Return whether the call may be made; waits according to the guard's mode. The options are those of `propose`.

        `args`: an object, or its JSON as the model wrote it. Any failure in here denies the call.

        Raises: Refused: the session was stopped, so its run has to end.
        """
        try:
            named = arguments_of(args)
            return self._verdict(self.propose(call_id, name, named, **options), named)
        except Exception as error:
            return self._not_checked(error)

    async def before_async(self, call_id: str | None, name: str, args: Any = None, **options: Any) -> Allowed | Denied:
        """Like `before`, without blocking the event loop."""
        try:
            named = arguments_of(args)
            return self._verdict(await self.propose_async(call_id, name, named, **options), named)
        except Exception as error:
            return self._not_checked(error)

    def after(self, call_id: str, output: Any = None, *, error: BaseException | str | None = None) -> str:
        """Report the end of a call with its output, or its error. Returns the hints to add to the output."""
        return self._end(call_id, output, error) or ""

    def failed(self, call_id: str, error: BaseException | str) -> None:
        """Report a failed call whose result cannot have hints: they are added to the next one."""
        self.keep(self._end(call_id, None, error) or "")

    @contextlib.contextmanager
    def reporting(self, call_id: str) -> Iterator[None]:
        """Report an exception that leaves the block as the call's error, and let it propagate."""
        try:
            yield
        except BaseException as error:
            self.failed(call_id, error)
            raise

    def before_turn(self) -> None:
        """Raises Refused if the session was stopped: no more tokens are spent."""
        self.guard.check()

    async def before_turn_async(self) -> None:
        """Like `before_turn`, without blocking the event loop."""
        if self.guard.ready:
            self.guard.check()
        else:
            await asyncio.to_thread(self.guard.check)

    def turn(self, usage: Usage | None = None, output: str | DescribedOutput | None = None) -> None:
        """Publish a turn of the model."""
        self.guard.model_turn(usage=usage, output=output or None)

    def subagent(self, **options: Unpack[GuardOptions]) -> Self:
        """Return a session below this one: a stop of this one stops it."""
        return type(self)(
            self.guard.below(**options),
            effects={name: effect for name, effect in self._effects.items() if effect is not None},
            changes_arguments=self._changes_arguments,
        )

    def end(self) -> None:
        """End the session."""
        self.abandon()
        self.guard.close()

    async def end_async(self) -> None:
        """Like `end`, without blocking the event loop."""
        await asyncio.to_thread(self.end)

    # The steps of a call, for adapters that return hints with the verdict, or report completed calls.

    def propose(
        self,
        call_id: str | None,
        name: str,
        args: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Answer:
        """Publish the proposal, wait according to the guard's mode, and return the answer with its hints.

        Raises: ValueError: the effect or the mode is invalid.
        """
        action = self._action(call_id, name, args, **options)
        try:
            action.__enter__()  # another message reports its end
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
        folder: str | None = None,
        secrets_sent: Sequence[SentSecret] = (),
        asks: bool = False,
        **options: Unpack[CallOptions],
    ) -> Answer:
        """Like `propose`, without blocking the event loop. `cut` describes truncated arguments.

        `folder`: where the call runs, empty if unknown; by default the folder of this process.

        `secrets_sent`: those that a client has recognized itself.

        `asks`: in mode `async`, too, a call that may destroy something waits, according to the guard's `ask_from`.
        """
        action = self._action(call_id, name, args, **options)
        action.call.cut, action.call.folder, action.call.secrets_sent = cut, folder, secrets_sent
        if asks and options.get("mode") == "async":
            action.call.is_mode_explicit = False  # it counts as the guard's
        try:
            await action.__aenter__()  # as above
        except Refused as refused:
            return Answer(refused, action.advice, kept=self.take_kept())
        return self._admitted(action)

    def complete(self, call_id: str, value: Any = None, *, error: BaseException | str | None = None) -> bool:
        """Report the result of a call. False: no such call is open."""
        return self._end(call_id, value, error) is not None

    def is_open(self, call_id: str) -> bool:
        """Return whether the call was allowed, and its end is not reported yet."""
        with self._lock:
            return _id(call_id) in self._open

    @property
    def has_open(self) -> bool:
        """Whether any call is open."""
        with self._lock:
            return bool(self._open)

    def keep(self, hints: str) -> None:
        """Keep hints that could not be returned with their call, as it had no result: the next one returns them."""
        if hints:
            with self._lock:
                self._kept.append(hints)

    def take_kept(self) -> str:
        """Return and clear the hints that wait for the next result."""
        with self._lock:
            kept, self._kept = self._kept, []
        return "\n".join(kept)

    def abandon(self, *, but: str | None = None) -> int:
        """Give up the open calls, except `but`: their results will not be reported. Returns their number."""
        with self._lock:
            left = [call_id for call_id in self._open if call_id != but]
        for call_id in left:
            self.failed(call_id, ResultUnknown("its result was not reported"))
        return len(left)

    # Internal.

    def _verdict(self, answer: Answer, args: Mapping[str, Any]) -> Allowed | Denied:
        if answer.refused is not None:
            answer.refused.hints = answer.hints
            if self.guard.killed:
                raise answer.refused
            return Denied.of(answer.refused)
        if answer.changes and not self._changes_arguments:
            # It must not be made with the proposed arguments.
            self._end(answer.call_id, None, "not made: other arguments were required")
            text = texts.not_changed(answer.changes.of(args))
            return Denied(with_hints(text, answer.hints), Refused(NOT_CHANGED, text, answer.changes.decision))
        with self._lock:
            if (call := self._open.get(answer.call_id)) is not None:
                call.hints = answer.hints
        return Allowed(answer.call_id, answer.changes.of(args), changed=bool(answer.changes))

    def _not_checked(self, error: Exception) -> Denied:
        if isinstance(error, Refused):
            raise error
        log.error("haltline: session %s: a call could not be checked", self.guard.session_id, exc_info=error)
        return Denied.of(not_checked())

    def _end(self, call_id: str, value: Any, error: BaseException | str | None) -> str | None:
        """Report the end, and return the waiting hints. None: no such call is open."""
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
            action.call.call_id = _id(call_id)  # the agent's own id, so that its logs match ours
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
    """Append the hints to a text for the model."""
    return "\n\n".join(filter(None, (text, hints)))


def not_checked() -> Refused:
    """Return the refusal of a call because the guard, or the adapter, failed."""
    return Refused(NOT_CHECKED, texts.NOT_CHECKED)


def arguments_of(args: Any) -> dict[str, Any]:
    """Return arguments by name: those of an object, or of its JSON; anything else becomes the argument `arguments`."""
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
    """Return a turn's usage from an input that includes cached tokens."""
    cached = max(cached or 0, 0)
    return Usage(
        input_tokens=max((input_tokens or 0) - cached, 0),
        output_tokens=max(output_tokens or 0, 0),
        cache_read_tokens=cached,
    )


def _whole(text: str) -> str:
    """Replace lone surrogates, which JSON allows and events cannot hold."""
    return text.encode(errors="replace").decode()


def _id(call_id: str) -> str:
    return _whole(call_id[:_MAX_ID_CHARS])
