"""The synchronization primitives of `threading` for simulated threads, and the `System` of a simulated process."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, cast

from benchmarks.simulator.admin import SimAdmin
from benchmarks.simulator.broker import Broker
from benchmarks.simulator.consumer import SimConsumer
from benchmarks.simulator.process import Process, Thread
from benchmarks.simulator.producer import SimProducer
from benchmarks.simulator.world import World
from haltline.streams.system import System


class SimEvent:
    """threading.Event."""

    __slots__ = ("_set", "_waiting", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._set = False
        self._waiting: list[Thread] = []

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it and wake all waiting threads."""
        self._set = True
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            thread.wake()

    def clear(self) -> None:
        """Clear it."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set. Return False at the timeout, in seconds."""
        return _wait_until(self._world, self._waiting_of, lambda: self._set, timeout)

    def _waiting_of(self) -> list[Thread]:
        return self._waiting


def _wait_until(
    world: World, waiting: Callable[[], list[Thread]], holds: Callable[[], bool], timeout: float | None
) -> bool:
    """Wait in this list until `holds()`. Return False at the timeout, in seconds."""
    until = None if timeout is None else world.now + timeout
    while not holds():
        if world.current is None:
            raise RuntimeError("expected a simulated thread to wait, got none")
        if until is not None and world.now >= until:
            return False
        thread = world.current
        waiting().append(thread)
        world.wait(until)
        if thread in waiting():
            waiting().remove(thread)
    return True


class SimSemaphore:
    """threading.Semaphore."""

    __slots__ = ("_count", "_waiting", "_world")

    def __init__(self, world: World, count: int) -> None:
        self._world = world
        self._count = count
        self._waiting: list[Thread] = []

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one. Return False at the timeout, in seconds."""
        if not blocking:
            timeout = 0.0
        if not _wait_until(self._world, lambda: self._waiting, lambda: self._count > 0, timeout):
            return False
        self._count -= 1
        return True

    def release(self, n: int = 1) -> None:
        """Release `n`."""
        self._count += n
        for thread in self._waiting:
            thread.wake()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimCondition:
    """threading.Condition with its own reentrant lock."""

    __slots__ = ("_holds", "_notified", "_owner", "_waiting", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner: Thread | None = None
        self._holds = 0
        self._waiting: list[Thread] = []
        self._notified = 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> bool:
        """Acquire the lock, which is reentrant."""
        thread = self._world.current
        if thread is not self._owner or self._holds == 0:
            _wait_until(self._world, lambda: self._waiting, lambda: self._holds == 0, None)
            self._owner = thread
        self._holds += 1
        return True

    def release(self) -> None:
        """Release the lock."""
        self._holds -= 1
        if self._holds == 0:
            self._owner = None
            for thread in self._waiting:
                thread.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait for a notification, acquire it again. Return False at the timeout, in seconds."""
        since = self._notified
        holds, self._holds = self._holds, 1
        self.release()
        notified = _wait_until(self._world, lambda: self._waiting, lambda: self._notified > since, timeout)
        self.acquire()
        self._holds = holds
        return notified

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds. Return False at the timeout, in seconds."""
        until = None if timeout is None else self._world.now + timeout
        while not predicate():
            left = None if until is None else until - self._world.now
            if left is not None and left <= 0:
                return predicate()
            self.wait(left)
        return True

    def notify(self, n: int = 1) -> None:
        """Wake all waiting threads, which check their conditions again; `n` is ignored."""
        del n
        self.notify_all()

    def notify_all(self) -> None:
        """Wake all waiting threads."""
        self._notified += 1
        for thread in self._waiting:
            thread.wake()


class SimThread:
    """threading.Thread."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
        process: Process,
    ) -> None:
        del group
        self.name = name or "thread"
        self.daemon = daemon
        self._process = process
        self._call = partial(target or (lambda: None), *args, **(kwargs or {}))
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = self._process.start_thread(self.name, self._call)

    def is_alive(self) -> bool:
        """Return whether it has started and not ended."""
        return self._thread is not None and not self._thread.ended

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, or until the timeout in seconds."""
        thread = self._thread
        if thread is not None:
            _wait_until(self._process.world, lambda: thread.joiners, lambda: thread.ended, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        return False


def system_of(process: Process, broker: Broker) -> System:
    """Return the simulated clients, clock and threads for a process of the product."""
    world = process.world
    simulated: dict[str, object] = {
        "producer": partial(SimProducer, process=process, broker=broker),
        "consumer": partial(SimConsumer, process=process, broker=broker),
        "admin": partial(SimAdmin, process=process, broker=broker),
        "monotonic": world.monotonic,
        "boottime": world.monotonic,
        "random_bytes": world.rng.randbytes,
        "time_ns": world.time_ns,
        "sleep": world.sleep,
        "thread": partial(SimThread, process=process),
        "event": partial(SimEvent, world),
        "semaphore": partial(SimSemaphore, world),
        "condition": partial(SimCondition, world),
    }
    return System(**cast("Any", simulated))
