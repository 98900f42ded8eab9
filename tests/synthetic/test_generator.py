"""Generated sessions are true to their descriptions; runaways are stopped in time, and healthy sessions are not."""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.runaways import FAMILIES, Case, Family
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.streams.engine.core import Core, Position
from haltline.streams.engine.local_fleet import Fleet, decisions_of

CORE = Core()
SEEDS = range(4)
STILL_WRONG_SEEDS = range(20)
"""Seeds for known wrong results, up to the first wrong one."""

BY_ORDER = "which calls are of one turn is told by their order"
RESTARTED = "results in another order look like those of a restarted agent, and nothing counts for a while"
DISTURBED: Mapping[tuple[str, str], str] = {
    ("catastrophe", "lost"): "the one event that told of it is lost: inherent",
    ("swelling_turns", "lost"): BY_ORDER,
    ("swelling_turns", "late"): BY_ORDER,
    ("verifies_finished_work", "late"): RESTARTED,
}
"""Families that are right as they are, and not when their events are disturbed: remove each with its fix."""

Events = Sequence[ActionEvent]


def placed(places: Iterable[tuple[float, ActionEvent]]) -> list[ActionEvent]:
    return [event for _, event in sorted(places, key=lambda place: place[0])]


def repeated(events: Events, rng: random.Random) -> list[ActionEvent]:
    again = [(place + rng.randrange(6) + 0.5, e) for place, e in enumerate(events) if rng.random() < 0.2]
    return placed([*enumerate(events), *again])


def lost(events: Events, rng: random.Random) -> list[ActionEvent]:
    return [event for event in events if rng.random() >= 0.05]


def late(events: Events, rng: random.Random) -> list[ActionEvent]:
    return placed(
        (place + (rng.uniform(3, 15) if rng.random() < 0.05 else 0), event) for place, event in enumerate(events)
    )


Disturb = Callable[[Events, random.Random], list[ActionEvent]]


def steps_of(case: Case) -> dict[str, int]:
    """The number of steps up to each event, by its id: a step is a call, or a model turn with text only."""
    proposed = set[tuple[str, str | None]]()
    anonymous = Counter[str]()
    steps, of = 0, dict[str, int]()
    for event in case.events:
        call = (event.session_id, event.call_id)
        if event.kind is Kind.PROPOSED:
            steps += 1
            anonymous[event.session_id] += event.call_id is None
            proposed.add(call)
        elif event.kind is Kind.COMPLETED:
            if event.call_id is None and anonymous[event.session_id] > 0:
                anonymous[event.session_id] -= 1
            elif event.call_id is None or call not in proposed:
                steps += 1
        elif event.kind is Kind.MODEL_TURN and event.output_bytes is not None:
            steps += 1
        of[event.event_id] = steps
    return of


@dataclass(frozen=True)
class Seen:
    level: Level
    stopped: str | None = None
    steps: int | None = None
    """From the start of the runaway to the last one delivered; None: not stopped, or stopped before it."""
    rules: frozenset[str] = frozenset()


def watch(case: Case, disturb: Disturb | None = None) -> Seen:
    """Run all sessions of the case with all rules, also across sessions, to the first stop or the end."""
    fleet = Fleet(CORE)
    for command in case.commands:
        fleet.command(command)
    events = case.events
    if disturb is not None:
        events = tuple(disturb(events, random.Random(f"{disturb.__name__}/{case.family.name}/{case.seed}")))
    level, reached, rules, step = Level.ALLOW, 0, set[str](), steps_of(case)
    began = step.get(case.began or "", sys.maxsize)
    for offset, event in enumerate(events):
        reached = max(reached, step[event.event_id])
        for followed in fleet.event(event, Position("synthetic", 0, offset)):
            assert not followed.failures
            rules.update(detection.finding.detector for detection in followed.detections)
            for decision in decisions_of(followed):
                level = max(level, decision.level)
                if decision.level >= Level.PAUSE:
                    steps = reached - began + 1 if reached >= began else None
                    return Seen(level, event.event_id, steps, frozenset(rules))
    return Seen(level, rules=frozenset(rules))


def wrong(family: Family, seeds: range, disturb: Disturb | None = None) -> Iterator[str]:
    """Runaways whose events are disturbed get half as many steps again: what is lost or late cannot be counted."""
    within = family.within or 0
    most = within if disturb is None else round(within * 1.5) + 3
    for case in map(family.case, seeds):
        seen = watch(case, disturb)
        if (seen.steps is None or seen.steps > most) if family.runaway else seen.stopped is not None:
            yield f"seed {case.seed}, {case.pace}: {seen}"


every_family = pytest.mark.parametrize("family", [pytest.param(family, id=family.name) for family in FAMILIES])


@every_family
def test_a_runaway_is_stopped_in_time_and_a_healthy_session_is_not(family: Family) -> None:
    assert [*wrong(family, SEEDS)] == []


@pytest.mark.parametrize("disturb", [lost, late])
@every_family
def test_events_that_are_disturbed_change_no_verdict(family: Family, disturb: Disturb) -> None:
    if (family.name, disturb.__name__) in DISTURBED:
        still_wrong = next(wrong(family, STILL_WRONG_SEEDS, disturb), None)
        assert still_wrong, f"take it out of DISTURBED: {family.name}, {disturb.__name__}"
    else:
        assert [*wrong(family, range(1), disturb)] == []


@given(st.sampled_from(FAMILIES), st.integers(0, 10_000))
def test_events_that_come_twice_change_nothing(family: Family, seed: int) -> None:
    case = family.case(seed)
    assert watch(case, repeated) == watch(case)
