"""The generated cases match their descriptions."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.runaways import FAMILIES, Case, Family
from benchmarks.runaways.disturbances import DISTURBANCES, disturbed
from benchmarks.runaways.watching import Seen, watch
from haltline.schemas.decisions import Level
from haltline.streams.engine.core import Core
from tests.synthetic.expectations import DISTURBED, FALSE_ALARMS, NOT_YET

ROOT = Path(__file__).parents[2]
DIGEST = """
from hashlib import blake2b
from benchmarks.runaways import FAMILIES
texts = [event.model_dump_json() for family in FAMILIES for event in family.case(3).events]
print(blake2b("".join(texts).encode()).hexdigest())
"""

cases = st.builds(Family.case, st.sampled_from(FAMILIES), st.integers(0, 10_000))
some = settings(max_examples=40)


def test_the_same_seed_gives_the_same_events_in_every_process() -> None:
    output = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(output) == 1


@given(cases)
@some
def test_a_case_is_true_to_itself(case: Case) -> None:

    ids = [event.event_id for event in case.events]
    assert len(set(ids)) == len(ids)
    assert (case.began in ids) is case.family.runaway
    assert (case.began is None) is not case.family.runaway
    for session in {event.session_id for event in case.events}:
        of_session = [event for event in case.events if event.session_id == session]
        assert all(a.time <= b.time for a, b in pairwise(of_session))
        assert [event.seq for event in of_session] == list(range(len(of_session)))


@pytest.mark.parametrize("name", DISTURBANCES)
@given(case=cases)
@settings(max_examples=10)
def test_a_disturbance_changes_how_events_come_and_not_what_they_say(name: str, case: Case) -> None:

    changed = disturbed(case, name)
    known = {event.event_id: event for event in case.events}
    assert all(known[event.event_id] == event for event in changed.events)
    assert changed.step == case.step
    actual = Counter(event.event_id for event in changed.events)
    if name == "lost":
        assert set(actual.values()) == {1}
    else:
        assert set(actual) == set(known)
        assert max(actual.values()) == 1 or name == "repeated"  # by chance: a short session may have none repeated


SEEDS = range(6)
DISTURBED_SEEDS = range(1)
STILL_WRONG_SEEDS = range(20)
"""Seeds for known wrong results, up to the first wrong one."""
CORE = Core()

RUNAWAYS = [family for family in FAMILIES if family.runaway]
HEALTHY = [family for family in FAMILIES if not family.runaway]
RIGHT = [family for family in FAMILIES if family.name not in {*NOT_YET, *FALSE_ALARMS}]
UNORDERED = [name for name in DISTURBANCES if name != "repeated"]  # what comes twice is tested at the end


def named(families: list[Family]) -> list[object]:
    return [pytest.param(family, id=family.name) for family in families]


def story(case: Case, seen: Seen) -> str:
    return f"seed {case.seed}, {case.pace}: {seen}"


def missed(cases: Iterable[Case], *, slack: float = 1.0, more: int = 0) -> Iterator[str]:
    """The runaways that were not stopped within the allowed steps, times `slack` and `more` of them."""
    for case in cases:
        seen = watch(CORE, case)
        if not seen.caught(round((case.family.within or 0) * slack) + more):
            yield story(case, seen)


def stopped(cases: Iterable[Case]) -> Iterator[str]:
    for case in cases:
        seen = watch(CORE, case)
        if seen.stopped is not None:
            yield story(case, seen)


def wrong(family: Family, seeds: range, disturbance: str = "") -> Iterator[str]:
    """Runaways whose events are disturbed get half as many steps again: what is lost or late cannot be counted."""
    cases = map(family.case, seeds)
    if not disturbance:
        return missed(cases) if family.runaway else stopped(cases)
    disordered = (disturbed(case, disturbance) for case in cases)
    return missed(disordered, slack=1.5, more=3) if family.runaway else stopped(disordered)


@pytest.mark.parametrize("family", named(RUNAWAYS))
def test_a_runaway_is_stopped_in_time(family: Family) -> None:
    if family.name in NOT_YET:
        still_wrong = next(wrong(family, STILL_WRONG_SEEDS), None)
        assert still_wrong, f"take it out of NOT_YET: every case of {family.name} is stopped in time"
    else:
        assert [*wrong(family, SEEDS)] == []


@pytest.mark.parametrize("family", named(HEALTHY))
def test_a_healthy_session_is_not_stopped(family: Family) -> None:
    if family.name in FALSE_ALARMS:
        still_wrong = next(wrong(family, STILL_WRONG_SEEDS), None)
        assert still_wrong, f"take it out of FALSE_ALARMS: no case of {family.name} is stopped"
    else:
        assert [*wrong(family, SEEDS)] == []


def test_what_polls_without_news_is_slowed_down() -> None:
    (polling,) = [family for family in FAMILIES if family.name == "polling_without_news"]
    seen = watch(CORE, polling.case(0))
    assert (seen.level, seen.rules) == (Level.THROTTLE, frozenset({"polling"}))


@pytest.mark.parametrize("disturbance", UNORDERED)
@pytest.mark.parametrize("family", named(RIGHT))
def test_events_that_are_disturbed_change_no_verdict(family: Family, disturbance: str) -> None:
    if (family.name, disturbance) in DISTURBED:
        still_wrong = next(wrong(family, STILL_WRONG_SEEDS, disturbance), None)
        assert still_wrong, f"take it out of DISTURBED: {family.name}, {disturbance}"
    else:
        assert [*wrong(family, DISTURBED_SEEDS, disturbance)] == []


@given(st.sampled_from(FAMILIES), st.integers(0, 10_000))
def test_events_that_come_twice_change_nothing(family: Family, seed: int) -> None:
    case = family.case(seed)
    assert watch(CORE, disturbed(case, "repeated")) == watch(CORE, case)
