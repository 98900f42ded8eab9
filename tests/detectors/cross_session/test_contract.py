"""The contract of every detector across sessions."""

import importlib
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import haltline.detectors.cross_session
from haltline.detectors.cross_session import ACROSS
from haltline.detectors.cross_session.base import MAX_EVIDENCE, CrossSessionPattern
from haltline.detectors.cross_session.budgets import SHARED, AgentBudget, MissionBudget, TreeBudget
from haltline.detectors.framework.settings import annotations_of
from haltline.detectors.framework.strictness import direction_of
from haltline.schemas.findings import Finding
from haltline.schemas.signals import Signal, SignalKind
from tests.detectors.cross_session.signals import signal

HERE = Path(__file__).parent
MAX_STATE_BYTES = 256 * 1024
"""Of one pattern and one scope; there are far fewer of these than of sessions."""
LIMITS = {"calls": 50.0, "cost_usd": 3.0}
SET: dict[Any, dict[str, Any]] = {
    AgentBudget: {"limits": LIMITS},
    MissionBudget: {"limits": LIMITS},
    TreeBudget: {"limits": LIMITS, "agents": 20, "agents_at_once": 4, "depth": 2},
}
"""Those that find nothing with their defaults."""

PATTERNS: list[CrossSessionPattern[Any]] = [p(**SET.get(p, {})) for p in ACROSS]
every_pattern = pytest.mark.parametrize("pattern", [pytest.param(pattern, id=pattern.id) for pattern in PATTERNS])
thorough = settings(max_examples=25)


@st.composite
def signals(draw: st.DrawFn) -> list[Signal]:
    """A lively hour of a few sessions, in any order."""
    made = []
    for number in range(draw(st.integers(0, 60))):
        session = f"s{draw(st.integers(0, 6))}"
        target = f"table=t{draw(st.integers(0, 2))}"
        made.append(
            signal(
                draw(st.integers(0, 3600)),
                draw(st.sampled_from(list(SignalKind))),
                session,
                agent=f"a{draw(st.integers(0, 2))}",
                signal_id=f"g{number}",
                event_id=f"e{number}",
                parent_session_id=draw(st.sampled_from([None, "s0", "s1", "s2"])),
                target=target,
                targets=[target],
                amounts={"calls": 7.0, "count": 6.0},
            )
        )
    return made


def found(pattern: CrossSessionPattern[Any], state: Any, received: list[Signal]) -> list[Finding]:
    return [f for one in received if one.kind in pattern.consumes and (f := pattern.observe(state, one)) is not None]


reader: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Of states of a type; it takes longer to make than a session to watch."""


# Hours take longer to make than to watch: each of them is watched by every pattern.


@given(incoming=signals(), cut=st.integers(0, 60))
@thorough
def test_a_restart_in_the_middle_changes_nothing(incoming: list[Signal], cut: int) -> None:
    for pattern in PATTERNS:
        undisturbed = pattern.start()
        expected = found(pattern, undisturbed, incoming)
        state = pattern.start()
        before = found(pattern, state, incoming[:cut])
        state = reader(type(state)).validate_python(orjson.loads(orjson.dumps(state)))
        assert before + found(pattern, state, incoming[cut:]) == expected, pattern.id
        assert state == undisturbed, pattern.id


@given(incoming=signals())
@thorough
def test_evidence_ends_with_the_event_and_is_of_what_was_received(incoming: list[Signal]) -> None:
    for pattern in PATTERNS:
        state = pattern.start()
        for number, one in enumerate(incoming):
            for finding in found(pattern, state, [one]):
                ids = [evidence.event_id for evidence in finding.evidence]
                assert ids[-1] == one.event_id, pattern.id
                assert set(ids) <= {s.event_id for s in incoming[: number + 1]}, pattern.id
                assert len(set(ids)) == len(ids) <= MAX_EVIDENCE, pattern.id
                assert finding.detector == pattern.id


@given(incoming=signals(), late_ms=st.integers(0, 10 * 365 * 86_400_000))
@thorough
def test_late_signals_never_raise(incoming: list[Signal], late_ms: int) -> None:
    for pattern in PATTERNS:
        state = pattern.start()
        for one in incoming:
            found(pattern, state, [one, one.model_copy(update={"time": one.time - late_ms})])


@every_pattern
def test_the_state_stays_bounded(pattern: CrossSessionPattern[Any]) -> None:
    state = pattern.start()
    kinds = sorted(pattern.consumes)
    for n in range(600):
        target = f"table={n:0200}"
        one = signal(
            n / 10,
            kinds[n % len(kinds)],
            f"session-{n:030}",
            signal_id=f"g{n}",
            parent_session_id=f"session-{n // 2:030}",
            agent=f"agent-{n:030}",
            target=target,
            targets=[target],
            amounts=dict.fromkeys(SHARED, 1.0),
        )
        pattern.observe(state, one)
    assert len(orjson.dumps(state)) <= MAX_STATE_BYTES


@every_pattern
def test_each_has_a_file_a_test_file_and_a_docstring(pattern: CrossSessionPattern[Any]) -> None:
    module = sys.modules[type(pattern).__module__]
    shared = {"budget": "budgets", "destruction": "destruction"}  # those of one class, which differ in their scope
    scope, _, what = pattern.id.partition("_")
    name = pattern.id if scope == "target" else shared.get(what, pattern.id)
    assert module.__name__ == f"haltline.detectors.cross_session.{name}"
    together = {"tree_destruction", "mission_destruction"}  # the same table is run over both
    name = "tree_and_mission_destruction" if pattern.id in together else pattern.id
    assert (HERE / f"test_{name}.py").exists()
    doc = module.__doc__ or ""
    places = [doc.find(f"\n{heading}: ") for heading in ("Fires", "Quiet", "Misses")]
    assert -1 not in places
    assert places == sorted(places)


@every_pattern
def test_every_setting_says_which_way_it_is_stricter(pattern: CrossSessionPattern[Any]) -> None:
    assert [name for name, result in annotations_of(type(pattern)).items() if direction_of(result) is None] == []


def test_every_pattern_that_exists_is_listed() -> None:
    modules = pkgutil.iter_modules(haltline.detectors.cross_session.__path__, "haltline.detectors.cross_session.")
    with_id = {
        member
        for module in modules
        for member in vars(importlib.import_module(module.name)).values()
        if isinstance(member, type) and issubclass(member, CrossSessionPattern) and "id" in vars(member)
    }
    assert with_id == set(ACROSS)
