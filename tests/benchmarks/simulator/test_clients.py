"""Producers and consumers of the simulation."""

import pytest
from confluent_kafka import Message, TopicPartition

from benchmarks.simulator.log import Record
from haltline.streams.system import System
from tests.benchmarks.simulator.small import Small


def _write(small: Small, topic: str, count: int, partition: int = 0) -> None:
    log = small.broker.log(topic, partition)
    for _ in range(count):
        log.append(Record(1, b"k%d" % (log.end % 3), b"%d" % log.end, (), 99, log.end))
    log.raise_high()


def _read(small: Small, system: System, config: dict[str, object], topic: str, at: int, seen: list[Message]) -> None:
    consumer = system.consumer(config)
    consumer.assign([TopicPartition(topic, 0, at)])
    while True:
        message = consumer.poll(0.2)
        seen += [message] if message is not None else []


EARLIEST = {"enable.partition.eof": True, "auto.offset.reset": "earliest"}


def test_a_high_watermark_that_is_behind_is_the_end_for_a_reader() -> None:
    small, seen = Small(), list[Message]()
    _write(small, "a", 20)
    log = small.broker.log("a", 0)
    log.high = 12
    small.broker.lag("a", 0, log, 3.0)
    small.thread(lambda system: _read(small, system, EARLIEST, "a", 0, seen))
    small.run(1)
    assert [m.offset() for m in seen] == [*range(12), 12]
    small.run(5)
    assert [m.offset() for m in seen if m.error() is None] == list(range(20))


@pytest.mark.parametrize("seed", range(5))
def test_each_record_lands_once_and_in_order_over_crashes_of_the_broker(seed: int) -> None:
    small = Small(seed, calm=False)
    done: list[int] = []

    def run(system: System) -> None:
        producer = system.producer({"delivery.timeout.ms": 60_000})
        for number in range(200):
            producer.produce("a", key=b"k", value=b"%d" % number, partition=0)
            producer.poll(0.02)
        done.append(producer.flush(60))

    small.thread(run)
    for crash in range(4):
        small.world.after(0.5 + crash, lambda: small.broker.go_down(crash=True))
        small.world.after(0.9 + crash, lambda: small.broker.come_up(lagging=True))
    small.until(lambda: bool(done))
    assert done == [0]
    assert [r.value for r in small.broker.log("a", 0).records] == [b"%d" % n for n in range(200)]


def test_what_a_killed_process_had_handed_over_may_land_late() -> None:
    landed, later = [], []
    for seed in range(30):
        small = Small(seed)
        small.broker.slow = 200.0

        def run(system: System) -> None:
            producer = system.producer({})
            for _ in range(10):
                producer.produce("a", key=b"k", value=b"zombie", partition=0)
            system.sleep(100.0)

        process = small.thread(run)
        small.run(0.02)
        process.kill()
        at_its_end = small.broker.log("a", 0).end
        small.run(5)
        after_others_own = small.broker.log("a", 0).end
        small.run(20)
        landed.append(small.broker.log("a", 0).end - at_its_end)
        later.append(small.broker.log("a", 0).end - after_others_own)
    assert 0 in landed
    assert any(later)
    assert any(0 < count < 10 for count in landed)
