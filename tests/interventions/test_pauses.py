import pytest

from haltline.detectors import BY_ID
from haltline.interventions.control import approvals
from haltline.interventions.decide.level_selection import LevelSelection
from haltline.interventions.levels.default_levels import JUDGEMENT, STOPS_SESSION, default_level
from haltline.interventions.state.context import NOTHING
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.decisions import WHOLE_SESSION, Decision, Level, Mode
from haltline.schemas.events import ActionEvent, Effect, Kind
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Policy, Rule
from tests.builders import at, event, some
from tests.interventions.cases import found

POLICY = Policy()
EXPIRES_MS = round(POLICY.operated.approvals.expires_s * 1000)
PAUSING = [
    pytest.param(rule, severity, id=f"{rule} when it is {severity.value}")
    for rule in BY_ID
    for severity in Severity
    if default_level(rule, severity) is Level.PAUSE and rule not in JUDGEMENT  # see levels/test_hold.py
]


def paused(standing: SessionControl, on: ActionEvent, rule: str, severity: Severity) -> Decision:
    """What a finding of the rule on the event leads to, under `enforce`."""
    rules = {rule: Rule(mode=Mode.ENFORCE)}
    decision, _ = LevelSelection(POLICY).decide(standing, on, [found(severity, rule)], rules, dict, context=NOTHING)
    decision = some(approvals.on_event(standing, on, decision, POLICY, lambda: Effect.READ))
    assert decision.level is Level.PAUSE
    return decision


def proposal(second: float) -> ActionEvent:
    args = {"asset_id": "a"}
    return event(second, "get_asset", kind=Kind.PROPOSED, outcome=None, args=args, await_verdict=True)


@pytest.mark.parametrize("second_kind", [Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN])
@pytest.mark.parametrize(("rule", "severity"), PAUSING)
def test_each_pause_says_until_when_it_asks(rule: str, severity: Severity, second_kind: Kind) -> None:
    standing = SessionControl()
    result = {
        Kind.PROPOSED: proposal(0),
        Kind.COMPLETED: event(0, "get_asset", error="no", args={"asset_id": "a"}),
        Kind.MODEL_TURN: event(0, "", kind=Kind.MODEL_TURN, outcome=None),
    }[second_kind]
    decision = paused(standing, result, rule, severity)
    approval = some(decision.approval)
    assert decision.expires == approval.expires == at(0) + EXPIRES_MS
    whole = second_kind is Kind.MODEL_TURN or rule in STOPS_SESSION
    assert (approval.action == WHOLE_SESSION) == whole == (standing.held is not None)
    if whole:
        return
    again = some(approvals.on_event(standing, proposal(60), None, POLICY, lambda: Effect.READ))
    same = (Level.PAUSE, decision.expires, approval.request_id)
    assert (again.level, again.expires, some(again.approval).request_id) == same, "it waits for the open request"
