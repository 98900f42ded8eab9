"""One guarded call, as a context manager."""

import asyncio
import contextlib
import time
from collections.abc import Generator
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from haltline.interventions.agent.call import Call
from haltline.interventions.agent.calls.argument_changes import UNCHANGED, Changes, changes_for
from haltline.interventions.agent.enforcement.refusal_cause import Advice, hints_of
from haltline.interventions.agent.refused import Refused

Steps: TypeAlias = "Generator[tuple[Future[Any], float], None, None]"
"""Steps to admission: yield a future and the seconds to wait for it; continue whether it completed or not."""


Raised: TypeAlias = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
"""The exception that leaves a block: its type, itself, its traceback; None without one."""


class _Gate(Protocol):
    def steps(self, action: "Action") -> Steps: ...

    def end(self, action: "Action", error: BaseException | None) -> None: ...


class Action:
    """A call between its proposal and its end; `with` or `async with`.

    Entering raises Refused if the call must not be made. An exception that leaves the block sets the outcome `error`
    (`timeout` for a TimeoutError), and propagates.
    """

    def __init__(self, gate: _Gate, call: Call) -> None:
        self._gate = gate
        self.call = call
        self.advice: tuple[Advice, ...] = ()
        """Hints and limits for the agent; set when the block is entered."""
        self.value: Any = None
        self.has_value = False
        self.cost_usd: float | None = None
        self.replayed = False
        """An earlier call with the same key has given `value`: the block must not make the call."""
        self.began_ns = 0
        """Start time of `time.perf_counter_ns`."""

    @property
    def call_id(self) -> str:
        """The id that joins the proposal with its result."""
        return self.call.call_id

    @property
    def changes(self) -> Changes:
        """The required changes of the proposed arguments; the functions of `tool` apply them automatically."""
        return changes_for(self.call.call_id, self.advice) if self.advice else UNCHANGED

    def result(self, value: Any) -> None:
        """Set the returned value; its digest, size and beginning are published."""
        self.value, self.has_value = value, True

    def cost(self, usd: float) -> None:
        """Set the cost in US dollars, if it differs from the price."""
        self.cost_usd = usd

    def replay(self, value: Any, *, has_value: bool) -> None:
        """For the guard: set the result of an earlier call as this one's."""
        self.replayed, self.value, self.has_value = True, value, has_value

    def _steps(self) -> Steps:
        """Yield the gate's steps to admission; a refusal gets the hints."""
        try:
            yield from self._gate.steps(self)
        except Refused as refused:
            refused.hints = hints_of(self.advice)
            raise
        self.began_ns = time.perf_counter_ns()

    def __enter__(self) -> Self:
        with contextlib.closing(self._steps()) as steps:
            for future, timeout_s in steps:
                wait(future, timeout_s)
        return self

    async def __aenter__(self) -> Self:
        with contextlib.closing(self._steps()) as steps:
            for future, timeout_s in steps:
                await wait_async(future, timeout_s)
        return self

    def __exit__(self, *raised: *Raised) -> None:
        if not self.replayed:
            self._gate.end(self, raised[1])

    async def __aexit__(self, *raised: *Raised) -> None:
        if not self.replayed:
            self._gate.end(self, raised[1])


def wait(future: "Future[Any]", timeout_s: float) -> None:
    """Wait until the future is done, or for `timeout_s` seconds."""
    with contextlib.suppress(TimeoutError, CancelledError):
        future.result(timeout_s)


async def wait_async(future: "Future[Any]", timeout_s: float) -> None:
    """Like `wait`, without blocking the event loop."""
    if future.done():
        return
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()

    def wake(_: "Future[Any]") -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(arrived.set)

    future.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await arrived.wait()
