"""The clock, threads and loops of the simulation."""

import pytest

from benchmarks.simulator.world import Stuck
from haltline.streams.system import System
from tests.benchmarks.simulator.small import Small


def test_what_a_killed_process_cleans_up_with_does_nothing() -> None:
    small = Small()
    steps: list[str] = []

    def run(system: System) -> None:
        producer = system.producer({})
        try:
            steps.append("waits")
            system.sleep(100.0)
            steps.append("never")
        finally:
            producer.produce("a", key=b"k", value=b"from the grave")
            steps.append("never either")

    process = small.thread(run)
    small.until(lambda: steps == ["waits"])
    process.kill()
    small.run(10)
    assert steps == ["waits"]
    assert all(log.end == 0 for _, _, log in small.broker.partitions())


def test_a_frozen_process_stands_still_while_time_goes_on() -> None:
    small = Small()
    times: list[float] = []

    def run(system: System) -> None:
        while True:
            system.sleep(1.0)
            times.append(system.monotonic())

    process = small.thread(run)
    small.run(2.5)
    process.freeze()
    small.run(50)
    assert len(times) == 2
    process.unfreeze()
    small.run(1.5)
    assert times[2] - times[1] > 50
    assert len(times) == 4


def test_a_world_in_which_nothing_can_happen_is_stuck() -> None:
    small = Small()
    small.thread(lambda system: system.event().wait())
    with pytest.raises(Stuck, match="waits for good"):
        small.world.run(lambda: False, within_s=10, steps=1000)
