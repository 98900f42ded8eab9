from typing import Any

import msgspec
import pytest

from haltline.detectors.combining.agreement import AgreementState
from haltline.detectors.combining.combination import COMBINATIONS, Combination
from haltline.schemas.findings import Evidence, Finding, Severity
from tests.builders import Watched, cases, event

DETECTOR = Combination()
LOW, MEDIUM, HIGH, CRITICAL = Severity


def found(rule: str, severity: Severity = MEDIUM, confidence: float = 1.0) -> Finding:
    seen: dict[str, Any] = {"reason": "seen", "evidence": (Evidence(event_id="e"),)}
    return Finding(detector=rule, code=rule, severity=severity, confidence=confidence, **seen)


def run(steps: list[tuple[float, list[Finding]]], *, restart: bool = False) -> list[Finding]:
    watched = Watched(DETECTOR)
    actual = []
    for second, findings in steps:
        finding = watched(event(second), findings)
        if finding is not None:
            actual.append(finding)
        if restart:
            watched.state = msgspec.json.decode(msgspec.json.encode(watched.state), type=AgreementState)
    return actual


@pytest.mark.parametrize(
    ("one", "other", "name", "multiplier"),
    [pytest.param(one, other, name, factor, id=name) for name, one, other, factor in COMBINATIONS],
)
@pytest.mark.parametrize("turned", [False, True], ids=["one first", "the other first"])
def test_two_findings_close_together_multiply_the_risk(
    one: str, other: str, name: str, multiplier: float, turned: bool
) -> None:
    first, second = (other, one) if turned else (one, other)
    (finding,) = run([(0, [found(first, confidence=0.5)]), (60, [found(second, confidence=0.4)])])
    values = {"risk": pytest.approx(0.25 * multiplier), "worst": 0.25, "multiplier": multiplier}
    assert (finding.code, finding.values) == (name, values | {"rules": f"{one}, {other}"})
    assert [e.event_id for e in finding.evidence] == ["s1@0 look_up", "s1@60 look_up"]


def test_there_are_these_two_and_several_multiply_each_other() -> None:
    factors = {name: factor for name, *_, factor in COMBINATIONS}
    assert factors == {"runaway_execution": 2.0, "confused_state": 1.8}
    parts = ["hallucination", "scope_creep", "resource_growth", "goal_drift"]
    (finding,) = run([(0, [found(part, LOW, 0.5) for part in parts])])
    assert (finding.code, finding.values["multiplier"], finding.values["risk"]) == ("runaway_execution", 3.6, 0.36)
    assert finding.reason.startswith("runaway_execution and confused_state: resource_growth, goal_drift, ")


@cases(
    "severity, confidence, risk, reported",
    {
        "0.5 times 1.8 is 0.9, also in floats": (MEDIUM, 1.0, 0.9, CRITICAL),
        "medium": (MEDIUM, 0.6, 0.54, MEDIUM),
        "at most 1": (CRITICAL, 1.0, 1.0, CRITICAL),
    },
)
def test_the_risk_and_what_it_means(severity: Severity, confidence: float, risk: float, reported: Severity) -> None:
    parts = [found("hallucination", severity, confidence), found("scope_creep", LOW, 0.1)]
    (finding,) = run([(0, parts)])
    assert (finding.values["risk"], finding.severity, finding.confidence) == (risk, reported, risk)


ONE, OTHER = found("hallucination"), found("scope_creep")


@cases(
    "steps, times",
    {
        "one of two, again and again": ([(s, [ONE]) for s in range(9)], 0),
        "two that are no combination": ([(0, [found("hallucination"), found("goal_drift")])], 0),
        "ten minutes apart is together": ([(0, [ONE]), (600, [OTHER])], 1),
        "further apart, with many actions between": ([(0, [ONE]), *((s, []) for s in range(60)), (601, [OTHER])], 0),
        "slow, with few actions between": ([(0, [ONE]), (5000, []), (9000, [OTHER])], 1),
        "again with each further finding": ([(0, [ONE, OTHER]), (1, []), (2, [OTHER])], 2),
    },
)
@pytest.mark.parametrize("restart", [False, True], ids=["without a restart", "with restarts"])
def test_together(steps: list[tuple[float, list[Finding]]], times: int, restart: bool) -> None:
    assert len(run(steps, restart=restart)) == times


def test_it_says_how_close_it_is_and_keeps_one_finding_of_each_rule() -> None:
    watched = Watched(DETECTOR)
    assert DETECTOR.near(watched.state) == 0
    for second in range(100):
        watched(event(second), [found("hallucination"), found("polling")])
    assert DETECTOR.near(watched.state) == 0.5
    assert list(watched.state.last) == ["hallucination"]
