"""Simulated processes and their threads: killed, frozen, cut off, continued and ended as one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import greenlet  # type: ignore[import-untyped]  # it has no stubs

if TYPE_CHECKING:
    from benchmarks.simulator.loop import SimLoop
    from benchmarks.simulator.world import World


class ProcessEnded(BaseException):
    """Unwinds the threads of an ended process. A BaseException, so that `except Exception` does not catch it."""


class Thread:
    """A simulated thread of one process."""

    __slots__ = ("greenlet", "joiners", "name", "number", "process", "queued", "ticket", "waits")

    def __init__(self, process: "Process", name: str, run: Callable[[], object]) -> None:
        self.process = process
        self.name = name
        self.number = process.world.next_number()
        self.ticket = 0
        """Counts its waits, so that timers of an earlier wait are ignored."""
        self.queued = False
        """It is runnable: in the list of the scheduler, or of its frozen process."""
        self.waits = False
        self.joiners: list[Thread] = []
        self.greenlet: greenlet | None = greenlet(run, process.world.hub)

    @property
    def ended(self) -> bool:
        """Return whether it has returned or its process has ended."""
        return self.greenlet is None

    def wake(self) -> None:
        """Wake the thread, which checks its condition again."""
        if self.waits and not self.queued and self.greenlet is not None:
            self.ticket += 1
            self.waits = False
            self.process.make_runnable(self)


class Process:
    """A simulated process, which can be killed, frozen, continued and ended as a whole."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.threads: list[Thread] = []
        self.loop: SimLoop | None = None
        self.main: Thread | None = None
        self.alive = True
        self.frozen = False
        self.cut_off = False
        """It runs, but reaches no group coordinator and no partition leader for writes."""
        self.reason: str | BaseException = ""
        """Why it ended: an exception, or "stopped", or "killed"."""
        self.on_end: list[Callable[[], object]] = []
        """Called when it ends; `on_unreachable` when it is frozen or cut off. They close its connections."""
        self.on_unreachable: list[Callable[[], object]] = []
        self.on_reachable: list[Callable[[], object]] = []
        self.on_signal: Callable[[], object] = lambda: None
        """The handler of SIGTERM."""
        self.on_drop: Callable[[], object] = lambda: None
        """Called when its group removes it, which it learns later."""
        self._stalled: list[Thread] = []

    def start_thread(self, name: str, run: Callable[[], object]) -> Thread:
        """Start a thread that calls `run`; an exception ends the process."""

        def body() -> None:
            try:
                self._run(run)
            except ProcessEnded:
                pass
            finally:
                thread.greenlet = None
                for joiner in thread.joiners:
                    joiner.wake()

        thread = Thread(self, name, body)
        self.threads.append(thread)
        self.make_runnable(thread)
        return thread

    def _run(self, run: Callable[[], object]) -> None:
        try:
            run()
        except Exception as failure:
            self.end(failure)

    def make_runnable(self, thread: Thread) -> None:
        """Make a thread runnable as soon as the process is not frozen."""
        thread.queued = True
        (self._stalled if self.frozen else self.world.runnable).append(thread)

    def end(self, reason: str | BaseException) -> None:
        """End the process. Does not return when one of its own threads calls it."""
        if self.alive:
            self.alive = False
            self.reason = reason
            world = self.world
            world.trace("ends", self.name, reason)
            world.ended.append(self)
            for call in self.on_end:
                call()
            world.runnable = [thread for thread in world.runnable if thread.process is not self]
            self._stalled = []
        if self.world.current is not None and self.world.current.process is self:
            raise ProcessEnded

    def kill(self) -> None:
        """Kill the process, as SIGKILL does."""
        self.end("killed")

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.alive:
            self.world.trace("terminates", self.name)
            self.on_signal()

    @property
    def unreachable(self) -> bool:
        """Return whether it is frozen or cut off."""
        return self.frozen or self.cut_off

    def cut(self) -> None:
        """Cut its network to the broker for writes and group membership."""
        if self.alive and not self.unreachable:
            self.world.trace("is cut off", self.name)
            self.cut_off = True
            for call in self.on_unreachable:
                call()

    def connect(self) -> None:
        """Restore the network."""
        if self.alive and self.cut_off:
            self.world.trace("is connected", self.name)
            self.cut_off = False
            self._is_reachable()

    def freeze(self) -> None:
        """Freeze the process, as SIGSTOP does: no thread runs while time advances."""
        if not self.alive or self.frozen:
            return
        self.world.trace("freezes", self.name)
        self.frozen = True
        world = self.world
        self._stalled = [thread for thread in world.runnable if thread.process is self]
        world.runnable = [thread for thread in world.runnable if thread.process is not self]
        if not self.cut_off:
            for call in self.on_unreachable:
                call()

    def unfreeze(self) -> None:
        """Continue a frozen process, as SIGCONT does."""
        if not self.alive or not self.frozen:
            return
        self.world.trace("goes on", self.name)
        self.frozen = False
        stalled, self._stalled = self._stalled, []
        self.world.runnable += stalled
        self._is_reachable()

    def _is_reachable(self) -> None:
        if not self.unreachable:
            for call in self.on_reachable:
                call()

    def unwind(self) -> None:
        """End the greenlets of an ended process. Calls in their cleanup have no effect."""
        threads, self.threads = self.threads, []
        for thread in threads:
            self.world.unwind(thread)
        if self.loop is not None:
            self.loop.drop()


def described(reason: Any) -> str:
    """Return why a process ended, in one line."""
    return reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}"
