"""Calls whose beginning and end arrive apart from each other: as hooks, as lines of output, as messages."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from haltline.interventions.agent.calls.argument_changes import Changes
from haltline.interventions.agent.calls.guarded_call import Action
from haltline.interventions.agent.enforcement.refusal_cause import Advice, hints_of
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.schemas.events import Effect

MAX_OPEN: Final = 4096
"""Calls that have begun and not ended, of one session; beyond it the oldest counts as one without a reported end."""
_MAX_ID_CHARS = 256


class ToolFailed(Exception):
    """The tool reported that it failed."""


class ResultUnknown(BaseException):
    """The result of a call was not reported; so it is no error, and no success either."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is to be done about a call that was proposed."""

    refused: Refused | None = None
    """None: it may be made."""
    advice: tuple[Advice, ...] = ()
    changes: Changes = field(default_factory=Changes)
    kept: str = ""
    """Hints of earlier calls that did not reach the model."""

    @property
    def hints(self) -> str:
        """What the model should hear; empty when there is nothing."""
        return "\n".join(filter(None, (self.kept, hints_of(self.advice))))

    @property
    def refusal(self) -> str:
        """What the model should hear of a call that is refused, with the hints."""
        return "\n\n".join(filter(None, (str(self.refused), self.hints)))


class CallRegistry:
    """The calls of one guard, by the ids that their agent gives them. Thread safe."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._open: OrderedDict[str, Action] = OrderedDict()
        self._kept: list[str] = []
        self._lock = threading.Lock()

    def keep(self, hints: str) -> None:
        """Hints that could not be returned with their call, as it had no result: the next one returns them."""
        if hints:
            with self._lock:
                self._kept.append(hints)

    def _take_kept(self) -> str:
        with self._lock:
            kept, self._kept = self._kept, []
        return "\n".join(kept)

    def propose(
        self,
        call_id: str | None,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        targets: Sequence[str] = (),
        effect: Effect | str | None = None,
        mode: Literal["async", "blocking"] | None = None,
        loop_key: str | None = None,
    ) -> Answer:
        """Says what is about to be done, waits as the guard's mode says, and returns the answer. Raises nothing."""
        action = self._action(call_id, name, args=args, targets=targets, effect=effect, mode=mode, loop_key=loop_key)
        try:
            action.__enter__()  # its end is another message's
        except Refused as refused:
            return Answer(refused, action.advice, kept=self._take_kept())
        return self._admitted(action)

    async def propose_async(
        self,
        call_id: str | None,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        targets: Sequence[str] = (),
        effect: Effect | str | None = None,
        mode: Literal["async", "blocking"] | None = None,
        loop_key: str | None = None,
    ) -> Answer:
        """As `propose`; the event loop goes on meanwhile."""
        action = self._action(call_id, name, args=args, targets=targets, effect=effect, mode=mode, loop_key=loop_key)
        try:
            await action.__aenter__()  # as above
        except Refused as refused:
            return Answer(refused, action.advice, kept=self._take_kept())
        return self._admitted(action)

    async def turn_async(self) -> Answer:
        """Whether the model may take its next turn: a session that was stopped spends no more. Raises nothing."""
        try:
            await asyncio.to_thread(self.guard.check)
        except Refused as refused:
            return Answer(refused)
        return Answer()

    def complete(self, call_id: str, value: Any = None, *, error: BaseException | str | None = None) -> bool:
        """Reports the result of a call. False: no such call is open."""
        with self._lock:
            action = self._open.pop(_id(call_id), None)
        if action is None:
            return False
        if value is not None:
            action.result(value)
        failure = ToolFailed(error) if isinstance(error, str) else error
        action.__exit__(None if failure is None else type(failure), failure, None)
        return True

    def abandon(self, *, but: str | None = None) -> int:
        """The results of the calls that are open, except one, will not be reported. Returns how many they are."""
        with self._lock:
            left = [call_id for call_id in self._open if call_id != but]
        for call_id in left:
            self.complete(call_id, error=ResultUnknown("its result was not reported"))
        return len(left)

    def close(self) -> None:
        """Ends the session."""
        self.abandon()
        self.guard.close()

    async def close_async(self) -> None:
        """As `close`; the event loop goes on meanwhile."""
        await asyncio.to_thread(self.close)

    def _action(self, call_id: str | None, name: str, **options: Any) -> Action:
        action = self.guard.action(_whole(name) or "unknown", **options)
        if call_id:
            action.call.call_id = _id(call_id)  # the agent's own, so that its logs and ours agree
        return action

    def _admitted(self, action: Action) -> Answer:
        oldest = None
        with self._lock:
            self._open[action.call_id] = action
            if len(self._open) > MAX_OPEN:
                oldest = next(iter(self._open))
        if oldest is not None:
            self.complete(oldest, error=ResultUnknown("too many calls are open"))
        return Answer(advice=action.advice, changes=action.changes, kept=self._take_kept())


def _whole(text: str) -> str:
    """Without halves of surrogate pairs, which JSON lets through and no event can hold."""
    return text.encode(errors="replace").decode()


def _id(call_id: str) -> str:
    return _whole(call_id[:_MAX_ID_CHARS])
