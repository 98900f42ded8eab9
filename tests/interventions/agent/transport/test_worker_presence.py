from types import SimpleNamespace

from haltline.interventions.agent.transport.worker_presence import (
    GONE,
    MOVED,
    RECREATED,
    RESTART_WITHIN_S,
    WorkerPresence,
)
from haltline.schemas.partitioner import partition_of

STAYS, MOVES = (
    next(name for name in (f"s{n}" for n in range(100)) if (partition_of(name, 4) == partition_of(name, 6)) is same)
    for same in (True, False)
)


def watching() -> tuple[WorkerPresence, SimpleNamespace]:
    """Of a topic of four partitions, and its clock."""
    clock = SimpleNamespace(now_s=1000.0)
    watched = WorkerPresence(now_s=lambda: clock.now_s)
    watched.looked(4)
    return watched, clock


def test_a_topic_that_stays_says_nothing_nor_do_reports_in_another_order() -> None:
    watched, clock = watching()
    for offset in (51, 50, 52):
        watched.delivered(0, offset)
        watched.delivered(1, 2 * offset)
    clock.now_s += 100
    watched.delivered(0, 53)
    watched.looked(4)
    assert [watched.unwatched_reason(MOVES), watched.unwatched_reason()] == [None, None]


def test_offsets_that_begin_again_tell_for_a_while_that_it_was_recreated() -> None:
    watched, clock = watching()
    watched.delivered(2, 50)
    clock.now_s += 10
    watched.delivered(2, 0)
    assert watched.unwatched_reason(STAYS) == RECREATED
    clock.now_s += RESTART_WITHIN_S
    watched.delivered(2, 1)
    assert watched.unwatched_reason(STAYS) is None


def test_a_topic_that_is_gone_is_told_of_until_it_is_back_and_then_what_moved() -> None:
    watched, _ = watching()
    watched.looked(None)
    assert watched.unwatched_reason(STAYS) == GONE
    watched.looked(6)
    assert [watched.unwatched_reason(name) for name in (MOVES, STAYS, None)] == [MOVED, None, MOVED]
