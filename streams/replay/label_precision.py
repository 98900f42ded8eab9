"""Operators' labels of decisions: the precision of each rule, and better thresholds. Pure.

Nothing here changes a policy. A suggestion is tried on the labelled sessions themselves, like a `haltline backtest`: it
is one setting of one rule, with the changes it would have caused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil, floor
from typing import Any, Final

from haltline.detectors import BY_ID
from haltline.detectors.framework.base import Detector
from haltline.detectors.framework.settings import annotations_of, construct
from haltline.detectors.framework.strictness import Stricter, direction_of
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, Level, Mode
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.replay.backtest import Recorded, backtest, only

CONFIRMED: Final = "confirmed"
FALSE_ALARM: Final = "false_alarm"
MISSED: Final = "missed"
"""The label of a session, not of a decision: a rule should have found something."""

GOOD: Final = 0.7
"""The precision and recall below which another threshold is suggested, as published."""

_FACTORS: Final = (1.25, 1.5, 2.0, 3.0)


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


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Another value of one setting, and its effects in the labelled sessions."""

    rule: str
    setting: str
    value: float
    instead_of: float
    confirmed_kept: int
    confirmed: int
    false_alarms_left: int
    false_alarms: int
    missed_found: int
    missed: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @property
    def policy(self) -> str:
        """Return a policy document to try it with."""
        return f"rules: {{{self.rule}: {{settings: {{{self.setting}: {self.value:g}}}}}}}"


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


def suggest(labelled: Labelled, sessions: Mapping[str, Recorded], policy: Policy) -> Suggestion | None:
    """Return the least changed threshold that would have been better; None: there is none, or no error.

    Better means fewer false alarms with all confirmed sessions still found, or, for a rule with misses, more of these
    found without more false alarms. Only built-in rules and the given sessions are tried.
    """
    loosen = labelled.precision is not None and labelled.precision < GOOD
    tighten = labelled.recall is not None and labelled.recall < GOOD
    detector = BY_ID.get(labelled.rule)
    if detector is None or not (loosen or tighten):
        return None
    best: Suggestion | None = None
    before = _tried(labelled, sessions, policy, None)
    for setting, value, instead_of in _candidates(detector, policy, loosen=loosen):
        tried = _tried(labelled, sessions, policy, (setting, value))
        better = (
            (tried[0] == before[0] and tried[1] < before[1])
            if loosen
            else (tried[2] > before[2] and tried[1] <= before[1])
        )
        if not better or (best is not None and _rank(tried) <= (best.missed_found - best.false_alarms_left)):
            continue
        best = Suggestion(
            labelled.rule,
            setting,
            value,
            instead_of,
            confirmed_kept=tried[0],
            confirmed=before[0],
            false_alarms_left=tried[1],
            false_alarms=before[1],
            missed_found=tried[2],
            missed=len(labelled.missed),
        )
    return best


def _rank(tried: tuple[int, int, int]) -> int:
    return tried[2] - tried[1]


def _candidates(detector: type[Detector[Any]], policy: Policy, *, loosen: bool) -> Iterator[tuple[str, float, float]]:
    """Yield setting, other value and present value: from near to far, those that the rule accepts."""
    settings = policy.rules.get(detector.id, Rule()).settings
    present = construct(detector, settings)
    steps: list[tuple[int, str, float, float]] = []
    for name, annotation in annotations_of(detector).items():
        direction, value = direction_of(annotation), getattr(present, name)
        if direction not in (Stricter.LOWER, Stricter.HIGHER) or not isinstance(value, (int, float)):
            continue
        if isinstance(value, bool):
            continue
        up = (direction is Stricter.LOWER) is loosen
        for number, factor in enumerate(_FACTORS):
            steps.append((number, name, moved(value, factor, up=up), value))
    for _, name, other, value in sorted(steps, key=lambda step: step[0]):
        if other == value:
            continue
        try:
            construct(detector, {**settings, name: other})
        except ValueError:
            continue
        yield name, other, value


def moved(value: float, factor: float, *, up: bool) -> float:
    """Return a value changed by a factor, negative ones too; an integer by at least one."""
    moved = value * factor if up == (value >= 0) else value / factor
    if isinstance(value, int):
        return max(value + 1, ceil(moved)) if up else min(value - 1, floor(moved))
    return round(moved, 6)


def _tried(
    labelled: Labelled, sessions: Mapping[str, Recorded], policy: Policy, other: tuple[str, float] | None
) -> tuple[int, int, int]:
    """Return in how many confirmed, falsely alarmed and missed sessions the rule would have found something."""
    rule = policy.rules.get(labelled.rule, Rule())
    if other is not None:
        rule = rule.model_copy(update={"settings": {**rule.settings, other[0]: other[1]}})
    # Alone and enforced: another rule's decision on the same event, or its mode, would take precedence.
    enforced = rule.model_copy(update={"mode": Mode.ENFORCE})
    core = Core(only(policy, {labelled.rule: enforced}, interventions=None))
    of = (labelled.confirmed, labelled.false_alarms, labelled.missed)
    confirmed, false_alarms, missed = (
        sum(_says(core, sessions.get(name), level) for name, level in names.items()) for names in of
    )
    return confirmed, false_alarms, missed


def _says(core: Core, session: Recorded | None, least: Level) -> bool:
    return session is not None and Level(backtest(core, session).level) >= least


def recorded(session_id: str, events: Sequence[Any]) -> Recorded:
    """Return a session of the audit table as input of the backtest."""
    return Recorded(session_id, list(enumerate(events)))
