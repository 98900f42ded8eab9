from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from haltline.detectors.combining.agreement import PARTS, Agreement, State
from haltline.schemas.decisions import Mode
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core, SessionState
from tests.builders import Watched, bash, event

DETECTOR = Agreement()
LOW, MEDIUM, HIGH, CRITICAL = Severity
Steps = list[list[Finding]]


def found(rule: str, severity: Severity = MEDIUM) -> Finding:
    return Finding(
        detector=rule, code=rule, severity=severity, reason="seen", evidence=(Evidence(event_id=f"by {rule}"),)
    )


def steps(actions: Steps, detector: Agreement = DETECTOR, *, restart: bool = False) -> str:
    """For each action: `c` for a finding, `.` for none."""
    watched = Watched(detector)
    actual = ""
    for number, findings in enumerate(actions):
        actual += "." if watched(event(number), findings) is None else "c"
        if restart and watched.state is not None:
            watched.state = TypeAdapter(State).validate_json(orjson.dumps(watched.state))
    return actual


CYCLE, ERRORS, STUCK = found("cycle"), found("error_repetition"), found("stagnation")
VERY_STUCK = found("stagnation", HIGH)


@pytest.mark.parametrize(
    ("actions", "actual"),
    [
        pytest.param([[STUCK], [CYCLE]], "..", id="two hints are not enough"),
        pytest.param([[VERY_STUCK], [CYCLE]], ".c", id="a hint and a warning"),
        pytest.param([[CYCLE], [VERY_STUCK]], ".c", id="in the other order"),
        pytest.param([[CYCLE, VERY_STUCK]], "c", id="on one event"),
        pytest.param([[STUCK], [CYCLE], [ERRORS]], "..c", id="three hints"),
        pytest.param([[VERY_STUCK], [VERY_STUCK], [VERY_STUCK]], "...", id="one rule alone"),
        pytest.param([[VERY_STUCK], [STUCK], [CYCLE]], "...", id="of each rule the last finding counts"),
        pytest.param([[CYCLE], [], [], [], [VERY_STUCK]], "....c", id="four actions apart"),
        pytest.param([[CYCLE], [], [], [], [], [VERY_STUCK]], "......", id="five actions apart"),
        pytest.param([[CYCLE, VERY_STUCK], [], [CYCLE]], "c.c", id="again when they go on"),
        pytest.param([[found("cycle", LOW), VERY_STUCK]], ".", id="what is only noted does not count"),
        pytest.param([[found("destructive_repeat", HIGH), CYCLE]], ".", id="a rule about something else"),
    ],
)
@pytest.mark.parametrize("restart", [False, True], ids=["as it is", "with a restart after each action"])
def test_findings_of_several_rules_add_up(actions: Steps, actual: str, *, restart: bool) -> None:
    assert steps(actions, restart=restart) == actual


@pytest.mark.parametrize(
    ("settings", "actual"),
    [
        pytest.param({"points": 2}, ".cc", id="fewer points"),
        pytest.param({"points": 4}, "...", id="more points"),
        pytest.param({"last_actions": 0}, "...", id="on one event only"),
    ],
)
def test_points_and_distance_can_be_set(settings: dict[str, Any], actual: str) -> None:
    assert steps([[STUCK], [CYCLE], [ERRORS]], Agreement(**settings)) == actual


def test_the_finding_names_the_rules_and_where_they_saw_it() -> None:
    watched = Watched(DETECTOR)
    watched(event(0), [CYCLE])
    finding = watched(event(1), [VERY_STUCK])
    assert finding is not None
    assert (finding.code, finding.severity) == ("agreement", CRITICAL)
    assert finding.reason == "2 rules within 4 actions: stagnation (high), cycle (medium)"
    assert finding.values == {"points": 3, "rules": "stagnation, cycle"}
    assert len(finding.evidence) == 2


def detections(policy: Policy) -> list[tuple[str, str]]:
    """Rule and mode of what is found in a session that runs two commands turn about, each of which fails."""
    core, state, result = Core(policy), None, []
    for number in range(8):
        name = "ab"[number % 2]
        outcome = core.on_event(state, bash(number, f"./{name}", f"{name}: no such device", output_head=""))
        state = outcome.state
        result += [(found.finding.detector, found.mode) for found in outcome.detections]
    assert isinstance(state, SessionState)
    return result


def test_it_pauses_a_session_on_which_rules_agree() -> None:
    assert ("agreement", Mode.ENFORCE) in detections(Policy())


def test_rules_in_shadow_do_not_count() -> None:
    shadow = {rule: Rule(mode="shadow") for rule in PARTS - {"error_repetition"}}
    actual = detections(Policy(rules=shadow))
    assert {("error_repetition", Mode.ENFORCE), ("stagnation", Mode.SHADOW)} <= set(actual)
    assert all(detector != "agreement" for detector, _ in actual)
