"""The contract of every detector."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack

import haltline.detectors
from haltline.detectors import ALL
from haltline.detectors.framework.base import Detector
from haltline.detectors.session.polling import Polling
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Policy
from tests.builders import Events, Together, cases, each, event, nearness
from tests.detectors.session import (
    test_cycle,
    test_destructive_volume,
    test_environment_gone,
    test_error_repetition,
    test_fruitless_waits,
    test_invented_data,
    test_monologue,
    test_polling,
    test_repetition,
    test_silent_shell,
)
from tests.detectors.strategies import long_session, sessions

MAX_STATE_BYTES = 64 * 1024
"""Of one detector, however long the session; typical ones take a hundredth of it."""
HERE = Path(__file__).parent

DETECTORS: list[Detector[Any]] = [detector() for detector in ALL]
every_detector = pytest.mark.parametrize("detector", [pytest.param(detector, id=detector.id) for detector in DETECTORS])
SHARING = [[detector for detector in DETECTORS if detector.recalls is recalls] for recalls in (False, True)]
"""Those that look at the same: what one of them says that it does not ask for is not there for it."""


thorough = settings(max_examples=20)
"""Each session of an example is watched by every detector."""


def found(watched: Together, events: Iterable[ActionEvent]) -> list[Finding]:
    return [finding for one in events for finding in watched.observe(one)]


def found_with_evidence(watched: Together, events: Iterable[ActionEvent]) -> list[Finding]:
    """The findings; their evidence belongs to the session, and ends with the event that completed them."""
    seen: list[str] = []
    findings = []
    for one in events:
        seen.append(one.event_id)
        for finding in watched.observe(one):
            findings.append(finding)
            ids = [evidence.event_id for evidence in finding.evidence]
            assert ids[-1] == one.event_id, finding.detector
            assert set(ids) <= set(seen), finding.detector
            assert len(set(ids)) == len(ids), finding.detector
            offsets = [(e.offset, e.event_id) for e in finding.evidence if e.offset is not None]
            assert all(seen[offset] == event_id for offset, event_id in offsets), finding.detector
    return findings


def states_of(watched: Together) -> dict[str, Any]:
    return {detector.id: state for detector, state in zip(watched.detectors, watched.states, strict=True)}


def through_bytes(value: Any) -> Any:
    return msgpack.decode(msgpack.encode(value), type=type(value))


@given(events=sessions(), cut=st.integers(0, 40))
def test_a_restart_in_the_middle_changes_nothing_and_evidence_ends_with_the_event(
    events: list[ActionEvent], cut: int
) -> None:
    for detectors in SHARING:
        undisturbed, restarted = Together(detectors), Together(detectors)
        expected = found_with_evidence(undisturbed, events)
        before = found(restarted, events[:cut])
        restarted.states, restarted.calls = [*map(through_bytes, restarted.states)], through_bytes(restarted.calls)
        assert before + found(restarted, events[cut:]) == expected
        assert states_of(restarted) == states_of(undisturbed)
        assert restarted.calls == undisturbed.calls


@given(one=sessions("one"), other=sessions("other"), order=st.randoms(use_true_random=False))
@thorough
def test_sessions_do_not_touch_each_other(one: list[ActionEvent], other: list[ActionEvent], order: Any) -> None:
    names = ["one"] * len(one) + ["other"] * len(other)
    order.shuffle(names)
    for detectors in SHARING:
        expected = {"one": found(Together(detectors), one), "other": found(Together(detectors), other)}
        watched = {"one": Together(detectors), "other": Together(detectors)}
        got: dict[str, list[Finding]] = {"one": [], "other": []}
        rest = {"one": iter(one), "other": iter(other)}
        for name in names:
            got[name] += watched[name].observe(next(rest[name]))
        assert got == expected


@every_detector
def test_a_finding_names_its_detector(detector: Detector[Any]) -> None:
    assert {finding.detector for finding in found(Together([detector]), long_session(100))} <= {detector.id}


@given(events=sessions(), late_ms=st.integers(0, 10 * 365 * 86_400_000))
@thorough
def test_late_events_never_raise(events: list[ActionEvent], late_ms: int) -> None:
    late = [e.model_copy(update={"event_id": f"late {e.event_id}", "time": e.time - late_ms}) for e in events]
    for detectors in SHARING:
        watched = Together(detectors)
        for one, again in zip(events, reversed(late), strict=True):
            found(watched, [one, again])
            for detector, state in zip(watched.detectors, watched.states, strict=True):
                assert 0 <= detector.near(state) <= 1, detector.id


def test_every_state_stays_bounded_on_a_long_session() -> None:
    """By half of the session each state has its final size, so a million events would not change it."""
    sizes: dict[str, list[int]] = {}
    for watched in map(Together, SHARING):
        for number, one in enumerate(long_session(4_000), 1):
            watched.observe(one)
            if number % 100 == 0:
                for name, state in states_of(watched).items():
                    sizes.setdefault(name, []).append(len(msgspec.json.encode(state)))
    assert {name: max(of) for name, of in sizes.items() if max(of) > MAX_STATE_BYTES} == {}
    assert [name for name, of in sizes.items() if max(of[20:]) > 1.25 * max(of[:20]) + 100] == []


def findings_of_a_long_session() -> list[str]:
    return [finding.to_json().decode() for finding in found(Together(DETECTORS), long_session(300))]


def test_another_process_with_another_hash_seed_finds_the_same() -> None:
    script = (
        "import json; from tests.detectors.test_contract import findings_of_a_long_session as f; print(json.dumps(f()))"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "4242"
    paths = f"{HERE.parents[1] / 'src'}:{HERE.parents[1]}"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True)
    expected = findings_of_a_long_session()
    assert len(expected) > 100
    assert json.loads(done.stdout) == expected


MADE_FOR_A_POLICY = {"haltline.detectors.combining.correlation", "haltline.detectors.framework.plugins"}
"""Modules whose detectors are made when a policy is loaded: from its rules, and around those of other packages."""


def test_every_detector_that_exists_is_listed() -> None:
    listed = {detector.__module__ for detector in ALL}
    classes = set()
    for module in pkgutil.walk_packages(haltline.detectors.__path__, "haltline.detectors."):
        members = vars(importlib.import_module(module.name)).values()
        is_detector = (isinstance(m, type) and issubclass(m, Detector) and m is not Detector for m in members)
        if any(is_detector) and module.name not in {"haltline.detectors.framework.base", *MADE_FOR_A_POLICY}:
            classes.add(module.name)
    assert classes == listed


@every_detector
def test_each_has_a_file_a_test_file_and_a_docstring_of_its_own(detector: Detector[Any]) -> None:
    module = sys.modules[type(detector).__module__]
    folder = module.__name__.split(".")[-2]
    assert module.__name__ == f"haltline.detectors.{folder}.{detector.id}"
    assert (HERE / folder / f"test_{detector.id}.py").exists()
    doc = module.__doc__ or ""
    places = [doc.find(f"\n{heading}: ") for heading in ("Fires", "Quiet", "Misses")]
    assert -1 not in places
    assert places == sorted(places)


def test_ids_are_unique_and_the_default_policy_names_no_detector_that_does_not_exist() -> None:
    assert len({detector.id for detector in ALL}) == len(ALL)
    assert set(Policy().rules) <= {detector.id for detector in ALL}


def wrong_settings(detector: Detector[Any]) -> Iterator[dict[str, Any]]:
    """Settings that cannot be meant: of no detector, below every bound, without one for each severity, out of order."""
    yield {"of_no_detector": 1}
    values = {setting.name: getattr(detector, setting.name) for setting in fields(detector)}
    for name, value in values.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield {name: -1_000_000}
            milder = name.replace("high", "medium").replace("critical", "high")
            if milder in values and milder != name:
                yield {milder: value + 1 if isinstance(value, int) else 1.05 * value}
        elif isinstance(value, tuple) and value and isinstance(value[-1], int | float):
            yield {name: value[:-1]}
            yield {name: (value[-1] + 1, *value[1:])}
            yield {name: (-1, *value[1:])}


@every_detector
def test_wrong_settings_are_refused(detector: Detector[Any]) -> None:
    for wrong in wrong_settings(detector):
        with pytest.raises(ValueError, match="validation error"):
            type(detector)(**wrong)


@every_detector
def test_a_new_session_is_far_from_a_finding(detector: Detector[Any]) -> None:
    assert detector.near(detector.start()) == 0


WRITTEN = test_invented_data.after(test_invented_data.write(0), "cat app.zip", "cat app.zip")
SLOW = each(3, test_fruitless_waits.slow, error=test_fruitless_waits.TIMED_OUT)


@cases(
    "detector, events",
    {
        "cycle": (test_cycle.DETECTOR, test_cycle.looks("xabab")),
        "destructive_volume": (test_destructive_volume.DETECTOR, test_destructive_volume.deletes(0, 6, 12)),
        "environment_gone": (test_environment_gone.DETECTOR, test_environment_gone.failures(3)),
        "error_repetition": (test_error_repetition.DETECTOR, test_error_repetition.errors(0, 5, 10)),
        "fruitless_waits": (test_fruitless_waits.DETECTOR, SLOW),
        "invented_data": (test_invented_data.DETECTOR, WRITTEN),
        "monologue": (test_monologue.DETECTOR, each(3, test_monologue.turn)),
        "polling": (Polling(polls=(2, 3, 4)), test_polling.every(30, 3)),
        "repetition": (test_repetition.DETECTOR, each(3, test_repetition.look)),
        "silent_shell": (test_silent_shell.DETECTOR, test_silent_shell.silent(*test_silent_shell.PRINTING[:4])),
    },
)
def test_a_rule_is_near_only_when_it_fires(detector: Detector[Any], events: Events) -> None:
    *before, last = nearness(detector, events)
    assert (max(before) < 1, last) == (True, 1)


CODES = ("approval_expired", "target_frozen_by_operator", "no_verdict", "budget_exceeded", "session_killed_by_operator",
         "connection refused: rate limit exceeded")  # fmt: skip
REFUSED: dict[str, Callable[[int], tuple[str, str, dict[str, Any]]]] = {
    "the same read": lambda _: ("read_file", "path=a.txt", {"path": "a.txt"}),
    "any code": lambda _: ("read_file", "path=a.txt", {"path": "a.txt"}),
    "the same delete": lambda _: ("delete_asset", "asset_id=a", {"asset_id": "a"}),
    "one delete after another": lambda n: ("delete_asset", f"asset_id={n}", {"asset_id": str(n)}),
    "looks at many files": lambda n: ("read_file", f"path=src/{n % 7}/{n}.py", {"path": f"src/{n % 7}/{n}.py"}),
    "the same test": lambda _: ("bash", "", {"command": "pytest -x tests"}),
    "three calls in turn": lambda n: ("read_file", f"path={n % 3}.txt", {"path": f"{n % 3}.txt"}),
    "edits that differ in numbers": lambda n: ("edit_file", "path=a.py", {"path": "a.py", "text": f"x = {n}"}),
}


def refused(scenario: str, *, proposes: bool) -> list[ActionEvent]:
    """A hundred and thirty calls that nobody carried out, and what is said of each."""
    events: list[ActionEvent] = []
    for number in range(130):
        action, target, args = REFUSED[scenario](number)
        call: dict[str, Any] = {"args": args, "call_id": f"c{number}"}
        if proposes:
            proposed: dict[str, Any] = {"kind": Kind.PROPOSED, "event_id": f"p{number}", "outcome": None}
            events.append(event(number, action, target, **call, **proposed))
        why = CODES[number % len(CODES)] if scenario == "any code" else "approval_expired"
        answered: dict[str, Any] = {"event_id": f"r{number}", "outcome": Outcome.REFUSED}
        events.append(event(number + 0.5, action, target, why, **call, **answered))
    return events


@pytest.mark.parametrize("proposes", [True, False], ids=["proposed", "refused at once"])
@pytest.mark.parametrize("scenario", REFUSED)
def test_what_was_refused_is_nobodys_failure(scenario: str, proposes: bool) -> None:
    """A session of which every call is refused fails, repeats and finds out nothing: it goes on trying, and no more.

    A review of single steps is left out: that a step goes against a refusal is one of its grounds.
    """
    events = refused(scenario, proposes=proposes)
    reviewed = {"step_review"} if proposes else set()
    findings = [finding for detectors in SHARING for finding in found(Together(detectors), events)]
    codes = {finding.code for finding in findings if finding.detector not in reviewed}
    assert codes == {"nothing_works"}
