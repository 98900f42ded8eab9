"""Whose processor time it was, and whether figures can be trusted."""

import pytest

from benchmarks.reporting.quiet import (
    LOUD_FROM,
    Reading,
    is_quiet,
    note,
    others_share,
    tree_ticks,
    used_ticks,
)

STAT = """cpu  100 20 30 5000 40 7 8 9 0 0
cpu0 50 10 15 2500 20 4 4 5 0 0
cpu1 50 10 15 2500 20 3 4 4 0 0
intr 12345
"""


def stat(pid: int, parent: int, *ticks: int, name: str = "python") -> str:
    user, system, ended_user, ended_system = ticks
    head = f"{pid} ({name}) S {parent} 1 1 0 -1 4194304 100 0 0 0"
    return f"{head} {user} {system} {ended_user} {ended_system} 20 0 1 0 1000 1000000 500"


def test_idle_waiting_and_interrupts_are_nobodys_work() -> None:
    assert used_ticks(STAT) == (100 + 20 + 30 + 9, 2)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param({}, 0, id="no children"),
        pytest.param({2: stat(2, 1, 10, 5, 0, 0)}, 15, id="a child"),
        pytest.param({2: stat(2, 1, 10, 5, 3, 2)}, 20, id="a child with children that have ended"),
        pytest.param({2: stat(2, 1, 1, 0, 0, 0), 3: stat(3, 2, 7, 0, 0, 0)}, 8, id="a grandchild"),
        pytest.param({9: stat(9, 8, 99, 99, 0, 0)}, 0, id="not somebody else's process"),
        pytest.param({2: stat(2, 1, 4, 0, 0, 0, name="a) b (c")}, 4, id="a name with brackets"),
    ],
)
def test_ticks_of_a_tree(others: dict[int, str], expected: int) -> None:
    assert tree_ticks({1: stat(1, 0, 1000, 0, 0, 0)} | others, 1) == expected


@pytest.mark.parametrize(
    ("used_s", "own_s", "expected"),
    [
        pytest.param(10.0, 10.0, 0.0, id="all of it was ours"),
        pytest.param(10.0, 5.0, 0.25, id="a quarter was others'"),
        pytest.param(4.0, 4.5, 0.0, id="rounding is not negative"),
    ],
)
def test_the_share_of_others(used_s: float, own_s: float, expected: float) -> None:
    assert others_share(Reading(100.0, 50.0, 7.0), Reading(120.0, 50.0 + used_s, 7.0 + own_s)) == expected


def test_a_loud_part_is_named_a_quiet_run_is_not_and_what_is_not_known_is_neither() -> None:
    parts = {"throughput": 0.01, "sink": LOUD_FROM - 0.001}
    assert is_quiet(parts)
    assert note(parts) == ""
    result = note({"throughput": 0.01, "sink": 0.31})
    assert not is_quiet({"throughput": 0.01, "sink": 0.31})
    assert "sink 31%" in result
    assert "throughput" not in result
    assert is_quiet({}) is None
    assert "not known" in note({})
