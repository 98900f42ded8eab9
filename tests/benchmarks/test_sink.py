"""The rate of a sink is of full commits: what is left at the end waits until its time has come."""

from benchmarks.sink import rate
from tests.cases import cases


@cases(
    "commits, wanted",
    {
        "the last one waited": ([(0.0, 40_000), (1.0, 80_000), (2.0, 120_000), (7.5, 150_000)], 40_000.0),
        "too short": ([(0.0, 40_000), (5.5, 60_000)], None),
        "one commit": ([(0.0, 40_000)], None),
    },
)
def test_the_last_commit_is_left_out(commits: list[tuple[float, int]], wanted: float | None) -> None:
    assert rate(commits) == wanted
