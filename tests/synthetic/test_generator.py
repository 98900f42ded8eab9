"""The generated cases match their descriptions."""

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.runaways import FAMILIES, Case, Family
from benchmarks.runaways.disturbances import DISTURBANCES, disturbed
from benchmarks.runaways.script import PACES
from haltline.schemas.wire import decode_event

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


def test_families_have_names_of_their_own_and_seeds_that_cover_every_pace() -> None:
    for family in FAMILIES:
        drawn = [family.case(seed) for seed in range(len(PACES))]
        assert len({tuple(event.time for event in case.events) for case in drawn}) == len(PACES), family.name
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    assert [family.name for family in FAMILIES if not family.what.endswith(".")] == []
    for family in FAMILIES:
        for event in family.case(1).events[:40]:
            assert decode_event(event.model_dump_json(exclude_none=True).encode()) == event


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
