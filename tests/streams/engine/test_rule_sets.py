"""Which detectors look at a session: in a worker all of them, in the agent's own process those that are heeded."""

from collections.abc import Iterable

import orjson
import pytest

from haltline.detectors import PATTERNS
from haltline.interventions.levels.default_levels import default_mode
from haltline.schemas.decisions import Mode
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.policy.loader import parse_policy
from tests.builders import bash, event

LOOK = bash(0, "cat /etc/shadow")
"""An attempt that the review of steps, in shadow by default, looks at and remembers."""
OF_REVIEWS = {
    "name": "reviewed", "type": "event_count", "select": {"found": {"finding": "step_review"}}, "timespan": "1m",
    "condition": {"gte": 1},
}  # fmt: skip

DRIFTING = [
    event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task={"goal": "Repair invoice export rounding"}),
    *(event(s, "edit", args={"what": "repair rounding invoice export"}) for s in range(1, 5)),
    *(event(s, "edit", args={"what": f"beautiful holiday pictures {chr(92 + s)}"}) for s in range(5, 15)),
]


def looked(policy: Policy, *, alone: bool) -> set[str]:
    """The detectors that made a state of their own."""
    return set(Core(policy, alone=alone).on_event(None, LOOK).state.detectors)


def correlating(status: str) -> Policy:
    return parse_policy(orjson.dumps({"correlations": [OF_REVIEWS | {"status": status}]}).decode())


def test_a_worker_runs_what_is_in_shadow_and_the_agents_own_process_only_what_is_taken_out_of_it() -> None:
    named = Policy(rules={"step_review": Rule()})
    worker, alone = looked(named, alone=False), looked(Policy(), alone=True)
    assert "step_review" in worker - alone
    assert alone == {name for name in worker if default_mode(name) is not Mode.SHADOW}
    for mode in (Mode.WARN, Mode.ENFORCE):
        assert "step_review" in looked(Policy(rules={"step_review": Rule(mode=mode)}), alone=True)
    for rules in ({}, {"goal_drift": Rule(enabled=False)}):
        assert "goal_drift" not in Core(Policy(rules=rules)).on_event(None, DRIFTING[0]).state.detectors


@pytest.mark.parametrize(
    ("status", "runs"),
    [("stable", True), ("test", True), ("experimental", False)],
    ids=["enforced", "that warns", "in shadow itself"],
)
def test_what_a_correlation_goes_by_is_looked_for(status: str, *, runs: bool) -> None:
    assert ("step_review" in looked(correlating(status), alone=True)) is runs


def test_what_was_measured_is_forgotten_when_no_rule_asks_any_more() -> None:
    """Steps that were not seen must not look new when a rule asks again."""
    idle = Policy(rules={name: Rule(enabled=False) for name in PATTERNS if name != "error_repetition"})
    state = steps_measured(None, Policy(), [bash(0, "ls", output_head="a b")])
    assert state.calls.novelty.steps == 1, "a rule asks for it"
    state = steps_measured(state, idle, [bash(1, "ls", output_head="a b")])
    assert state.calls.novelty.steps == 0
    assert steps_measured(state, Policy(), [bash(2, "ls", output_head="a b")]).calls.novelty.steps == 1


def steps_measured(state: SessionState | None, policy: Policy, events: Iterable[ActionEvent]) -> SessionState:
    core = Core(policy)
    for one in events:
        state = core.on_event(state, one).state
    assert state is not None
    return state
