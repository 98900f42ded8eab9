"""The worker's memory stays bounded with Python's garbage collection switched off."""

import weakref

from haltline.streams.runtime.garbage import Collector, collecting


class Node:
    """An object that can hold itself."""

    itself: "Node | None" = None


def test_a_cycle_that_lived_for_some_seconds_is_gone_after_a_minute() -> None:
    now_s = [0.0]
    with collecting():
        collector, node = Collector(lambda: now_s[0]), Node()
        found = weakref.ref(node)
        for now_s[0] in (1.0, 2.0, 3.0):
            collector.tick()
        node.itself = node
        del node
        now_s[0] = 4.0
        collector.tick()
        assert found() is not None
        now_s[0] = 60.0
        collector.tick()
        assert found() is None
