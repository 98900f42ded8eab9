"""The scenarios that haltline is made for, with a restart of the worker in the middle of each."""

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path

from haltline.interventions.vocabularies import acgp, agent_sentinel, pipeline, tappass
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.engine.groups import Runs
from haltline.streams.policy.loader import load_policy
from tests.builders import at
from tests.streams.grouped import TOPICS, Log

POLICY = """
name: seeds
rules:
  budget: {settings: {limits: {cost_usd: 1.0}}}
interventions:
  vocabularies: [{agent: trader, vocabulary: acgp}]
  acgp:
    - agent: trader
      tripwires: [{id: huge, when: {tool: transfer}, condition: args.amount > 5000, on_fail: {decision: halt}}]
overrides: [{agent: coder, rules: {step_review: {mode: enforce}}}]
operations: {kill_ack_s: 3600}
"""


def steps(session: str, agent: str, *calls: Mapping[str, object]) -> list[ActionEvent]:
    """Each call proposed, awaiting its verdict, then completed as it says."""
    events: list[ActionEvent] = []
    for number, call in enumerate(calls):
        fields: dict[str, object] = {"session_id": session, "agent_id": agent, "call_id": f"c{number}"}
        actual = {name: call[name] for name in ("outcome", "error", "usage") if name in call}
        proposal = {name: value for name, value in call.items() if name not in actual}
        proposed = {"event_id": f"{session}/{number}", "kind": Kind.PROPOSED, "time": at(20 * number), **proposal}
        done = {"event_id": f"{session}/{number}/done", "kind": Kind.COMPLETED, "time": at(20 * number + 1)}
        events.append(ActionEvent.model_validate({**fields, **proposed, "await_verdict": True}))
        events.append(ActionEvent.model_validate({**fields, **done, "outcome": Outcome.OK, **actual}))
    return events


def failed(action: str, error: str, **args: str) -> Mapping[str, object]:
    return {"action": action, "args": args, "outcome": Outcome.ERROR, "error": error}


FAILS = failed("read_file", "FileNotFoundError: no such file: /srv/app/lib.py", path="/srv/app/lib.py")
DELETES = failed("delete_asset", "asset still exists", asset_id="fact_sales")
SCENARIOS = {
    # Repeated errors meet graduated interventions, from a hint to a stop.
    "graduated": steps("graduated", "coder", *[FAILS] * 12),
    # A step is reviewed before it is taken.
    "reviewed": steps(
        "reviewed", "coder", {"action": "read_file", "args": {"path": "a.py"}},
        {"action": "bash", "args": {"command": "sudo rm -rf /etc/ssl /var/lib/postgresql"}},
    ),
    # Governed by tripwires: what is too large is halted, and what is within is not.
    "governed": steps(
        "governed", "trader", *[{"action": "transfer", "args": {"amount": amount}} for amount in (10, 20, 9000, 10)]
    ),
    # A budget is used up.
    "budget": steps("budget", "buyer", *[{"action": f"look_up_{n}", "usage": {"cost_usd": 0.3}} for n in range(6)]),
    # The same table is deleted again and again.
    "looping": steps("looping", "cleaner", *[DELETES] * 4),
}  # fmt: skip


def by_the_core(policy: Path) -> dict[str, Decision]:
    """Every decision of every scenario, by the pure core without any restart."""
    core = Core(load_policy(policy))
    decisions = {}
    for events in SCENARIOS.values():
        state: SessionState | None = None
        for event in events:
            outcome = core.on_event(state, event)
            state = outcome.state
            if outcome.decision is not None:
                decisions[outcome.decision.event_id] = outcome.decision
    return decisions


def test_every_seed_s_scenario_is_decided_as_without_the_worker_s_death(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    side_by_side = [event for at_once in zip_longest(*SCENARIOS.values()) for event in at_once if event is not None]
    log = Log(load_policy(policy), Runs.ALL).run(side_by_side, restart_every=3)
    told = [Decision.model_validate(record) for record in log.of(TOPICS.interventions)]
    actual = {d.event_id: d for d in told if d.event_id.partition("/")[0] in SCENARIOS}
    assert {e: (d.decision_id, d.level, d.code) for e, d in actual.items()} == {
        e: (d.decision_id, d.level, d.code) for e, d in by_the_core(policy).items()
    }

    def levels(session: str) -> list[Level]:
        awaiting = [event.event_id for event in SCENARIOS[session] if event.await_verdict]
        return [actual[event_id].level for event_id in awaiting]

    hardest = {name: max(d.level for e, d in actual.items() if e.startswith(f"{name}/")) for name in SCENARIOS}
    assert hardest["graduated"] is Level.PAUSE
    assert {Level.NUDGE, Level.REINFORCE} <= {d.level for e, d in actual.items() if e.startswith("graduated/")}
    assert levels("reviewed")[0] is Level.ALLOW
    assert hardest["reviewed"] >= Level.BLOCK
    assert levels("governed") == [Level.ALLOW, Level.ALLOW, Level.KILL, Level.KILL]
    assert any(d.code == "budget_exceeded" for e, d in actual.items() if e.startswith("budget/"))
    assert levels("looping") == [Level.ALLOW, Level.NUDGE, Level.KILL, Level.KILL]
    killed = actual["looping/2"]
    assert killed.code == "session_killed_loop_guard"
    assert killed.reason == "loop_detected, 3 deletes on asset_id=fact_sales in 40s"
    assert all(in_words.render(killed) for in_words in (pipeline, acgp, agent_sentinel, tappass))
