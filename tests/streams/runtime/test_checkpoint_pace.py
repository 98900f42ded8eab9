"""When the next checkpoint is due, by a clock of the test."""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import count

import pytest

from haltline.streams.runtime.checkpoint_pace import CheckpointPace


class Worker:
    """A second passes with each look at its positions; events arrive until `quiet_after` seconds."""

    def __init__(self, quiet_after: int = 1_000) -> None:
        self.now_s = 0.0
        self._looks: Iterator[int] = count()
        self._quiet_after = quiet_after

    def clock(self) -> float:
        return self.now_s

    def positions(self) -> Mapping[str, int]:
        self.now_s += 0.5  # looked at twice for each interval
        return {"events": min(next(self._looks), self._quiet_after)}


@pytest.mark.parametrize(
    ("busy_s", "quiet_after", "waited_s"),
    [
        pytest.param(0.0, 1_000, 1.0, id="one that takes no time is followed by the next after the interval"),
        pytest.param(0.5, 1_000, 5.0, id="one that keeps events waiting is followed by nine times as much work"),
        pytest.param(60.0, 1_000, 10.5, id="but by no more than ten seconds"),
        pytest.param(60.0, 3, 2.5, id="when no more events arrive it is due at once"),
    ],
)
def test_when_the_next_one_is_due(busy_s: float, quiet_after: int, waited_s: float) -> None:
    worker = Worker(quiet_after)
    pace = CheckpointPace(0, worker.positions, worker.clock)
    pace.took(busy_s)
    asyncio.run(pace.next())
    assert worker.now_s == pytest.approx(waited_s, abs=0.5)


def test_after_a_command_it_is_due_at_once_and_then_as_before() -> None:
    worker = Worker()
    pace = CheckpointPace(0, worker.positions, worker.clock)
    pace.took(60)
    pace.add_commands(1)
    asyncio.run(pace.next())
    assert worker.now_s <= 1
    asyncio.run(pace.next())
    assert worker.now_s > 10
