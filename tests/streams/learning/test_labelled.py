"""What operators said, as what is learned from."""

import pytest

from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision, Level
from haltline.streams.learning.labelled import (
    LASTS,
    LEADS,
    Lesson,
    SessionLabel,
    Word,
    counts_of,
    labels_by_session,
    lesson_of,
    lessons_of,
    too_few,
)
from haltline.streams.learning.spans import Span
from haltline.streams.replay.backtest import Recorded
from tests.builders import at, event

EVENTS = [event(second, session="s") for second in range(60)]
SESSION = Recorded("s", tuple(enumerate(EVENTS)))


def decision(decision_id: str, rule: str, number: int = 0, session: str = "s") -> Decision:
    return Decision(
        decision_id=decision_id, session_id=session, event_id=EVENTS[number].event_id, time=at(number),
        level=Level.PAUSE, code="c", reason="r", detector=rule,
    )  # fmt: skip


def label(word: str, decision_id: str | None = None, *, rule: str | None = None, session: str = "s") -> Command:
    return Command(
        command_id=f"{word} {decision_id} {rule}", kind=CommandKind.LABEL, id=session, by="ada", reason="looked",
        time=at(99), label=word, decision_id=decision_id, code=rule,
    )  # fmt: skip


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
        pytest.param([label("confirmed", "cycle 30"), label("confirmed", "stagnation 20")],
                     Lesson(SESSION, Word.CONFIRMED, Span(20 - LEADS, 20, 30 + LASTS), 0.6, 1.0),
                     id="two confirmed: from the first to the last"),
        pytest.param([label("confirmed", "cycle 30"), label("false_alarm", "stagnation 20")], CONFIRMED,
                     id="confirmed comes before a false alarm"),
        pytest.param([label("confirmed", "cycle 30"), label("false_alarm", "cycle 30")],
                     Lesson(SESSION, Word.FALSE_ALARM, None, 1.0), id="of a decision the last label counts"),
        pytest.param([label("false_alarm", "stagnation 20")], Lesson(SESSION, Word.FALSE_ALARM, None, 1.0),
                     id="a false alarm"),
        pytest.param([label("false_alarm", "deletes")], Lesson(SESSION, Word.FALSE_ALARM, None, 0.5),
                     id="a false alarm of a rule about something else"),
        pytest.param([label("confirmed", "deletes")], None, id="a rule about something else was right"),
        pytest.param([label("confirmed", "deletes"), label("false_alarm", "cycle 30")], None,
                     id="no loop, but no sound session either"),
        pytest.param([label("missed", rule="error_repetition")], Lesson(SESSION, Word.MISSED, Span(0, 40), 0.0, 0.3),
                     id="missed: its last third"),
        pytest.param([label("missed", rule="cycle"), label("confirmed", "stagnation 20")],
                     Lesson(SESSION, Word.CONFIRMED, Span(20 - LEADS, 20, 20 + LASTS), 0.6, 1.0),
                     id="where it began is better than that it did"),
        pytest.param([label("missed", rule="cycle"), label("false_alarm", "stagnation 20")],
                     Lesson(SESSION, Word.MISSED, Span(0, 40), 0.0, 0.3), id="missed comes before a false alarm"),
        pytest.param([label("missed", rule="destructive_volume")], None, id="missed by a rule about something else"),
        pytest.param([label("confirmed", "at once")], Lesson(SESSION, Word.CONFIRMED, Span(0, 2, 2 + LASTS), 0.6, 1.0),
                     id="at the first events: from the beginning"),
        pytest.param([label("confirmed", "nobody knows")], Lesson(SESSION, Word.QUIET, None, 0.2), id="no decision"),
        pytest.param([], Lesson(SESSION, Word.QUIET, None, 0.2), id="no label"),
    ],
)  # fmt: skip
def test_what_is_taken_from_labels(labels: list[Command], expected: Lesson | None) -> None:
    assert lesson_of(SESSION, labels_by_session(labels, DECISIONS).get("s"), quiet=True) == expected


def test_a_confirmed_decision_whose_events_are_not_there_says_nothing() -> None:
    other = Recorded("s", tuple(enumerate(EVENTS[:10])))
    assert lesson_of(other, SessionLabel(confirmed=[EVENTS[30].event_id])) is None


def test_what_a_recording_says() -> None:
    for word, expected in (
        ("resolved", Word.SOLVED),
        ("solved", Word.SOLVED),
        ("unresolved", None),
        ("unsolved", None),
    ):
        lesson = lesson_of(Recorded("s", SESSION.events, label=word), None)
        assert (lesson.word if lesson is not None else None) == expected


def some(**counts: int) -> list[Lesson]:
    return [
        Lesson(Recorded(f"{word}-{number}", ()), Word(word), None, 1.0)
        for word, count in counts.items()
        for number in range(count)
    ]


def test_too_few_labels_say_how_many_and_how_to_label() -> None:
    for counts, got in (
        ({"confirmed": 4, "false_alarm": 5}, "got 4 (4 confirmed, 0 missed) and 5"),
        ({"missed": 5, "false_alarm": 4}, "and 4 (4 false alarms, 0 solved"),
        ({"confirmed": 9, "quiet": 50}, "and 0 (0 false alarms"),  # sessions without a label do not do
    ):
        lacking = too_few(some(**counts)) or ""
        assert got in lacking
        assert "haltline label DECISION confirmed|false_alarm" in lacking
        assert "haltline missed SESSION" in lacking
    assert too_few(some(confirmed=3, missed=2, false_alarm=4, solved=1)) is None


def test_lessons_are_in_the_order_of_ids_and_counted_by_word() -> None:
    sessions = [Recorded(name, SESSION.events) for name in ("c", "a", "b", "d")]
    result = {"b": SessionLabel(missed=True), "d": SessionLabel(otherwise=True)}
    lessons = lessons_of(sessions, result, quiet={"b", "c"})
    assert [(one.session_id, one.word) for one in lessons] == [("b", Word.MISSED), ("c", Word.QUIET)]
    assert counts_of(lessons) == {
        Word.CONFIRMED: 0, Word.MISSED: 1, Word.FALSE_ALARM: 0, Word.SOLVED: 0, Word.QUIET: 1
    }  # fmt: skip
