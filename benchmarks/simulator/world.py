"""A virtual clock and a scheduler that runs simulated processes one step at a time, each choice from one seed.

A process has simulated threads. Each is a greenlet: it runs until it waits for something, or reaches a point where the
scheduler may prefer another one. The first thread of a process runs its event loop. Time moves on by a little with each
step, and to the next due time when nothing can run.
"""

import heapq
import random
from asyncio.events import _set_running_loop as set_running_loop  # each process has its own, and all share one thread
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from greenlet import getcurrent  # type: ignore[import-untyped]  # it has no stubs

from benchmarks.simulator.process import Process, ProcessEnded, Thread

EPOCH_NS: Final = 1_790_000_000_000_000_000
"""Nanoseconds since 1970 at the beginning of each history."""
_BOOT_S: Final = 1_000.0
_STEP_S: Final = 0.0004
"""A step takes up to so much virtual time."""
_STALL_SHARE: Final = 0.004
"""Of the steps: the chosen thread is not scheduled for a while instead."""
_PAUSE_SHARE: Final = 0.12
"""Of the calls to the outside: another thread runs first."""


class Stuck(Exception):
    """A history that does not come to its end."""


class World:
    """One history."""

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
        """No stalls any more: the history comes to its end."""
        self.seen: Counter[str] = Counter()
        """How often each point was passed."""
        self.at_point: dict[str, list[Callable[[Process], object]]] = {}
        """What the plan of faults does the next time that a point is passed."""
        self._timers: list[tuple[float, int, Callable[[], object] | None, Thread | None, int]] = []
        self._number = 0
        self._tell = tell

    def next_number(self) -> int:
        """Counts up: for orders and names that do not depend on addresses."""
        self._number += 1
        return self._number

    def trace(self, what: str, *about: object) -> None:
        """One line of the log of steps."""
        if self._tell is not None:
            self._tell(f"{self.now - _BOOT_S:11.6f} {what} {' '.join(map(str, about))}")

    @property
    def tracing(self) -> bool:
        """Whether lines of the log of steps are kept."""
        return self._tell is not None

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return EPOCH_NS + int((self.now - _BOOT_S) * 1e9)

    def time_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.time_ns() // 1_000_000

    def between(self, low: float, high: float) -> float:
        """A number from the seed."""
        return low + (high - low) * self.random()

    def chance(self, share: float) -> bool:
        """True for that share of the calls."""
        return self.random() < share

    # Called by whatever belongs to no thread: the network, the broker, the plan of faults.

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Calls it at that time, from no thread."""
        self._number += 1
        heapq.heappush(self._timers, (self.now + seconds, self._number, call, None, 0))

    # Called within a thread.

    def pause(self) -> None:
        """Lets the scheduler choose again."""
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
        """Whether the scheduler would have nothing to choose: a step without the switches that one costs."""
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
        """Whether the thread is not scheduled for a while: it is at some point of its own, and goes on there."""
        if self.calm or self.random() >= _STALL_SHARE:
            return False
        thread.queued = True
        self.after(self.random() * self.random() * 0.5, lambda: self._back(thread))
        return True

    def wait(self, until: float | None = None) -> bool:
        """Waits to be woken. False when that time is over first."""
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
        """Waits for that long."""
        until = self.now + seconds
        if seconds <= 0:
            self.pause()
        while self.now < until:
            self.wait(until)

    def point(self, name: str) -> None:
        """A call to the outside: the plan of faults may strike here, and another thread may run first."""
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
        """Runs until `done`, checked every so many steps. Raises Stuck when it takes longer."""
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
        """Runs one thread until it gives the scheduler its turn, or one thing that is due. False: there is none."""
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
        """Runs a thread until it gives its turn back."""
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
        """Ends a greenlet that will never run again."""
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
        """Drops what still runs."""
        for process in processes:
            if process.alive:
                process.alive = False
                process.unwind()
        self._unwind_ended()
        self._timers = []
        self.runnable = []
