"""A rate from the commits that were seen."""

import pytest

from benchmarks.throughput import Seen, events_per_s


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        pytest.param([(1.0, 500)], None, id="one commit is no rate"),
        pytest.param([(1.0, 500), (3.0, 900)], 200.0, id="two commits"),
        pytest.param([(1.0, 500), (2.0, 1500), (3.0, 1510)], 1000.0, id="the last one has waited for its second"),
        pytest.param([(0.0, 100), (1.0, 300), (2.0, 500), (9.0, 501)], 200.0, id="several commits"),
    ],
)
def test_a_rate_is_between_the_first_commit_and_the_last_but_one(
    commits: list[tuple[float, int]], expected: float | None
) -> None:
    assert events_per_s([Seen(at_s, events, None) for at_s, events in commits]) == expected
