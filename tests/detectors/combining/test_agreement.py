from typing import Any

import msgspec
import pytest

from haltline.detectors.combining.agreement import PARTS, Agreement, AgreementState
from haltline.schemas.decisions import Mode
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core, SessionState
from tests.builders import Watched, bash, cases, event

DETECTOR = Agreement()
LOW, MEDIUM, HIGH, CRITICAL = Severity
Steps = list[list[Finding]]


def found(rule: str, severity: Severity = MEDIUM) -> Finding:
    seen = (Evidence(event_id=f"by {rule}"),)
    return Finding(detector=rule, code=rule, severity=severity, reason="seen", evidence=seen)


def steps(actions: Steps, detector: Agreement = DETECTOR, *, restart: bool = False) -> str:
    """For each action: `c` for a finding, `.` for none."""
    watched = Watched(detector)
    actual = ""
    for number, findings in enumerate(actions):
        actual += "." if watched(event(number), findings) is None else "c"
        if restart and watched.state is not None:
            watched.state = msgspec.json.decode(msgspec.json.encode(watched.state), type=AgreementState)
    return actual


CYCLE, ERRORS, STUCK = found("cycle"), found("error_repetition"), found("stagnation")
VERY_STUCK = found("stagnation", HIGH)


@cases(
    "actions, actual",
    {
        "two hints are not enough": ([[STUCK], [CYCLE]], ".."),
        "a hint and a warning": ([[VERY_STUCK], [CYCLE]], ".c"),
        "on one event": ([[CYCLE, VERY_STUCK]], "c"),
        "three hints": ([[STUCK], [CYCLE], [found("monologue")]], "..c"),
        "errors, and that steps failed": ([[STUCK], [found("error_repetition", HIGH)]], ".."),
        "of each rule the last finding counts": ([[VERY_STUCK], [STUCK], [CYCLE]], "..."),
        "four actions apart": ([[CYCLE], *[[]] * 3, [VERY_STUCK]], "....c"),
        "five actions apart": ([[CYCLE], *[[]] * 4, [VERY_STUCK]], "......"),
        "two rules that see the same fact": ([[found("repetition", MEDIUM), found("error_repetition", HIGH)]], "."),
        "and a third": ([[found("repetition", MEDIUM), found("error_repetition", HIGH), CYCLE]], "c"),
        "again when they go on": ([[CYCLE, VERY_STUCK], [], [CYCLE]], "c.c"),
        "what is only noted does not count": ([[found("cycle", LOW), VERY_STUCK]], "."),
    },
)
@pytest.mark.parametrize("restart", [False, True], ids=["as it is", "with a restart after each action"])
def test_findings_of_several_rules_add_up(actions: Steps, actual: str, *, restart: bool) -> None:
    assert steps(actions, restart=restart) == actual


@cases(
    "settings, actual",
    {
        "fewer points": ({"points": 2}, ".cc"),
    },
)
def test_points_and_distance_can_be_set(settings: dict[str, Any], actual: str) -> None:
    assert steps([[STUCK], [CYCLE], [ERRORS]], Agreement(**settings)) == actual


def detections(policy: Policy) -> list[tuple[str, str]]:
    """Rule and mode of what is found in a session that runs two commands turn about, each of which fails."""
    core, state, result = Core(policy), None, []
    for number in range(14):
        name = "ab"[number % 2]
        outcome = core.on_event(state, bash(number, f"./{name}", f"{name}: no such device", output_head=""))
        state = outcome.state
        result += [(found.finding.detector, found.mode) for found in outcome.detections]
    assert isinstance(state, SessionState)
    return result


def test_it_pauses_a_session_on_which_rules_agree_and_rules_in_shadow_do_not_count() -> None:
    assert ("agreement", Mode.ENFORCE) in detections(Policy())
    shadow = {rule: Rule(mode="shadow") for rule in PARTS - {"error_repetition"}}
    actual = detections(Policy(rules=shadow))
    assert {("error_repetition", Mode.ENFORCE), ("stagnation", Mode.SHADOW)} <= set(actual)
    assert all(detector != "agreement" for detector, _ in actual)
