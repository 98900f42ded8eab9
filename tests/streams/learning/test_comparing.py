from collections import Counter
from dataclasses import replace
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.session.stagnation import SHIPPED
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.learning.comparing import (
    FOLDS,
    Calibration,
    Counts,
    alone,
    compare,
    examples_of,
    folds,
    learn,
    models_differ,
    prior_of,
)
from haltline.streams.learning.labelled import Lesson, Word
from haltline.streams.learning.report import markdown, picture, to_dict
from haltline.streams.learning.spans import Span
from haltline.streams.replay.backtest import Recorded, backtest
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


def test_another_seed_is_another_division() -> None:
    lessons = [lesson(f"s{number}", Word.CONFIRMED) for number in range(30)]
    assert folds(lessons, 1) != folds(lessons, 2)


@pytest.mark.parametrize(
    ("counts", "precision", "recall"),
    [
        pytest.param(Counts(), None, None, id="nothing"),
        pytest.param(Counts(runaways=4, sound=4, caught=3, false_stops=1), 0.75, 0.75, id="three of four, one wrong"),
        pytest.param(Counts(runaways=2, caught=1, too_soon=1), 0.5, 0.5, id="a stop before it began is wrong"),
        pytest.param(Counts(runaways=2, sound=2), None, 0.0, id="no stop"),
    ],
)
def test_precision_and_recall(counts: Counts, precision: float | None, recall: float | None) -> None:
    assert (counts.precision, counts.recall) == (precision, recall)


def test_a_calibration_counts_steps_by_what_is_predicted() -> None:
    of = Calibration()
    for score, fruitless, weight in ((log(3), 1.0, 3.0), (log(3), 0.0, 1.0), (-50.0, 0.0, 4.0), (50.0, 1.0, 2.0)):
        of.add(score, fruitless, weight)
    rows = [(number, *(round(share, 6) for share in shares)) for number, *shares in of.rows]
    assert rows == [(0, 0.4, 0.0, 0.0), (7, 0.4, 0.75, 0.75), (9, 0.2, 1.0, 1.0)]
    assert round(of.brier, 6) == round((3 * 0.25**2 + 0.75**2) / 10, 6)


def test_a_perfect_prediction_has_no_brier_score_and_a_half_a_quarter() -> None:
    perfect, half = Calibration(), Calibration()
    for fruitless in (0.0, 1.0):
        perfect.add(30 if fruitless else -30, fruitless, 1.0)
        half.add(0.0, fruitless, 1.0)
    assert (round(perfect.brier, 9), half.brier) == (0.0, 0.25)
    assert Calibration().brier == 0.0


def test_the_prior_is_the_policys_own_model() -> None:
    own = replace(SHIPPED, name="own", version=3)
    assert prior_of(Policy()) == SHIPPED
    assert prior_of(alone(Policy(), own)) == own


def test_alone_the_rule_is_enforced_with_the_policys_thresholds_and_nothing_else_is_looked_for() -> None:
    output = {
        "rules": {"stagnation": {"enabled": False, "mode": "warn", "settings": {"pause_at": 9.5}}},
        "overrides": [{"rules": {"cycle": {}}}],
    }
    policy = alone(Policy.model_validate(output), SHIPPED)
    rule = policy.rules["stagnation"]
    assert (rule.enabled, rule.mode, rule.settings["pause_at"], policy.overrides) == (True, Mode.ENFORCE, 9.5, ())
    assert {name for name, other in policy.rules.items() if other.enabled} == {"stagnation"}
    result = backtest(Core(alone(Policy(), SHIPPED)), recorded("s", loops("s", 1)))
    assert {decision.detector for decision in result.decisions} == {"stagnation"}
    assert Level(result.level) >= Level.PAUSE


def test_points_that_changed_are_reported_by_bin_and_the_others_are_not() -> None:
    first = SHIPPED.features[0]
    moved = replace(first, edges=(*first.edges, 11.5), points=(*first.points, first.points[-1] + 0.5))
    (reported,) = models_differ(SHIPPED, replace(SHIPPED, features=(moved, *SHIPPED.features[1:])))
    assert reported[0] == first.name
    assert {place: points for place, points in reported[1].items() if points} == {"above": 0.5}
    assert models_differ(SHIPPED, SHIPPED) == []


def fleet(runaways: int = 6, sound: int = 6) -> list[Lesson]:
    lessons = []
    for n in range(runaways):
        session = recorded(f"loop-{n}", loops(f"loop-{n}", n))
        lessons.append(Lesson(session, Word.CONFIRMED, Span(14, 22), 0.6, 1.0))
    for n in range(sound):
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
    assert all(name in drawn for name in ("as predicted", "shipped 2", "learned 3"))


def test_labels_that_say_what_the_model_says_already_keep_its_decisions() -> None:
    quiet = [
        Lesson(recorded(f"digs-{n}", digs(f"digs-{n}", 20, salt=n)), Word.FALSE_ALARM, None, 1.0) for n in range(6)
    ]
    lessons = sorted([*fleet(sound=0), *quiet], key=lambda one: one.session_id)
    examples = examples_of(lessons, Policy())
    learned = learn(examples, SHIPPED, seed=1)
    compared = compare(lessons, examples, [], Policy(), learned, seed=1)
    assert (compared.after.caught, compared.after.false_stops) == (compared.before.caught, compared.before.false_stops)
    assert {change.what for change in compared.differing} <= {"moves"}
