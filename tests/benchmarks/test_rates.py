"""Rates from observed commits, without the last one, which waits for its interval."""

from benchmarks.sink import rate
from benchmarks.throughput import Seen, events_per_s
from tests.cases import cases


@cases(
    "commits, expected",
    {
        "one commit is no rate": ([(1.0, 500)], None),
        "two commits": ([(1.0, 500), (3.0, 900)], 200.0),
        "the last one has waited for its second": ([(1.0, 500), (2.0, 1500), (3.0, 1510)], 1000.0),
        "several commits": ([(0.0, 100), (1.0, 300), (2.0, 500), (9.0, 501)], 200.0),
    },
)
def test_a_rate_is_between_the_first_commit_and_the_last_but_one(
    commits: list[tuple[float, int]], expected: float | None
) -> None:
    assert events_per_s([Seen(at_s, events, None) for at_s, events in commits]) == expected


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
