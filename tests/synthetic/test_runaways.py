"""Every generated runaway is stopped in time, and no healthy session is; also when their events are disturbed."""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.runaways import FAMILIES, Case, Family
from benchmarks.runaways.disturbances import DISTURBANCES, disturbed
from benchmarks.runaways.watching import Seen, watch
from haltline.streams.engine.core import Core
from tests.synthetic.expectations import DISTURBED, FALSE_ALARMS, NOT_YET

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
