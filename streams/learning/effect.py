"""What a rule's hints change, by the sessions of a policy's experiment that got them and those that did not. Pure.

A session counts from the first hint that it got, or that was held back. Compared are

- progress: whether one of its next `HELPED_ACTIONS` calls had a result that it had not had before, or was a change
  that took effect, by the measure of `stagnation`; unknown for a session that made fewer and has not ended;
- stops: whether haltline stopped it afterwards (an ask is no stop);
- calls: how many it made from there to its first stop or its end; unknown for one that still runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import sqrt
from statistics import NormalDist, fmean, variance
from typing import Any, Final

from haltline.detectors.features.novelty import MAX_BALANCE
from haltline.interventions.levels.default_levels import is_ask
from haltline.interventions.state.intervention_history import HELPED_ACTIONS
from haltline.schemas.decisions import Arm, Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.policy import Policy
from haltline.streams.learning.steps import steps_of
from haltline.streams.replay.label_precision import recorded

_Z: Final = NormalDist().inv_cdf(0.975)
_BALANCE, _FRESH = 0, 6
"""The places of `stale_balance` and `fresh_20` in `novelty.VALUES`."""


@dataclass(frozen=True, slots=True)
class Course:
    """What became of one session after its hint."""

    arm: Arm
    progress: bool | None
    stopped: bool
    calls: int | None


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure in both groups: shares from 0 to 1, or a mean number of calls."""

    what: str
    told: float | None
    told_of: int
    """The number of sessions in which it is known."""
    silent: float | None
    silent_of: int
    difference: float | None
    """Told less silent."""
    low: float | None
    high: float | None
    """The ends of its 95 % interval: Newcombe's for shares, Welch's by the normal distribution for means."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one rule's hints."""

    rule: str
    measures: Sequence[Measure]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"rule": self.rule, "measures": [asdict(one) for one in self.measures]}


def effects_of(
    decisions: Iterable[Decision], events: Mapping[str, Sequence[ActionEvent]], policy: Policy | None = None
) -> list[Effect]:
    """Return the effect of each rule of an experiment, ordered by rule.

    `decisions`: those of the sessions, of any rule. `events`: those of each session, in order. `policy`: for its tools.
    """
    by_session: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_session.setdefault(decision.session_id, []).append(decision)
    courses: dict[str, list[Course]] = {}
    for session_id, of_session in by_session.items():
        for rule in {one.detector for one in of_session if one.experiment is not None}:
            course = _course(rule, of_session, events.get(session_id, ()), policy)
            if course is not None:
                courses.setdefault(rule, []).append(course)
    return [Effect(rule, _measures(courses[rule])) for rule in sorted(courses)]


def _course(
    rule: str, decisions: Sequence[Decision], events: Sequence[ActionEvent], policy: Policy | None
) -> Course | None:
    """Return what became of a session; None: the event of its hint is not there."""
    arms = {one.event_id: one for one in decisions if one.detector == rule and one.experiment is not None}
    place = next((number for number, event in enumerate(events) if event.event_id in arms), None)
    if place is None:
        return None
    hint = arms[events[place].event_id]
    stops = {one.event_id for one in decisions if one.level >= Level.PAUSE and not is_ask(one.detector, one.level)}
    calls, stopped, ended, ten = set[str](), False, False, place
    for number, event in enumerate(events[place + 1 :], start=place + 1):
        if event.kind in {Kind.PROPOSED, Kind.COMPLETED} and (call := event.call_id or event.event_id) != hint.call_id:
            calls.add(call)
        if len(calls) <= HELPED_ACTIONS:
            ten = number
        ended = event.kind is Kind.SESSION_ENDED
        if event.event_id in stops:
            stopped = True
            break
    known = stopped or ended
    progress = _progress(events, hint, place, ten, policy)
    return Course(
        hint.experiment or Arm.TOLD,
        progress if progress or known or len(calls) >= HELPED_ACTIONS else None,
        stopped,
        len(calls) if known else None,
    )


def _progress(events: Sequence[ActionEvent], hint: Decision, place: int, last: int, policy: Policy | None) -> bool:
    """Return whether a result after the hint at `place`, up to `last`, got on; that of its own call does not count."""
    (steps,) = steps_of([recorded("", events[: last + 1])], policy)
    return any(
        number > place
        and (events[number].call_id is None or events[number].call_id != hint.call_id)
        and _got_on(before, after)
        for (_, before), (number, after) in pairwise(zip(steps.numbers, steps.values, strict=True))
    )


def _got_on(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return whether a step got on, by the values before and after it: `stale_balance` rises with all others.

    The values of a step that does not count, such as an equal result of one turn, are those before it.
    """
    if after[_BALANCE] < before[_BALANCE] or after[_FRESH] > before[_FRESH]:
        return True
    return before != after and after[_BALANCE] == before[_BALANCE] < MAX_BALANCE


def _measures(courses: Sequence[Course]) -> list[Measure]:
    told, silent = ([one for one in courses if one.arm is arm] for arm in (Arm.TOLD, Arm.SILENT))
    return [
        _of_shares(
            f"progress within {HELPED_ACTIONS} calls",
            [one.progress for one in told if one.progress is not None],
            [one.progress for one in silent if one.progress is not None],
        ),
        _of_shares("stopped", [one.stopped for one in told], [one.stopped for one in silent]),
        _of_means(
            "calls to the end",
            [one.calls for one in told if one.calls is not None],
            [one.calls for one in silent if one.calls is not None],
        ),
    ]


def _of_shares(what: str, told: Sequence[bool], silent: Sequence[bool]) -> Measure:
    """Compare two shares by Newcombe's interval, of Wilson's for each."""
    if not told or not silent:
        return _measure(what, told, silent, None)
    a, b = fmean(told), fmean(silent)
    (a_low, a_high), (b_low, b_high) = _wilson(a, len(told)), _wilson(b, len(silent))
    below, above = sqrt((a - a_low) ** 2 + (b_high - b) ** 2), sqrt((a_high - a) ** 2 + (b - b_low) ** 2)
    return _measure(what, told, silent, (a - b - below, a - b + above))


def _of_means(what: str, told: Sequence[int], silent: Sequence[int]) -> Measure:
    if min(len(told), len(silent)) < 2:
        return _measure(what, told, silent, None)
    margin = _Z * sqrt(variance(told) / len(told) + variance(silent) / len(silent))
    by = fmean(told) - fmean(silent)
    return _measure(what, told, silent, (by - margin, by + margin))


def _measure(what: str, told: Sequence[float], silent: Sequence[float], ends: tuple[float, float] | None) -> Measure:
    a, b = (round(fmean(group), 4) if group else None for group in (told, silent))
    by = None if a is None or b is None else round(a - b, 4)
    low, high = (None, None) if ends is None else (round(ends[0], 4), round(ends[1], 4))
    return Measure(what, a, len(told), b, len(silent), by, low, high)


def _wilson(share: float, count: int) -> tuple[float, float]:
    z2 = _Z**2 / count
    middle = (share + z2 / 2) / (1 + z2)
    margin = _Z * sqrt(share * (1 - share) / count + z2 / (4 * count)) / (1 + z2)
    return middle - margin, middle + margin
