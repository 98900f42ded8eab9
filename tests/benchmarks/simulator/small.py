"""Small worlds for tests of the substrate."""

from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.simulator.broker import Broker
from benchmarks.simulator.loop import SimLoop
from benchmarks.simulator.process import Process
from benchmarks.simulator.threads import system_of
from benchmarks.simulator.world import World
from haltline.streams.system import System


class Small:
    """A world with one broker, topic "a" of two partitions and the compacted topic "c" of one."""

    def __init__(self, seed: int = 1, *, tell: Callable[[str], object] | None = None, calm: bool = True) -> None:
        self.world = World(seed, tell=tell)
        self.world.calm = calm
        self.broker = Broker(self.world)
        self.broker.create("a", 2)
        self.broker.create("c", 1, compacted=True)
        self.processes: list[Process] = []

    def process(self, name: str = "p") -> tuple[Process, System]:
        """A process, and what it uses."""
        process = Process(self.world, name)
        self.processes.append(process)
        return process, system_of(process, self.broker)

    def thread(self, run: Callable[[System], object], name: str = "p") -> Process:
        """A process of one thread."""
        process, system = self.process(name)
        process.start_thread(name, lambda: run(system))
        return process

    def loop(self, main: Callable[[System], Coroutine[Any, Any, object]], name: str = "p") -> Process:
        """A process with an event loop."""
        process, system = self.process(name)
        SimLoop(process).start(lambda: main(system))
        return process

    def run(self, seconds: float = 60.0) -> None:
        """Until that much time is over."""
        until = self.world.now + seconds
        self.world.after(seconds, lambda: None)
        self.world.run(lambda: self.world.now >= until, within_s=seconds + 1.0, steps=200_000)

    def until(self, done: Callable[[], bool], within_s: float = 120.0) -> None:
        """Until that holds."""
        self.world.after(within_s, lambda: None)
        self.world.run(done, within_s=within_s, steps=200_000)
