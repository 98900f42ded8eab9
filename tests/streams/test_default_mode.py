import pytest

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import Kind
from haltline.schemas.policy import Override, Policy, Rule
from haltline.streams.engine.core import Core, SessionState
from tests.builders import event
from tests.cases import cases

DRIFTING = [
    event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task={"goal": "Repair invoice export rounding"}),
    *(event(s, "edit", args={"what": "repair rounding invoice export"}) for s in range(1, 5)),
    *(event(s, "edit", args={"what": f"beautiful holiday pictures {chr(92 + s)}"}) for s in range(5, 15)),
]


@cases(
    "policy, mode, level",
    {
        "named without a mode": (Policy(rules={"goal_drift": Rule()}), Mode.SHADOW, Level.ALLOW),
        "other settings": (Policy(rules={"goal_drift": Rule(settings={"mean": 0.6})}), Mode.SHADOW, Level.ALLOW),
        "trusted by the policy": (Policy(rules={"goal_drift": Rule(mode=Mode.ENFORCE)}), Mode.ENFORCE, Level.NUDGE),
        "trusted for some sessions": (
            Policy(overrides=(Override(session="s*", rules={"goal_drift": Rule(mode=Mode.ENFORCE)}),)),
            Mode.ENFORCE,
            Level.NUDGE,
        ),
    },
)
def test_a_rule_that_cannot_be_trusted_is_shadowed(policy: Policy, mode: Mode, level: Level) -> None:
    core, state = Core(policy), SessionState(session_id="s1")
    outcomes = [core.on_event(state, e) for e in DRIFTING]
    ((detection, decision),) = [
        (d, o.decision) for o in outcomes for d in o.detections if d.finding.detector == "goal_drift"
    ]
    assert detection.mode == mode.value
    assert decision is not None
    assert (decision.mode, decision.level) == (mode, level)


@pytest.mark.parametrize("rules", [{}, {"goal_drift": Rule(enabled=False)}], ids=["not named", "named as off"])
def test_an_optional_rule_runs_only_where_a_policy_names_it(rules: dict[str, Rule]) -> None:
    state = Core(Policy(rules=rules)).on_event(None, DRIFTING[0]).state
    assert "goal_drift" not in state.detectors
