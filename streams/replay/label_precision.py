"""Operators' labels of decisions, and the precision of each rule. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any, Final

from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, Level
from haltline.streams.replay.backtest import Recorded

CONFIRMED: Final = "confirmed"
FALSE_ALARM: Final = "false_alarm"
MISSED: Final = "missed"
"""The label of a session, not of a decision: a rule should have found something."""


@dataclass(slots=True)
class Labelled:
    """The labels of one rule."""

    rule: str
    confirmed: dict[str, Level] = field(default_factory=dict)
    """Sessions in which it was right, with the level of its decision under `enforce`."""
    false_alarms: dict[str, Level] = field(default_factory=dict)
    missed: dict[str, Level] = field(default_factory=dict)
    """Sessions in which it should have found something."""
    decisions: dict[str, int] = field(default_factory=lambda: {CONFIRMED: 0, FALSE_ALARM: 0})
    """The number of labelled decisions, by label."""

    @property
    def precision(self) -> float | None:
        """The part of its labelled decisions that was right; None: none is labelled."""
        right, wrong = self.decisions[CONFIRMED], self.decisions[FALSE_ALARM]
        return right / (right + wrong) if right + wrong else None

    @property
    def recall(self) -> float | None:
        """The part of the known runaway sessions that it found; None: none is known."""
        found, missed = len(self.confirmed), len(self.missed.keys() - self.confirmed.keys())
        return found / (found + missed) if found + missed else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "rule": self.rule,
            **self.decisions,
            MISSED: len(self.missed),
            "precision": None if self.precision is None else round(self.precision, 4),
            "recall": None if self.recall is None else round(self.recall, 4),
        }


def last_labels(
    labels: Iterable[Command], decisions: Iterable[Decision]
) -> tuple[list[tuple[str, str]], list[tuple[Decision, str]]]:
    """Return the sessions in which a rule missed something, with the rule, and rules' decisions with the last label."""
    known = {decision.decision_id: decision for decision in decisions if decision.detector}
    missed: list[tuple[str, str]] = []
    last: dict[str, str] = {}
    for label in labels:
        if label.label == MISSED and label.code:
            missed.append((label.id, label.code))
        elif label.decision_id in known and label.label is not None:
            last[label.decision_id] = label.label
    return missed, [(known[decision_id], word) for decision_id, word in last.items()]


def by_rule(labels: Iterable[Command], decisions: Iterable[Decision]) -> list[Labelled]:
    """Return the labels of each rule, ordered by rule; a decision's last label counts."""
    missed, labelled = last_labels(labels, decisions)
    found: dict[str, Labelled] = {}
    for session_id, rule in missed:
        found.setdefault(rule, Labelled(rule)).missed[session_id] = Level.NUDGE
    for decision, word in labelled:
        if word not in (CONFIRMED, FALSE_ALARM):
            continue
        of = found.setdefault(decision.detector, Labelled(decision.detector))
        of.decisions[word] += 1
        meant = decision.would or decision.level
        sessions = of.confirmed if word == CONFIRMED else of.false_alarms
        sessions[decision.session_id] = min(meant, sessions.get(decision.session_id, meant))
    return [found[rule] for rule in sorted(found)]


def moved(value: float, factor: float, *, up: bool) -> float:
    """Return a value changed by a factor, negative ones too; an integer by at least one."""
    moved = value * factor if up == (value >= 0) else value / factor
    if isinstance(value, int):
        return max(value + 1, ceil(moved)) if up else min(value - 1, floor(moved))
    return round(moved, 6)


def recorded(session_id: str, events: Sequence[Any]) -> Recorded:
    """Return a session of the audit table as input of the backtest."""
    return Recorded(session_id, list(enumerate(events)))
