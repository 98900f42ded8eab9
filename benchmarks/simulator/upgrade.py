"""Histories that begin with the release before claims: a full stop, an upgrade, and in some a downgrade."""

import random
from typing import Final

from benchmarks.simulator import old_rules
from benchmarks.simulator.fleet import CHANGELOG, Traffic
from benchmarks.simulator.history import History
from benchmarks.simulator.log import Record
from benchmarks.simulator.producer import ABANDONED_S
from benchmarks.simulator.workload import traffic
from haltline.streams.runtime.changelog import Claim

_SHARE: Final = 0.1
_GOES_BACK_SHARE: Final = 0.5
_BEFORE, _BACK, _AGAIN = 2, 3, 4
"""Numbers of the traffic that is sent without faults."""
_SECONDS: Final = 2.0


def is_upgrade(seed: int) -> bool:
    """Return whether the history of this seed is an upgrade."""
    return random.Random(f"{seed} upgrade").random() < _SHARE


class Upgrade(History):
    """The steps of docs/upgrade.md under traffic. Faults strike the current release only."""

    stopped = False
    """The operator has stopped the workers, so none is restarted."""

    def endure(self, life: int) -> None:
        """Like the base class; the older release runs before the first life and, in some histories, after it."""
        if life == 0:
            self.older_release(_BEFORE)
        super().endure(life)
        if life == 0 and not self.unexpected and random.Random(f"{self.seed} back").random() < _GOES_BACK_SHARE:
            self.stop_workers()
            self.release_partitions()
            self.older_release(_BACK)
            self.send(_AGAIN)

    def start_again(self, name: str) -> None:
        """Start a process again, except a worker while workers are stopped."""
        if not (self.stopped and name in self.instances):
            super().start_again(name)

    def older_release(self, life: int) -> None:
        """Run workers of the older release under traffic, stop all, then start workers of the current release."""
        with old_rules.in_force():
            self.start_workers()
            self.send(life)
            self.stop_workers()
        self.start_workers()

    def send(self, life: int) -> None:
        """Send traffic without faults and wait until it is processed and committed."""
        self.healing = self.world.calm = True
        self.traffic = Traffic(self.world, self.broker, traffic(self.seed, life), _SECONDS)
        self.all.append(self.traffic.process)
        self.until(self.is_done)
        self.healing = self.world.calm = False

    def start_workers(self) -> None:
        """Start each worker that does not run."""
        self.stopped = False
        for name in self.instances:
            self.start_again(name)

    def stop_workers(self) -> None:
        """Stop all workers by SIGTERM, then wait until records in flight of killed workers have been appended."""
        self.stopped = True
        workers = [self.running[name] for name in self.instances if name in self.running]
        for process in workers:
            process.terminate()
        self.until(lambda: not any(process.alive for process in workers))
        landed_s = self.world.now + ABANDONED_S
        self.world.after(ABANDONED_S, lambda: None)
        self.until(lambda: self.world.now >= landed_s)

    def release_partitions(self) -> None:
        """Write what `haltline changelog release` writes."""
        marker = Claim(b"")
        for number, _ in enumerate(self.broker.topics[CHANGELOG].logs):
            self.broker.append(CHANGELOG, number, Record(0, marker.key, None, marker.headers, producer=-1, sequence=0))
