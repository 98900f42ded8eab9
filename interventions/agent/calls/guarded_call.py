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
"""The way to admission: yields what is waited for and how long, in seconds; then goes on, whether it arrived or not."""


class _Gate(Protocol):
    def steps(self, action: "Action") -> Steps: ...

    def end(self, action: "Action", error: BaseException | None) -> None: ...


class Action:
    """A call between its proposal and its end; `with` or `async with`.

    Entering raises Refused when the call must not be made. An exception that leaves the block makes
    the outcome `error` (`timeout` for a TimeoutError), and goes on.
    """

    def __init__(self, gate: _Gate, call: Call) -> None:
        self._gate = gate
        self.call = call
        self.advice: tuple[Advice, ...] = ()
        """Hints and limits for the agent; known when the block is entered."""
        self.value: Any = None
        self.has_value = False
        self.cost_usd: float | None = None
        self.replayed = False
        """An earlier call with the same key has given `value`: nothing is to be done."""
        self.began_ns = 0
        """On the clock of `time.perf_counter_ns`."""

    @property
    def call_id(self) -> str:
        """Joins the proposal with its result."""
        return self.call.call_id

    @property
    def changes(self) -> Changes:
        """How the arguments must differ from those that were proposed; the functions of `tool` do it by themselves."""
        return changes_for(self.call.call_id, self.advice) if self.advice else UNCHANGED

    def result(self, value: Any) -> None:
        """What was returned: its digest, size and beginning are published."""
        self.value, self.has_value = value, True

    def cost(self, usd: float) -> None:
        """Tell what it has cost, where that is not its price."""
        self.cost_usd = usd

    def replay(self, value: Any, *, has_value: bool) -> None:
        """For the guard: the result of an earlier call stands for this one."""
        self.replayed, self.value, self.has_value = True, value, has_value

    def __enter__(self) -> Self:
        steps = self._gate.steps(self)
        try:
            for future, timeout_s in steps:
                wait(future, timeout_s)
        except Refused as refused:
            refused.hints = hints_of(self.advice)
            raise
        finally:
            steps.close()
        self.began_ns = time.perf_counter_ns()
        return self

    async def __aenter__(self) -> Self:
        steps = self._gate.steps(self)
        try:
            for future, timeout_s in steps:
                await wait_async(future, timeout_s)
        except Refused as refused:
            refused.hints = hints_of(self.advice)
            raise
        finally:
            steps.close()
        self.began_ns = time.perf_counter_ns()
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.replayed:
            self._gate.end(self, error)

    async def __aexit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.replayed:
            self._gate.end(self, error)


def wait(future: "Future[Any]", timeout_s: float) -> None:
    """Wait until it is done, or the time is over."""
    with contextlib.suppress(TimeoutError, CancelledError):
        future.result(timeout_s)


async def wait_async(future: "Future[Any]", timeout_s: float) -> None:
    """As `wait`; does not block the event loop."""
    if future.done():
        return
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()

    def wake(_: "Future[Any]") -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(arrived.set)

    future.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await arrived.wait()
