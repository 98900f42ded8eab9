"""The event loop of a simulated process, on virtual time."""

import asyncio
from asyncio import AbstractEventLoop, Future, Handle, Task, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Final, TypeVar

from benchmarks.simulator.process import Process, ProcessEnded

T = TypeVar("T")

_PAUSE_SHARE: Final = 0.25
"""The share of callbacks after which the scheduler may switch threads. Each switch costs time."""


_Base: Any = AbstractEventLoop  # only the methods that asyncio itself uses are implemented


class SimLoop(_Base):  # type: ignore[misc]  # as above
    """An event loop that runs callbacks in the order of their scheduling, in the first thread of the process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._ready: deque[Handle] = deque()
        self._handlers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        process.loop = self
        process.on_signal = lambda: self._signal(15)

    def start(self, main: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run the process. It ends as "stopped" when `main` returns, or with the exception that `main` raises."""
        process = self._process

        def ended(task: "Task[object]") -> None:
            failure = task.exception()
            process.end("stopped" if failure is None else failure)

        def body() -> None:
            self.create_task(main()).add_done_callback(ended)
            self._run()

        process.main = process.start_thread("main", body)

    def _run(self) -> None:
        ready, world = self._ready, self._world
        while self._process.alive:
            if not ready:
                world.wait()
                continue
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
                if world.chance(_PAUSE_SHARE):
                    world.pause()

    def drop(self) -> None:
        """Drop all callbacks."""
        self._ready.clear()

    # The methods that asyncio uses.

    def get_debug(self) -> bool:
        """Return False: debug mode is off."""
        return False

    def is_running(self) -> bool:
        """Return whether the process is alive."""
        return self._process.alive

    def is_closed(self) -> bool:
        """Return whether the process has ended."""
        return not self._process.alive

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._world.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:
        """Schedule a callback behind all scheduled before."""
        handle = Handle(callback, args, self, context)
        self._add(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Schedule a callback after a delay in virtual seconds."""
        return self.call_at(self._world.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Schedule a callback at a virtual time in seconds."""
        handle = TimerHandle(when, callback, args, self, context)
        self._world.after(when - self._world.now, lambda: self._due(handle))
        return handle

    def _due(self, handle: TimerHandle) -> None:
        if not handle._cancelled:
            self._add(handle)

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        pass

    def _add(self, handle: Handle) -> None:
        if self._process.alive:
            self._ready.append(handle)
            main = self._process.main
            if main is not None:
                main.wake()

    def create_future(self) -> "Future[Any]":
        """Return a future of this loop."""
        return Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "Task[T]":
        """Start a task."""
        return Task(coro, loop=self, name=name or "task", context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "Future[T]":
        """Run a function in a new simulated thread."""
        del executor
        future: Future[T] = self.create_future()

        def done(result: Any, failure: BaseException | None) -> None:
            if future.cancelled():
                return
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

        def run() -> None:
            try:
                result = func(*args)
            except ProcessEnded:
                raise
            except Exception as failure:
                self.call_soon(done, None, failure)
            else:
                self.call_soon(done, result, None)

        self._process.start_thread("executor", run)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """End the process with the exception of a callback."""
        failure = context.get("exception")
        if self._process.alive and isinstance(failure, Exception):
            self._process.end(failure)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Like `call_exception_handler`."""
        self.call_exception_handler(context)

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        """Register a callback that runs in the loop when the history sends the signal."""
        self._handlers[int(sig)] = (callback, args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove a handler. Return whether there was one."""
        return self._handlers.pop(int(sig), None) is not None

    def _signal(self, number: int) -> None:
        handler = self._handlers.get(number)
        if handler is None:
            self._process.end(f"killed by signal {number}")
        else:
            self.call_soon(handler[0], *handler[1])


def running(process: Process) -> bool:
    """Return whether the loop of this process is asyncio's running loop."""
    return asyncio._get_running_loop() is process.loop
