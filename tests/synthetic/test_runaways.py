"""Every generated runaway is stopped in time, and no healthy session is; also when their events are disturbed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.runaways import FAMILIES, Case, Family
from benchmarks.runaways.disturbances import DISTURBANCES, disturbed
from benchmarks.runaways.watching import Seen, watch
from haltline.streams.engine.core import Core
from tests.synthetic.expectations import DISTURBED, FALSE_ALARMS, NOT_YET

SEEDS = range(10)
DISTURBED_SEEDS = range(2)
STILL_WRONG_SEEDS = range(20)
CORE = Core()

RUNAWAYS = [family for family in FAMILIES if family.runaway]
HEALTHY = [family for family in FAMILIES if not family.runaway]
RIGHT = [family for family in FAMILIES if family.name not in {*NOT_YET, *FALSE_ALARMS}]
UNORDERED = [name for name in DISTURBANCES if name != "repeated"]  # what comes twice is tested at the end


def named(families: list[Family]) -> list[object]:
    return [pytest.param(family, id=family.name) for family in families]


def story(case: Case, seen: Seen) -> str:
    return f"seed {case.seed}, {case.pace}: {seen}"


def missed(cases: list[Case], *, slack: float = 1.0, more: int = 0) -> list[str]:
    """The runaways that were not stopped within the allowed steps, times `slack` and `more` of them."""
    outcomes = [(case, watch(CORE, case)) for case in cases]
    return [
        story(case, seen) for case, seen in outcomes if not seen.caught(round((case.family.within or 0) * slack) + more)
    ]


def stopped(cases: list[Case]) -> list[str]:
    outcomes = [(case, watch(CORE, case)) for case in cases]
    return [story(case, seen) for case, seen in outcomes if seen.stopped is not None]


def wrong(family: Family, disturbance: str, seeds: range) -> list[str]:
    """Runaways get half as many steps again: what is lost or late cannot be counted in time."""
    cases = [disturbed(family.case(seed), disturbance) for seed in seeds]
    return missed(cases, slack=1.5, more=3) if family.runaway else stopped(cases)


@pytest.mark.parametrize("family", named(RUNAWAYS))
def test_a_runaway_is_stopped_in_time(family: Family) -> None:
    late = missed([family.case(seed) for seed in SEEDS])
    if family.name in NOT_YET:
        assert late, f"take it out of NOT_YET: every case of {family.name} is stopped in time"
    else:
        assert late == []


@pytest.mark.parametrize("family", named(HEALTHY))
def test_a_healthy_session_is_not_stopped(family: Family) -> None:
    alarms = stopped([family.case(seed) for seed in SEEDS])
    if family.name in FALSE_ALARMS:
        assert alarms, f"take it out of FALSE_ALARMS: no case of {family.name} is stopped"
    else:
        assert alarms == []


@pytest.mark.parametrize("disturbance", UNORDERED)
@pytest.mark.parametrize("family", named(RIGHT))
def test_events_that_are_disturbed_change_no_verdict(family: Family, disturbance: str) -> None:
    if (family.name, disturbance) in DISTURBED:
        still_wrong = wrong(family, disturbance, STILL_WRONG_SEEDS)
        assert still_wrong, f"take it out of DISTURBED: {family.name}, {disturbance}"
    else:
        assert wrong(family, disturbance, DISTURBED_SEEDS) == []


@given(st.sampled_from(FAMILIES), st.integers(0, 10_000))
@settings(max_examples=40)
def test_events_that_come_twice_change_nothing(family: Family, seed: int) -> None:
    case = family.case(seed)
    assert watch(CORE, disturbed(case, "repeated")) == watch(CORE, case)
