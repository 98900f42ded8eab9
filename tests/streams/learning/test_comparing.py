from collections import Counter
from math import log

from hypothesis import given
from hypothesis import strategies as st

from haltline.streams.learning.comparing import FOLDS, Calibration, folds
from haltline.streams.learning.labelled import Lesson, Word
from haltline.streams.learning.spans import Span
from haltline.streams.replay.backtest import Recorded


def lesson(name: str, word: Word) -> Lesson:
    return Lesson(Recorded(name, ()), word, Span(0, 1) if word.runaway else None, 1.0, 1.0)


@given(st.lists(st.sampled_from(Word), max_size=60), st.integers())
def test_each_part_has_its_share_of_every_kind(words: list[Word], seed: int) -> None:
    lessons = [lesson(f"s{number}", word) for number, word in enumerate(words)]
    found = folds(lessons, seed)
    assert found.keys() == {one.session_id for one in lessons}
    assert folds(list(reversed(lessons)), seed) == found
    runaways = Counter(found[one.session_id] for one in lessons if one.word.runaway)
    sizes = [runaways[fold] for fold in range(FOLDS)]
    assert max(sizes) - min(sizes) <= 1


def test_a_calibration_counts_steps_by_what_is_predicted() -> None:
    of = Calibration()
    for score, fruitless, weight in ((log(3), 1.0, 3.0), (log(3), 0.0, 1.0), (-50.0, 0.0, 4.0), (50.0, 1.0, 2.0)):
        of.add(score, fruitless, weight)
    rows = [(number, *(round(share, 6) for share in shares)) for number, *shares in of.rows]
    assert rows == [(0, 0.4, 0.0, 0.0), (7, 0.4, 0.75, 0.75), (9, 0.2, 1.0, 1.0)]
    assert round(of.brier, 6) == round((3 * 0.25**2 + 0.75**2) / 10, 6)
