from math import inf

import pytest

from haltline.detectors.features.novelty import VALUES
from haltline.streams.learning.examples import Example, arrays
from haltline.streams.learning.spans import Span
from haltline.streams.learning.steps import Steps

ROW = tuple(float(number) for number in range(len(VALUES)))


def steps(count: int) -> Steps:
    return Steps("s", tuple(range(count)), (ROW,) * count)


def judged(example: Example) -> str:
    """A sign for each step: sound, fruitless, or left out."""
    _, fruitless, weights = arrays([example])
    signs = zip(fruitless.tolist(), weights.tolist(), strict=True)
    return "".join("." if not weight else "x" if bad else "o" for bad, weight in signs)


@pytest.mark.parametrize(
    ("span", "signs"),
    [
        pytest.param(None, "oooooooooo", id="a sound session"),
        pytest.param(Span(3, 6), "ooo..xxxxx", id="fruitless from a step before the signal on"),
        pytest.param(Span(3, 6, 7), "ooo..xxx..", id="after its end nothing is known"),
        pytest.param(Span(0, 8, inf), ".......xxx", id="a runaway from the beginning"),
        pytest.param(Span(4, 4), "ooooxxxxxx", id="that begins with the signal"),
        pytest.param(Span(3, 99), "ooo.......", id="with a signal that never came"),
    ],
)
def test_the_text_of_each_step(span: Span | None, signs: str) -> None:
    assert judged(Example(steps(10), span)) == signs


def test_a_long_session_counts_more_but_not_in_proportion() -> None:
    totals = [arrays([Example(steps(count), sound_weight=0.5)])[2].sum() for count in (1, 10, 100)]
    assert totals[0] == 0.5
    assert totals[0] < totals[1] < totals[2] < 10 * totals[1] < 100 * totals[0]


def test_steps_of_all_sessions_are_rows_in_order() -> None:
    other = Steps("t", (5,), (tuple(reversed(ROW)),))
    values, fruitless, weights = arrays([Example(steps(2)), Example(other, Span(0, 1))])
    assert values.tolist() == [list(ROW), list(ROW), list(reversed(ROW))]
    assert fruitless.tolist() == [0.0, 0.0, 1.0]
    assert weights.shape == (3,)
    none = arrays([Example(steps(0)), Example(steps(0), Span(0, 1))])
    assert [part.shape for part in none] == [(0, len(VALUES)), (0,), (0,)]
