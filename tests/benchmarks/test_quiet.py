"""Processor time of other processes, and whether figures are reliable."""

from benchmarks.reporting.quiet import LOUD_FROM, is_quiet, note, tree_ticks
from tests.cases import cases


def stat(pid: int, parent: int, *ticks: int, name: str = "python") -> str:
    user, system, ended_user, ended_system = ticks
    head = f"{pid} ({name}) S {parent} 1 1 0 -1 4194304 100 0 0 0"
    return f"{head} {user} {system} {ended_user} {ended_system} 20 0 1 0 1000 1000000 500"


@cases(
    "others, expected",
    {
        "no children": ({}, 0),
        "a child": ({2: stat(2, 1, 10, 5, 0, 0)}, 15),
        "a child with children that have ended": ({2: stat(2, 1, 10, 5, 3, 2)}, 20),
        "a grandchild": ({2: stat(2, 1, 1, 0, 0, 0), 3: stat(3, 2, 7, 0, 0, 0)}, 8),
        "not somebody else's process": ({9: stat(9, 8, 99, 99, 0, 0)}, 0),
        "a name with brackets": ({2: stat(2, 1, 4, 0, 0, 0, name="a) b (c")}, 4),
    },
)
def test_ticks_of_a_tree(others: dict[int, str], expected: int) -> None:
    assert tree_ticks({1: stat(1, 0, 1000, 0, 0, 0)} | others, 1) == expected


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
