"""What holds for every detector."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import haltline.detectors
from haltline.detectors import ALL
from haltline.detectors.act import Calls
from haltline.detectors.base import Detector
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Policy
from tests.builders import Watched
from tests.detectors.strategies import long_session, sessions

MAX_STATE_BYTES = 64 * 1024
"""Of one detector, however long the session; typical ones take a hundredth of it."""
HERE = Path(__file__).parent

every_detector = pytest.mark.parametrize("detector", [pytest.param(detector(), id=detector.id) for detector in ALL])
thorough = settings(max_examples=30)


def found(watched: Watched, events: list[ActionEvent]) -> list[Finding]:
    return [finding for event in events if (finding := watched(event)) is not None]


def through_json(value: Any) -> Any:
    return TypeAdapter(type(value)).validate_python(orjson.loads(orjson.dumps(value)))


@every_detector
@given(events=sessions(), cut=st.integers(0, 40))
@thorough
def test_a_restart_in_the_middle_changes_nothing(detector: Detector[Any], events: list[ActionEvent], cut: int) -> None:
    undisturbed, restarted = Watched(detector), Watched(detector)
    expected = found(undisturbed, events)
    before = found(restarted, events[:cut])
    restarted.state, restarted.calls = through_json(restarted.state), through_json(restarted.calls)
    assert before + found(restarted, events[cut:]) == expected
    assert (restarted.state, restarted.calls) == (undisturbed.state, undisturbed.calls)


@every_detector
@given(events=sessions())
@thorough
def test_the_state_comes_back_equal_from_json(detector: Detector[Any], events: list[ActionEvent]) -> None:
    watched = Watched(detector)
    found(watched, events)
    state = TypeAdapter(type(detector.start())).validate_json(orjson.dumps(watched.state))
    calls = TypeAdapter(Calls).validate_json(orjson.dumps(watched.calls))
    assert (state, calls) == (watched.state, watched.calls)


@every_detector
@given(one=sessions("one"), other=sessions("other"), order=st.randoms(use_true_random=False))
@thorough
def test_sessions_do_not_touch_each_other(
    detector: Detector[Any], one: list[ActionEvent], other: list[ActionEvent], order: Any
) -> None:
    expected = {"one": found(Watched(detector), one), "other": found(Watched(detector), other)}
    watched = {"one": Watched(detector), "other": Watched(detector)}
    got: dict[str, list[Finding]] = {"one": [], "other": []}
    rest = {"one": list(one), "other": list(other)}
    while rest["one"] or rest["other"]:
        name = order.choice([name for name, events in rest.items() if events])
        got[name] += found(watched[name], [rest[name].pop(0)])
    assert got == expected


@every_detector
@given(events=sessions())
@thorough
def test_evidence_is_of_the_session_and_ends_with_the_event(detector: Detector[Any], events: list[ActionEvent]) -> None:
    watched = Watched(detector)
    seen: list[str] = []
    for event in events:
        seen.append(event.event_id)
        finding = watched(event)
        if finding is None:
            continue
        ids = [evidence.event_id for evidence in finding.evidence]
        assert ids[-1] == event.event_id
        assert set(ids) <= set(seen)
        assert len(set(ids)) == len(ids)
        assert all(seen[e.offset] == e.event_id for e in finding.evidence if e.offset is not None)
        assert finding.detector == detector.id


@every_detector
@given(events=sessions(), late_ms=st.integers(0, 10 * 365 * 86_400_000))
@thorough
def test_late_events_never_raise(detector: Detector[Any], events: list[ActionEvent], late_ms: int) -> None:
    watched = Watched(detector)
    late = [e.model_copy(update={"event_id": f"late {e.event_id}", "time": e.time - late_ms}) for e in events]
    for event, again in zip(events, reversed(late), strict=True):
        watched(event)
        watched(again)
        assert 0 <= detector.near(watched.state) <= 1


def bounded(detector: Detector[Any], length: int) -> None:
    watched = Watched(detector)
    for number, event in enumerate(long_session(length)):
        watched(event)
        if number % (length // 10) == 0:
            assert len(orjson.dumps(watched.state)) <= MAX_STATE_BYTES
    assert len(orjson.dumps(watched.state)) <= MAX_STATE_BYTES


@every_detector
def test_the_state_stays_bounded_on_a_long_session(detector: Detector[Any]) -> None:
    bounded(detector, 10_000)


@pytest.mark.skipif("HALTLINE_SLOW_TESTS" not in os.environ, reason="set HALTLINE_SLOW_TESTS=1: takes minutes")
@every_detector
def test_the_state_stays_bounded_on_a_session_of_a_million_events(detector: Detector[Any]) -> None:
    bounded(detector, 1_000_000)


def findings_of_a_long_session() -> list[str]:
    watched = [Watched(detector()) for detector in ALL]
    return [f.to_json().decode() for event in long_session(2_000) for w in watched if (f := w(event)) is not None]


def test_another_process_with_another_hash_seed_finds_the_same() -> None:
    script = (
        "import json; from tests.detectors.test_contract import findings_of_a_long_session as f; print(json.dumps(f()))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{HERE.parents[1] / 'src'}:{HERE.parents[1]}"},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    expected = findings_of_a_long_session()
    assert len(expected) > 100
    assert [json.loads(output) for output in outputs] == [expected, expected]


MADE_FOR_A_POLICY = {"haltline.detectors.correlation", "haltline.detectors.plugins"}
"""Modules whose detectors are made when a policy is loaded: from its rules, and around those of other packages."""


def test_every_detector_that_exists_is_listed() -> None:
    listed = {detector.__module__ for detector in ALL}
    classes = set()
    for module in pkgutil.iter_modules(haltline.detectors.__path__, "haltline.detectors."):
        members = vars(importlib.import_module(module.name)).values()
        is_detector = (isinstance(m, type) and issubclass(m, Detector) and m is not Detector for m in members)
        if any(is_detector) and module.name not in {"haltline.detectors.base", *MADE_FOR_A_POLICY}:
            classes.add(module.name)
    assert classes == listed


@every_detector
def test_each_has_a_file_a_test_file_and_a_docstring_of_its_own(detector: Detector[Any]) -> None:
    module = sys.modules[type(detector).__module__]
    assert module.__name__ == f"haltline.detectors.{detector.id}"
    assert (HERE / f"test_{detector.id}.py").exists()
    doc = module.__doc__ or ""
    places = [doc.find(f"\n{heading}: ") for heading in ("Fires", "Quiet", "Misses")]
    assert -1 not in places
    assert places == sorted(places)


def test_ids_are_unique() -> None:
    assert len({detector.id for detector in ALL}) == len(ALL)


@every_detector
def test_settings_are_frozen_and_compared_by_value(detector: Detector[Any]) -> None:
    assert detector == type(detector)()
    with pytest.raises(AttributeError):
        detector.id = "another"  # type: ignore[misc]  # that it cannot be set is what is tested


@every_detector
def test_a_new_session_is_far_from_a_finding(detector: Detector[Any]) -> None:
    assert detector.near(detector.start()) == 0


def test_the_default_policy_names_no_detector_that_does_not_exist() -> None:
    assert set(Policy().rules) <= {detector.id for detector in ALL}
