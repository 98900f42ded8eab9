"""The clock, threads and loops of the simulation."""

import asyncio

import pytest

from benchmarks.simulator.world import Stuck
from haltline.streams.system import System
from tests.benchmarks.simulator.small import Small


def _busy(seed: int) -> list[str]:
    lines: list[str] = []
    small = Small(seed, tell=lines.append, calm=False)

    def write(system: System) -> None:
        producer = system.producer({"delivery.timeout.ms": 5000})
        for number in range(30):
            producer.produce("a", key=b"%d" % number, value=b"x")
            producer.poll(0.01)
        producer.flush(5)

    async def loop(system: System) -> None:
        for _ in range(20):
            await asyncio.sleep(0.05)
            await asyncio.to_thread(system.sleep, 0.02)

    first = small.thread(write, "first")
    small.thread(write, "second")
    small.loop(loop)
    small.world.after(0.1, first.freeze)
    small.world.after(0.6, first.unfreeze)
    small.world.after(0.2, lambda: small.broker.go_down(crash=True))
    small.world.after(0.9, lambda: small.broker.come_up(lagging=True))
    small.run(10)
    return lines


def test_the_same_seed_gives_the_same_steps() -> None:
    assert _busy(7) == _busy(7)
    assert _busy(7) != _busy(8)


def test_a_wait_ends_in_virtual_time() -> None:
    small = Small()
    waited: list[float] = []

    def run(system: System) -> None:
        began = system.monotonic()
        assert not system.event().wait(100.0)
        waited.append(system.monotonic() - began)

    small.thread(run)
    small.until(lambda: bool(waited))
    assert 100.0 <= waited[0] < 100.01


def test_time_moves_on_for_a_thread_that_has_no_other_to_give_its_turn_to() -> None:
    small = Small()
    turns: list[float] = []

    def run(system: System) -> None:
        began = system.monotonic()
        while system.monotonic() - began < 1.0:
            system.sleep(0)
            turns.append(system.monotonic())

    small.thread(run)
    small.run(2)
    assert turns == sorted(turns)
    assert len(set(turns)) == len(turns) > 1_000


def test_asyncio_works_in_the_loop_of_a_process() -> None:
    small = Small()
    done: list[str] = []

    async def main(system: System) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await asyncio.sleep(50.0)
        lock = asyncio.Lock()

        async def one(name: str) -> None:
            async with lock:
                await asyncio.sleep(1.0)
                done.append(name)

        await asyncio.wait([asyncio.create_task(one(name)) for name in "ab"])
        done.append(await asyncio.to_thread(lambda: "thread"))

    process = small.loop(main)
    small.until(lambda: not process.alive)
    assert process.reason == "stopped"
    assert sorted(done) == ["a", "b", "thread"]


def test_a_failure_ends_the_process_with_its_reason() -> None:
    small = Small()

    async def main(system: System) -> None:
        raise ValueError("what failed")

    process = small.loop(main)
    small.until(lambda: not process.alive)
    assert repr(process.reason) == "ValueError('what failed')"


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


def test_sigterm_calls_the_handler_of_the_loop() -> None:
    small = Small()

    async def main(system: System) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(15, stop.set)
        await stop.wait()

    process = small.loop(main)
    small.run(1)
    assert process.alive
    process.terminate()
    small.run(1)
    assert process.reason == "stopped"


def test_a_world_in_which_nothing_can_happen_is_stuck() -> None:
    small = Small()
    small.thread(lambda system: system.event().wait())
    with pytest.raises(Stuck, match="waits for good"):
        small.world.run(lambda: False, within_s=10, steps=1000)


def test_semaphores_and_conditions_hold_threads_apart() -> None:
    small = Small()
    process, system = small.process()
    room, moved, order = system.semaphore(1), system.condition(), list[str]()

    def first() -> None:
        assert room.acquire(timeout=1.0)
        assert not room.acquire(timeout=1.0)
        with moved:
            assert moved.wait_for(lambda: bool(order), 5.0)
        order.append("first")

    def second() -> None:
        system.sleep(2.0)
        with moved:
            order.append("second")
            moved.notify_all()

    process.start_thread("first", first)
    process.start_thread("second", second)
    small.run(10)
    assert process.alive, process.reason
    assert order == ["second", "first"]
