from collections import Counter
from math import log

from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.session.stagnation import SHIPPED
from haltline.schemas.policy import Policy
from haltline.streams.learning.comparing import (
    FOLDS,
    Calibration,
    compare,
    examples_of,
    folds,
    learn,
)
from haltline.streams.learning.labelled import Lesson, Word
from haltline.streams.learning.report import markdown, picture, to_dict
from haltline.streams.learning.spans import Span
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.label_precision import recorded
from tests.streams.learning.recorded import checks, digs, loops


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


def fleet() -> list[Lesson]:
    lessons = []
    for n in range(6):
        session = recorded(f"loop-{n}", loops(f"loop-{n}", n))
        lessons.append(Lesson(session, Word.CONFIRMED, Span(14, 22), 0.6, 1.0))
    for n in range(6):
        lessons.append(Lesson(recorded(f"check-{n}", checks(f"check-{n}", n)), Word.FALSE_ALARM, None, 1.0))
    return sorted(lessons, key=lambda one: one.session_id)


def test_what_is_learned_holds_in_sessions_that_were_not_seen() -> None:
    lessons = fleet()
    examples = examples_of(lessons, Policy())
    learned = learn(examples, SHIPPED, seed=1)
    unknown = [recorded("<b>|new", checks("<b>|new", 9)), recorded("digs", digs("digs", 20))]
    compared = compare(lessons, examples, unknown, Policy(), learned, seed=1)
    before, after = compared.before, compared.after
    assert (learned.name, learned.version) == ("learned", SHIPPED.version + 1)
    assert (before.caught, before.false_stops, before.runaways, before.sound) == (6, 6, 6, 6)
    assert (after.caught, after.false_stops) == (6, 0)
    assert compared.calibration_after.brier < compared.calibration_before.brier
    changes = {change.session_id: change.what for change in compared.differing}
    assert {name for name, what in changes.items() if what == "vanishes"} == {
        "<b>|new", *(f"check-{n}" for n in range(6))
    }  # fmt: skip
    assert "digs" not in changes

    words = {word: sum(one.word is word for one in lessons) for word in Word}
    text = markdown(learned, SHIPPED, words, compared, [("then", "haltline learn")])
    assert "| precision of stops | 50% | 100% |" in text
    assert "| &lt;b>\\|new | - | PAUSE at" in text
    result = to_dict(learned, SHIPPED, words, compared)
    assert (result["quality"]["prior"]["precision"], result["quality"]["learned"]["precision"]) == (0.5, 1.0)
    drawn = picture(learned, SHIPPED, compared)
    assert all(
        name in drawn for name in ("as predicted", f"shipped {SHIPPED.version}", f"learned {SHIPPED.version + 1}")
    )
