"""Operators' labels of decisions, and the precision of each rule. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision
from haltline.streams.replay.backtest import Recorded

CONFIRMED: Final = "confirmed"
FALSE_ALARM: Final = "false_alarm"
MISSED: Final = "missed"
"""The label of a session, not of a decision: a rule should have found something."""


@dataclass(slots=True)
class Labelled:
    """The labels of one rule."""

    rule: str
    confirmed: int = 0
    """The number of its decisions that were right."""
    false_alarms: int = 0
    found: set[str] = field(default_factory=set)
    """Sessions in which it was right."""
    missed: set[str] = field(default_factory=set)
    """Sessions in which it should have found something."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON.

        `precision`: the part of its labelled decisions that was right; `recall`: the part of the known runaway sessions
        that it found. None: none is known.
        """
        missed = len(self.missed - self.found)
        return {
            "rule": self.rule,
            CONFIRMED: self.confirmed,
            FALSE_ALARM: self.false_alarms,
            MISSED: len(self.missed),
            "precision": share(self.confirmed, self.false_alarms),
            "recall": share(len(self.found), missed),
        }


def share(part: int, rest: int) -> float | None:
    """Return a part's share of part and rest; None: both are 0."""
    return round(part / (part + rest), 4) if part + rest else None


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
        found.setdefault(rule, Labelled(rule)).missed.add(session_id)
    for decision, word in labelled:
        of = found.setdefault(decision.detector, Labelled(decision.detector))
        if word == CONFIRMED:
            of.confirmed += 1
            of.found.add(decision.session_id)
        of.false_alarms += word == FALSE_ALARM
    return [found[rule] for rule in sorted(found)]


def recorded(session_id: str, events: Sequence[Any]) -> Recorded:
    """Return a session of the audit table as input of the backtest."""
    return Recorded(session_id, list(enumerate(events)))
