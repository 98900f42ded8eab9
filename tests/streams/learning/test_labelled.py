"""What operators said, as what is learned from."""

import pytest

from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, Level
from haltline.streams.learning.labelled import (
    LASTS,
    LEADS,
    Lesson,
    SessionLabel,
    Word,
    labels_by_session,
    lesson_of,
)
from haltline.streams.learning.spans import Span
from haltline.streams.replay.backtest import Recorded
from tests.builders import at, event
from tests.streams.replay.recorded import label_of

EVENTS = [event(second, session="s") for second in range(60)]
SESSION = Recorded("s", tuple(enumerate(EVENTS)))


def decision(decision_id: str, rule: str, number: int = 0, session: str = "s") -> Decision:
    return Decision(
        decision_id=decision_id, session_id=session, event_id=EVENTS[number].event_id, time=at(number),
        level=Level.PAUSE, code="c", reason="r", detector=rule,
    )  # fmt: skip


def label(word: str, decision_id: str | None = None, *, rule: str | None = None) -> Command:
    return label_of("s", word, decision_id, rule=rule)


DECISIONS = [
    decision("cycle 30", "cycle", 30),
    decision("stagnation 20", "stagnation", 20),
    decision("deletes", "destructive_volume", 25),
    decision("at once", "cycle", 2),
]
CONFIRMED = Lesson(SESSION, Word.CONFIRMED, Span(30 - LEADS, 30, 30 + LASTS), 0.6, 1.0)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param([label("confirmed", "cycle 30")], CONFIRMED, id="a loop confirmed: its event is the signal"),
        pytest.param([label("confirmed", "cycle 30"), label("false_alarm", "stagnation 20")], CONFIRMED,
                     id="confirmed comes before a false alarm"),
        pytest.param([label("confirmed", "cycle 30"), label("false_alarm", "cycle 30")],
                     Lesson(SESSION, Word.FALSE_ALARM, None, 1.0), id="of a decision the last label counts"),
        pytest.param([label("false_alarm", "stagnation 20")], Lesson(SESSION, Word.FALSE_ALARM, None, 1.0),
                     id="a false alarm"),
        pytest.param([label("false_alarm", "deletes")], Lesson(SESSION, Word.FALSE_ALARM, None, 0.5),
                     id="a false alarm of a rule about something else"),
        pytest.param([label("confirmed", "deletes")], None, id="a rule about something else was right"),
        pytest.param([label("missed", rule="error_repetition")], Lesson(SESSION, Word.MISSED, Span(0, 40), 0.0, 0.3),
                     id="missed: its last third"),
        pytest.param([label("missed", rule="cycle"), label("false_alarm", "stagnation 20")],
                     Lesson(SESSION, Word.MISSED, Span(0, 40), 0.0, 0.3), id="missed comes before a false alarm"),
        pytest.param([label("confirmed", "at once")], Lesson(SESSION, Word.CONFIRMED, Span(0, 2, 2 + LASTS), 0.6, 1.0),
                     id="at the first events: from the beginning"),
        pytest.param([], Lesson(SESSION, Word.QUIET, None, 0.2), id="no label"),
    ],
)  # fmt: skip
def test_what_is_taken_from_labels(labels: list[Command], expected: Lesson | None) -> None:
    assert lesson_of(SESSION, labels_by_session(labels, DECISIONS).get("s"), quiet=True) == expected


def test_a_confirmed_decision_whose_events_are_not_there_says_nothing() -> None:
    other = Recorded("s", tuple(enumerate(EVENTS[:10])))
    assert lesson_of(other, SessionLabel(confirmed=[EVENTS[30].event_id])) is None
