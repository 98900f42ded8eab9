"""Labelled sessions as training data of `stagnation`. Pure.

- A confirmed decision of a rule about loops: the session ran away. The decision's event is the signal; the `LEADS`
  events before it are left out, and so is what comes more than `LASTS` events after it.
- `haltline missed` with such a rule: the session ran away at an unknown place. Its last third counts as fruitless,
  with little weight; nothing is assumed about the rest.
- A false alarm: the session was sound. It counts less if the rule was another one, about which less is known.
- Confirmed decisions of other rules (a destructive one, a budget) show nothing about progress: such a session is left
  out.
- Sessions that a recording calls solved, and unlabelled sessions of the table in which no rule reached a pause, count
  as sound with little weight.

If a session has several labels, a runaway takes precedence.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from haltline.interventions.levels.default_levels import JUDGEMENT
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision
from haltline.streams.learning.spans import Span
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.label_precision import CONFIRMED, FALSE_ALARM, MISSED, last_labels

LOOPS = JUDGEMENT - {"invented_data", "monologue"} | {"stagnation_candidate"}
"""Rules about steps without new results."""

LEADS = 6
"""The events before the signal with which a runaway begins: three calls and their results."""
LASTS = 20
"""The events after the last confirmed decision: later ones may be of a session that recovered."""
LEAST = 5
"""The least number of runaways, and of sound sessions, for training."""

_SOLVED = frozenset({"resolved", "solved"})
"""The label in a recording of a session that reached its goal."""


class Word(StrEnum):
    """The source of the judgement of a session."""

    CONFIRMED = CONFIRMED
    MISSED = MISSED
    FALSE_ALARM = FALSE_ALARM
    SOLVED = "solved"
    QUIET = "quiet"
    """Unlabelled, and no rule reached a pause."""

    @property
    def runaway(self) -> bool:
        """Whether the session ran away."""
        return self in (Word.CONFIRMED, Word.MISSED)


@dataclass(slots=True)
class SessionLabel:
    """The operators' labels of one session."""

    confirmed: list[str] = field(default_factory=list)
    """The event ids of confirmed decisions of `LOOPS`."""
    missed: bool = False
    """Whether one of `LOOPS` should have found something."""
    false_alarms: set[str] = field(default_factory=set)
    """Rules with false alarms."""
    otherwise: bool = False
    """Whether another rule was right, or should have found something."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One session as training data."""

    session: Recorded
    word: Word
    span: Span | None
    """The span in which it ran away; None: it was sound."""
    sound_weight: float
    """The weight of the steps of sound work."""
    runaway_weight: float = 0.0

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.session.session_id


def labels_by_session(labels: Iterable[Command], decisions: Iterable[Decision]) -> dict[str, SessionLabel]:
    """Return labels by session; a decision's last label counts."""
    missed, labelled = last_labels(labels, decisions)
    found: dict[str, SessionLabel] = {}
    for session_id, rule in missed:
        label_of = found.setdefault(session_id, SessionLabel())
        if rule in LOOPS:
            label_of.missed = True
        else:
            label_of.otherwise = True
    for decision, word in labelled:
        label_of = found.setdefault(decision.session_id, SessionLabel())
        if word == FALSE_ALARM:
            label_of.false_alarms.add(decision.detector)
        elif word == CONFIRMED and decision.detector in LOOPS:
            label_of.confirmed.append(decision.event_id)
        elif word == CONFIRMED:
            label_of.otherwise = True
    return found


def lesson_of(session: Recorded, label: SessionLabel | None, *, quiet: bool = False) -> Lesson | None:
    """Return a session as training data; None: its labels show nothing about its progress.

    `label` None: unlabelled. `quiet`: no rule would have paused it either.
    """
    if label is None:
        if session.label in _SOLVED:
            return Lesson(session, Word.SOLVED, None, 0.5)
        return Lesson(session, Word.QUIET, None, 0.2) if quiet else None
    if span := _confirmed(session, label.confirmed):
        return Lesson(session, Word.CONFIRMED, span, 0.6, 1.0)
    if label.missed and session.events:
        first, last = session.events[0][0], session.events[-1][0]
        return Lesson(session, Word.MISSED, Span(first, last - (last - first) // 3), 0.0, 0.3)
    if label.otherwise or label.confirmed or not label.false_alarms:
        return None
    return Lesson(session, Word.FALSE_ALARM, None, 1.0 if label.false_alarms & LOOPS else 0.5)


def lessons_of(
    sessions: Iterable[Recorded], labels: Mapping[str, SessionLabel], quiet: Collection[str] = ()
) -> list[Lesson]:
    """Return sessions as training data, ordered by id; `quiet` are those that no rule would have paused."""
    found = (lesson_of(one, labels.get(one.session_id), quiet=one.session_id in quiet) for one in sessions)
    return sorted((one for one in found if one is not None), key=lambda one: one.session_id)


def counts_of(lessons: Iterable[Lesson]) -> dict[Word, int]:
    """Return the number of sessions by source of judgement."""
    words = [lesson.word for lesson in lessons]
    return {word: words.count(word) for word in Word}


def too_few(lessons: Iterable[Lesson]) -> str | None:
    """Return what is missing for training, and how to add it; None: there is enough."""
    of = counts_of(lessons)
    runaways = of[Word.CONFIRMED] + of[Word.MISSED]
    sound = of[Word.FALSE_ALARM] + of[Word.SOLVED]
    if runaways >= LEAST and sound >= LEAST:
        return None
    return (
        f"expected at least {LEAST} sessions that ran away and {LEAST} sound ones, got {runaways} "
        f"({of[Word.CONFIRMED]} confirmed, {of[Word.MISSED]} missed) and {sound} "
        f"({of[Word.FALSE_ALARM]} false alarms, {of[Word.SOLVED]} solved in recordings). To label: haltline label "
        "DECISION confirmed|false_alarm --by NAME --reason TEXT; haltline missed SESSION --rule stagnation --by NAME "
        '--reason TEXT. To list decisions: haltline audit query "SELECT decision_id, session_id, detector, reason FROM '
        "audit WHERE kind = 'decision'\""
    )


def _confirmed(session: Recorded, event_ids: list[str]) -> Span | None:
    """Return the span from before the first confirmed decision to after the last; None: there is no such event."""
    numbers = [number for number, event in session.events if event.event_id in event_ids]
    return Span(max(0, numbers[0] - LEADS), numbers[0], numbers[-1] + LASTS) if numbers else None
