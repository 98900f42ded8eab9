from math import isclose, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.quality.judging import ASKED, BEFORE, STOPPED, TOLD, WITHIN_3, WITHIN_5, Seen
from benchmarks.quality.sessions import Judgement, Kind, Known
from benchmarks.quality.summary import Count, Target
from haltline.streams.replay.backtest import Recorded


def known(begins: int, signal: int | None) -> Known:
    return Known("some", Recorded("a", ()), Judgement(Kind.STOP, begins=begins, signal=signal))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(Seen(), set(), id="nothing was said"),
        pytest.param(Seen(found=3), {TOLD}, id="a hint is no stop"),
        pytest.param(Seen(asked=3), {ASKED}, id="an ask is neither"),
        pytest.param(Seen(9, 9), {TOLD, STOPPED, BEFORE}, id="one event before it begins"),
        pytest.param(Seen(9, 10), {TOLD, STOPPED, WITHIN_5, WITHIN_3}, id="where it begins, before the signal"),
        pytest.param(Seen(9, 17), {TOLD, STOPPED, WITHIN_5, WITHIN_3}, id="three events behind the signal"),
        pytest.param(Seen(9, 18), {TOLD, STOPPED, WITHIN_5}, id="four"),
        pytest.param(Seen(9, 19), {TOLD, STOPPED, WITHIN_5}, id="five"),
        pytest.param(Seen(9, 20), {TOLD, STOPPED}, id="six"),
    ],
)
def test_a_stop_counts_by_where_it_comes(seen: Seen, expected: set[str]) -> None:
    assert seen.measures(known(begins=10, signal=14)) == expected


@given(st.integers(1, 2000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_an_interval_ends_where_the_share_would_just_be_believed(counted: tuple[int, int]) -> None:
    count = Count(*counted)
    low, high = count.interval
    assert 0 <= low <= count.share <= high <= 1
    for end in (low, high):  # Wilson's definition
        distance, deviation = abs(count.share - end), sqrt(end * (1 - end) / count.of)
        assert end in {0.0, 1.0} or isclose(distance, 1.959964 * deviation, rel_tol=1e-6, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("target", "count", "met"),
    [
        pytest.param(Target(kind=Kind.SOUND, measure=TOLD, at_most=0.015), Count(3, 200), True, id="just not too many"),
        pytest.param(Target(kind=Kind.SOUND, measure=TOLD, at_most=0.015), Count(4, 200), False, id="one too many"),
        pytest.param(Target(kind=Kind.STOP, measure=TOLD, at_least=0.7), Count(70, 100), True, id="just enough"),
        pytest.param(Target(kind=Kind.STOP, measure=TOLD, at_least=0.7), Count(69, 100), False, id="one too few"),
    ],
)
def test_a_target_is_met_up_to_its_bound(target: Target, count: Count, met: bool) -> None:
    assert target.met(count) is met
