"""A virtual clock and a scheduler that runs simulated processes one step at a time, each choice from one seed.

A process has simulated threads. Each is a greenlet, which runs until it waits or reaches a point where the scheduler
may switch to another. The first thread of a process runs its event loop. Time advances a little with each step, and to
the next timer when no thread is runnable.
"""

import heapq
import random
from asyncio.events import _set_running_loop as set_running_loop  # all processes' loops share one thread
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from greenlet import getcurrent  # type: ignore[import-untyped]  # it has no stubs

from benchmarks.simulator.process import Process, ProcessEnded, Thread

EPOCH_NS: Final = 1_790_000_000_000_000_000
"""The start of each history in nanoseconds since 1970."""
_BOOT_S: Final = 1_000.0
_STEP_S: Final = 0.0004
"""The maximum virtual time of a step, in seconds."""
_STALL_SHARE: Final = 0.004
"""The share of steps in which the chosen thread stalls for a while instead of running."""
_PAUSE_SHARE: Final = 0.12
"""The share of external calls before which another thread may run."""


class Stuck(Exception):
    """Raised when a history does not end."""


class World:
    """The clock, the scheduler and the random choices of one history."""

    def __init__(self, seed: int, *, tell: Callable[[str], object] | None = None) -> None:
        self.rng = random.Random(seed)
        self.random = self.rng.random
        self.now = _BOOT_S
        self.hub = getcurrent()
        self.current: Thread | None = None
        self.runnable: list[Thread] = []
        self.ended: list[Process] = []
        """Processes that have ended and are not unwound yet."""
        self.steps = 0
        self.calm = False
        """True: no more stalls, so that the history ends."""
        self.seen: Counter[str] = Counter()
        """The number of times that each point was passed."""
        self.at_point: dict[str, list[Callable[[Process], object]]] = {}
        """By point: the faults that strike the next times it is passed."""
        self._timers: list[tuple[float, int, Callable[[], object] | None, Thread | None, int]] = []
        self._number = 0
        self._tell = tell

    def next_number(self) -> int:
        """Return the next number, for orders and names that do not depend on addresses."""
        self._number += 1
        return self._number

    def trace(self, what: str, *about: object) -> None:
        """Write one line of the trace."""
        if self._tell is not None:
            self._tell(f"{self.now - _BOOT_S:11.6f} {what} {' '.join(map(str, about))}")

    @property
    def tracing(self) -> bool:
        """Return whether a trace is written."""
        return self._tell is not None

    def monotonic(self) -> float:
        """Return the virtual monotonic time in seconds."""
        return self.now

    def time_ns(self) -> int:
        """Return the virtual time in nanoseconds since 1970."""
        return EPOCH_NS + int((self.now - _BOOT_S) * 1e9)

    def time_ms(self) -> int:
        """Return the virtual time in milliseconds since 1970."""
        return self.time_ns() // 1_000_000

    def between(self, low: float, high: float) -> float:
        """Return a random number between the two."""
        return low + (high - low) * self.random()

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.random() < share

    # Called outside of threads: by the network, the broker and the plan of faults.

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call this after a delay in seconds, outside of threads."""
        self._number += 1
        heapq.heappush(self._timers, (self.now + seconds, self._number, call, None, 0))

    # Called within a thread.

    def pause(self) -> None:
        """Return control to the scheduler, which may run another thread."""
        thread = self.current
        if thread is None:
            return
        if not thread.process.alive:
            raise ProcessEnded
        if self._goes_on(thread):
            return
        thread.process.make_runnable(thread)
        self._switch(thread)

    def _goes_on(self, thread: Thread) -> bool:
        """Take a step without switches if no other thread is runnable. Return whether that was so."""
        if self.runnable or self.ended or thread.process.frozen or not self._timers:
            return False
        now = self.now + _STEP_S * self.random()
        if self._timers[0][0] <= now:
            return False
        self.now = now
        self.steps += 1
        if self._stalls(thread):
            self._switch(thread)
        return True

    def _stalls(self, thread: Thread) -> bool:
        """Draw whether the thread stalls, and schedule its return."""
        if self.calm or self.random() >= _STALL_SHARE:
            return False
        thread.queued = True
        self.after(self.random() * self.random() * 0.5, lambda: self._back(thread))
        return True

    def wait(self, until: float | None = None) -> bool:
        """Wait until woken. Return False when the virtual time `until` is reached first."""
        thread = self.current
        if thread is None:
            raise RuntimeError("expected a simulated thread to wait, got none")
        if not thread.process.alive:
            raise ProcessEnded
        if until is not None:
            if until <= self.now:
                return False
            self._number += 1
            heapq.heappush(self._timers, (until, self._number, None, thread, thread.ticket))
        thread.waits = True
        self._switch(thread)
        return until is None or self.now < until

    def sleep(self, seconds: float) -> None:
        """Sleep for virtual seconds."""
        until = self.now + seconds
        if seconds <= 0:
            self.pause()
        while self.now < until:
            self.wait(until)

    def point(self, name: str) -> None:
        """Mark an external call: a fault of the plan may strike here, and another thread may run first."""
        thread = self.current
        if thread is None:
            return
        if not thread.process.alive:
            raise ProcessEnded
        self.seen[name] += 1
        if self.at_point:
            due = self.at_point.get(name)
            if due:
                due.pop(0)(thread.process)
                self.pause()
                return
        if self.random() < _PAUSE_SHARE:
            self.pause()

    def _switch(self, thread: Thread) -> None:
        self.hub.switch()
        if not thread.process.alive:
            raise ProcessEnded

    # The scheduler.

    def run(self, done: Callable[[], bool], *, within_s: float, steps: int, check_every: int = 1) -> None:
        """Run until `done`, checked every so many steps. Raises Stuck at the limits of virtual seconds and steps."""
        deadline = self.now + within_s
        last = self.steps + steps
        step = self.step
        while not done():
            if self.now > deadline or self.steps > last:
                raise Stuck(f"expected the end within {within_s:.0f} s and {steps} steps, got none")
            for _ in range(check_every):
                if not step():
                    if done():
                        return
                    raise Stuck("expected something to happen, got nothing: every thread waits for good")

    def step(self) -> bool:
        """Run one thread until it yields, or one due timer. Return False when there is neither."""
        self.steps += 1
        random = self.random
        self.now += _STEP_S * random()
        timers = self._timers
        runnable = self.runnable
        if timers and (timers[0][0] <= self.now or not runnable):
            due, _, call, thread, ticket = heapq.heappop(timers)
            self.now = max(self.now, due)
            if call is not None:
                call()
                if self.ended:
                    self._unwind_ended()
            elif thread is not None and thread.waits and thread.ticket == ticket:
                thread.wake()
            return True
        if not runnable:
            return False
        at = int(random() * len(runnable))
        thread = runnable[at]
        last = runnable.pop()
        if last is not thread:
            runnable[at] = last
        thread.queued = False
        if self._stalls(thread):
            return True
        self.resume(thread)
        if self.ended:
            self._unwind_ended()
        return True

    def _back(self, thread: Thread) -> None:
        if thread.greenlet is not None and thread.process.alive:
            thread.process.make_runnable(thread)

    def resume(self, thread: Thread) -> None:
        """Run a thread until it yields."""
        target = thread.greenlet
        process = thread.process
        if target is None or not process.alive:
            return
        self.current = thread
        if thread is process.main:
            set_running_loop(process.loop)
            target.switch()
            set_running_loop(None)
        else:
            target.switch()
        self.current = None

    def unwind(self, thread: Thread) -> None:
        """End the greenlet of a thread of an ended process."""
        target = thread.greenlet
        if target is None:
            return
        self.current = thread
        if target:
            target.throw(ProcessEnded)
        thread.greenlet = None
        set_running_loop(None)
        self.current = None

    def _unwind_ended(self) -> None:
        while self.ended:
            self.ended.pop(0).unwind()

    def close(self, processes: Iterable[Process]) -> None:
        """End all processes and drop all timers."""
        for process in processes:
            if process.alive:
                process.alive = False
                process.unwind()
        self._unwind_ended()
        self._timers = []
        self.runnable = []
