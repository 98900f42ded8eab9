"""The worker's memory stays bounded though Python does not collect by itself."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from haltline.streams.runtime.garbage import Collector, collecting


class Clock:
    """A clock that stands still unless it is moved."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Node:
    """An object that can hold itself."""

    itself: "Node | None" = None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(clock: Clock) -> Iterator[Collector]:
    with collecting():
        yield Collector(clock)


def test_python_does_not_collect_by_itself_meanwhile_and_does_again_afterwards() -> None:
    assert gc.isenabled()
    with collecting():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_cycle_that_lived_for_some_seconds_is_gone_after_a_minute(collector: Collector, clock: Clock) -> None:
    node = Node()
    found = weakref.ref(node)
    for second in range(1, 4):
        clock.now_s = float(second)
        collector.tick()
    node.itself = node
    del node
    clock.now_s = 4.0
    collector.tick()
    assert found() is not None
    clock.now_s = 60.0
    collector.tick()
    assert found() is None


def test_what_is_frozen_is_found_when_partitions_are_given_up(collector: Collector) -> None:
    node = Node()
    found = weakref.ref(node)
    collector.whole()
    node.itself = node
    del node
    collector.whole()
    assert found() is not None
    collector.anew()
    assert found() is None
