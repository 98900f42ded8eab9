from collections.abc import Callable
from typing import Any

import pytest

from haltline.interventions.agent import Advice, Guard, Level, Refused
from haltline.interventions.agent.testing import ScriptedGuard, decision, killed
from haltline.schemas.control import ControlRecord, ControlState, Stage
from haltline.schemas.decisions import ApprovalState, ScopeKind
from haltline.schemas.events import Kind, Task
from tests.builders import cases, some
from tests.interventions.agent.attempts import KILLED, about_approval, attempt, attempts, of, refusal, stages

Tool = Callable[[str], str]
DONE = ["received", "applied", "stopped"]


def tools(guard: Guard) -> tuple[Tool, Tool, list[str]]:
    """A destructive tool, one that reads, and the log of what was really executed; a refusal returns its code."""
    executed: list[str] = []

    def code_or_result(verb: str, result: str) -> Tool:
        def execute(asset_id: str) -> str:
            executed.append(f"{verb} {asset_id}")
            return result

        def call(asset_id: str) -> str:
            try:
                return tool(asset_id)
            except Refused as refused:
                return refused.code

        tool = guard.tool(name=f"{verb}_asset", targets=("asset_id",))(execute)
        return call

    return code_or_result("delete", "asset still exists"), code_or_result("get", "here"), executed


def published(guard: ScriptedGuard) -> list[tuple[str, str | None]]:
    return [(event.kind.value, event.outcome and event.outcome.value) for event in guard.events]


def test_a_call_that_is_allowed_is_proposed_executed_and_completed() -> None:
    task = Task(goal="tidy, password=hunter22")
    with ScriptedGuard(session_id="s1", agent_id="cleaner", mission_id="m1", task=task) as guard:
        delete_asset, _, executed = tools(guard)
        assert delete_asset("fact_sales") == "asset still exists"
    assert executed == ["delete fact_sales"]
    kinds = [("session.started", None), ("action.proposed", None), ("action.completed", "ok"), ("session.ended", None)]
    assert published(guard) == kinds
    started, proposed, completed, _ = guard.events
    assert some(started.task).goal == "tidy, password=[redacted:password]"
    assert [event.seq for event in guard.events] == [0, 1, 2, 3]
    assert (proposed.session_id, proposed.agent_id, proposed.mission_id) == ("s1", "cleaner", "m1")
    assert (proposed.action, proposed.args) == ("delete_asset", {"asset_id": "fact_sales"})
    assert proposed.targets == ["asset_id=fact_sales"]
    assert (proposed.await_verdict, completed.await_verdict) == (True, False)
    assert (proposed.call_id, proposed.args_digest) == (completed.call_id, completed.args_digest)
    assert (completed.output_head, completed.output_bytes) == ("asset still exists", len("asset still exists"))
    assert completed.output_digest is not None
    assert completed.duration_ms is not None
    assert stages(guard) == []


def test_another_prompt_of_the_user_is_told_by_its_count_unless_it_says_nothing_new() -> None:
    with ScriptedGuard() as guard:
        for text in ("tidy up", "tidy up", "now the attic", "go on", "tidy up", "and the cellar"):
            guard.prompt(text)
            attempt(guard)
    assert [event.task.prompts for event in of(guard, Kind.SESSION_STARTED) if event.task] == [2, 3]
    assert "attic" not in "".join(event.model_dump_json() for event in guard.events)
    with pytest.raises(TypeError, match="prompt: expected a text, got list"):
        guard.prompt(["a"])  # type: ignore[arg-type]  # what a program without types may pass


@cases(
    "level, code, acknowledged",
    {
        "ALLOW goes on, and is not acknowledged": (Level.ALLOW, None, []),
        "NUDGE goes on": (Level.NUDGE, None, ["received", "applied"]),
        "REINFORCE goes on": (Level.REINFORCE, None, ["received", "applied"]),
        "THROTTLE goes on": (Level.THROTTLE, None, ["received", "applied"]),
        "PAUSE refuses this call": (Level.PAUSE, "pause", ["received", "applied", "refused"]),
        "BLOCK refuses this call": (Level.BLOCK, "block", ["received", "applied", "refused"]),
        "ROLLBACK refuses this call": (Level.ROLLBACK, "rollback", ["received", "applied", "refused"]),
        "KILL refuses this call, and those after it": (Level.KILL, KILLED, [*DONE, "refused", "refused"]),
    },
)
def test_each_level_does_to_the_call_what_it_says(level: Level, code: str | None, acknowledged: list[str]) -> None:
    guard = ScriptedGuard(lambda event: decision(level, event, message="for the model"))
    if code is None:
        assert attempt(guard) == "executed"
    else:
        refused = refusal(guard, "get_asset")
        assert (str(refused), refused.code, some(refused.decision).level) == ("for the model", code, level)
        assert some(refused.decision).reason not in str(refused)
    assert attempt(guard) == (KILLED if level is Level.KILL else "executed")
    assert (guard.killed, stages(guard)) == (level is Level.KILL, acknowledged)


def test_after_a_kill_every_call_is_refused_with_its_code_and_reported_and_none_is_proposed_or_executed() -> None:
    with ScriptedGuard(Level.ALLOW, Level.KILL) as guard:
        delete_asset, get_asset, executed = tools(guard)
        assert [call("a") for call in (delete_asset, delete_asset, delete_asset, get_asset)] == [
            "asset still exists",
            *[KILLED] * 3,
        ]
        with pytest.raises(Refused, match="haltline stopped this session"):
            guard.check()
    completed = ("action.completed", "refused")
    assert published(guard)[3:] == [("action.proposed", None), *[completed] * 3, ("session.ended", None)]
    proposal, first, second = guard.events[3:6]
    assert first.call_id == proposal.call_id != second.call_id
    assert (second.action, second.targets) == ("delete_asset", ["asset_id=a"])
    assert stages(guard) == [*DONE, *["refused"] * 3]
    assert {feedback.decision_id for feedback in guard.feedback} == {f"KILL-{proposal.event_id}"}
    assert {feedback.decided_at for feedback in guard.feedback} == {proposal.time}
    assert len({feedback.feedback_id for feedback in guard.feedback}) == 6
    assert delete_asset("a") == KILLED, "though it is closed"
    assert executed == ["delete a"]


def test_a_kill_while_a_call_runs_says_stopped_only_when_it_has_ended() -> None:
    guard = ScriptedGuard()
    with guard.action("export_asset"):
        guard.kill()
        assert stages(guard) == ["received", "applied"]
        assert guard.feedback[-1].detail == "still running: export_asset"
        with pytest.raises(Refused, match="haltline stopped this session"):
            guard.check()
    assert stages(guard) == DONE


@cases(
    "scope, matters, does_not",
    {
        "a session": (ScopeKind.SESSION, ["s1", "parent", "root", "between"], ["s2", "cleaner"]),
        "an agent": (ScopeKind.AGENT, ["cleaner"], ["other"]),
        "a mission": (ScopeKind.MISSION, ["m1"], ["m2"]),
        "the fleet": (ScopeKind.FLEET, ["*"], []),
        "a tool": (ScopeKind.TOOL, ["delete_asset"], ["drop_table"]),
        "a target": (ScopeKind.TARGET, ["asset_id=fact_sales"], ["asset_id=dim_date"]),
    },
)
def test_a_kill_stops_what_it_is_about(scope: ScopeKind, matters: list[str], does_not: list[str]) -> None:
    above = {"parent_session_id": "parent", "root_session_id": "root", "ancestors": ("between",), "mission_id": "m1"}
    for scope_id in (*matters, *does_not):
        standing = (killed(scope, scope_id),)
        guard = ScriptedGuard(session_id="s1", agent_id="cleaner", standing=standing, **above)  # type: ignore[arg-type]  # options
        delete_asset, _, executed = tools(guard)
        expected = "session_killed_by_operator" if scope_id in matters else "asset still exists"
        assert delete_asset("fact_sales") == expected
        assert len(executed) == (scope_id in does_not)


@pytest.mark.parametrize("scope", [(ScopeKind.SESSION, "s1"), (ScopeKind.AGENT, "cleaner"), (ScopeKind.FLEET, "*")])
def test_a_reset_does_not_revive_a_killed_guard_but_a_new_one_works(scope: tuple[ScopeKind, str]) -> None:
    guard = ScriptedGuard(session_id="s1", agent_id="cleaner")
    guard.kill(scope=scope[0], scope_id=scope[1])
    guard.reset(scope=scope[0], scope_id=scope[1])
    assert attempt(guard) == "session_killed_by_operator"
    assert attempt(ScriptedGuard(session_id="s1", agent_id="cleaner")) == "executed"


def test_while_it_is_read_anew_what_stood_holds_and_then_what_is_read_takes_its_place() -> None:
    guard = ScriptedGuard(fail_closed_from=None, start_budget_s=0.0)
    guard.kill(scope=ScopeKind.TOOL, scope_id="delete_asset", code="tool_killed_by_operator")
    guard.kill(scope=ScopeKind.TARGET, scope_id="asset_id=b", code="target_killed_by_operator")
    for _ in range(2):  # the broker may go away again before all is read
        guard.script.receiver.unloaded()
        assert not guard.ready
        assert attempt(guard, "delete_asset") == "tool_killed_by_operator"
        assert attempt(guard, "x", targets=["asset_id=b"]) == "target_killed_by_operator"
        assert attempt(guard) == "executed"
    guard.script.receiver.loaded()
    assert attempt(guard, "delete_asset") == "executed"


def test_a_kill_that_was_acknowledged_before_a_restart_is_not_again_except_by_a_session_below() -> None:
    stopped = {"stopped_at": 1_750_000_001_000}
    own, above = killed(ScopeKind.SESSION, "s1"), killed(ScopeKind.SESSION, "parent").model_copy(update=stopped)
    acknowledged = []
    for record in (own.model_copy(update=stopped), own, above):
        guard = ScriptedGuard(session_id="s1", parent_session_id="parent", standing=(record,))
        guard.start()
        acknowledged.append(stages(guard))
    assert "stopped" not in acknowledged[0]
    assert acknowledged[1:] == [DONE, DONE]


def test_each_kill_is_acknowledged_as_stopped_once_but_one_that_is_sent_again_is_answered_again() -> None:
    guard = ScriptedGuard(session_id="s1")
    guard.kill(scope=ScopeKind.FLEET, scope_id="*")
    of_the_session = decision(Level.KILL, guard.events[0], decision_id="kill-session-s1")
    for _ in range(2):
        guard.send(of_the_session)
        guard.kill(code=KILLED)
    guard.send(of_the_session.model_copy(update={"values": {"issued": 2}}))
    assert [(feedback.decision_id, feedback.stage.value) for feedback in guard.feedback] == [
        *[("kill-fleet-*", stage) for stage in DONE],
        *[("kill-session-s1", stage) for stage in (*DONE, "applied", "stopped")],
    ]


def test_a_kill_of_one_tool_in_a_decision_refuses_the_call_and_ends_no_session() -> None:
    guard = ScriptedGuard(lambda event: decision(Level.KILL, event, scope=ScopeKind.TOOL, code="tool_killed"))
    assert refusal(guard, "drop_table").code == "tool_killed"
    assert not guard.killed


def test_hints_reach_the_call_and_the_callback_which_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Advice] = []

    def on_advice(advice: Advice) -> None:
        received.append(advice)
        raise RuntimeError(advice.code)

    guard = ScriptedGuard(
        lambda event: decision(Level.NUDGE, event, message="look first"),
        lambda event: decision(Level.THROTTLE, event, limits={"max_tokens": 1000.0}),
        on_advice=on_advice,
    )
    with guard.action("get_asset") as nudged:
        assert [(advice.level, advice.message) for advice in nudged.advice] == [(Level.NUDGE, "look first")]
    with guard.action("get_asset") as throttled:
        assert throttled.advice[0].limits == {"max_tokens": 1000.0}
    assert [advice.level for advice in received] == [Level.NUDGE, Level.THROTTLE]
    assert "on_advice raised" in caplog.text


def asynchronous(**options: Any) -> tuple[ScriptedGuard, Tool, Tool, list[str]]:
    """A guard that waits for no verdict, with its tools, after a first delete of `a`."""
    guard = ScriptedGuard(*[None] * 8, session_id="s1", mode="async", ask_from=None, **options)
    delete_asset, get_asset, executed = tools(guard)
    delete_asset("a")
    return guard, delete_asset, get_asset, executed


def test_an_async_call_that_waits_for_a_person_is_refused_until_they_have_approved_it() -> None:
    guard, delete_asset, get_asset, executed = asynchronous()
    proposal = guard.events[1]
    guard.send(about_approval(proposal, ApprovalState.PENDING, Level.PAUSE, decision_id="p1"))
    assert get_asset("b") != "here", "an intervention takes effect at the next call"
    get_asset("b")
    for number in range(2):
        assert delete_asset("a") == "approval_pending"
        guard.send(about_approval(proposal, ApprovalState.PENDING, Level.PAUSE, decision_id=f"again-{number}"))
    get_asset("c")
    delete_asset("other")
    guard.send(about_approval(proposal, ApprovalState.APPROVED, Level.ALLOW, decision_id="p2"))
    delete_asset("a")
    assert executed == ["delete a", "get b", "get c", "delete other", "delete a"]


@pytest.mark.parametrize("state", [ApprovalState.REJECTED, ApprovalState.EXPIRED, ApprovalState.USED])
def test_an_answer_to_a_call_that_waits_no_longer_refuses_no_other(state: ApprovalState) -> None:
    guard, _, get_asset, _ = asynchronous()
    guard.send(about_approval(guard.events[1], state, Level.BLOCK))
    assert get_asset("b") == "here"


@pytest.mark.parametrize("level", [Level.THROTTLE, Level.BLOCK, Level.ROLLBACK])
def test_a_late_decision_is_not_lost_on_a_call_that_waits_for_approval(level: Level) -> None:
    guard, delete_asset, get_asset, executed = asynchronous()

    def heard() -> list[Stage]:
        return [f.stage for f in guard.feedback if f.decision_id == "late"]

    guard.send(about_approval(guard.events[1], ApprovalState.PENDING, Level.PAUSE, decision_id="p1"))
    guard.send(decision(level, guard.events[1], decision_id="late", limits={"batch_size": 4.0}))
    assert [delete_asset("a"), delete_asset("a")] == ["approval_pending"] * 2
    assert heard() == [Stage.RECEIVED]
    throttled = level is Level.THROTTLE
    assert get_asset("b") == ("here" if throttled else level.value.lower())
    assert guard.limits == ({"batch_size": 4.0} if throttled else {})
    assert Stage.APPLIED in heard()
    get_asset("c")
    assert executed == ["delete a", *(["get b"] if throttled else []), "get c"]


def stands_as(state: ControlState, scope: ScopeKind, scope_id: str, **fields: Any) -> ControlRecord:
    return killed(scope, scope_id).model_copy(update={"state": state, "code": f"{scope}_{state}", **fields})


@pytest.mark.parametrize("scope", [(ScopeKind.SESSION, "s1"), (ScopeKind.AGENT, "unknown"), (ScopeKind.FLEET, "*")])
@pytest.mark.parametrize("state", [ControlState.FROZEN, ControlState.CONTAINED])
def test_what_is_contained_may_only_look_and_what_is_frozen_nothing(
    scope: tuple[ScopeKind, str], state: ControlState
) -> None:
    guard = ScriptedGuard(session_id="s1", standing=(stands_as(state, *scope),))
    code = f"{scope[0]}_{state}"
    looks = "executed" if state is ControlState.CONTAINED else code
    names = ("get_asset", "delete_asset", "something_unknown")
    assert [attempt(guard, name) for name in names] == [looks, code, code]
    if state is ControlState.CONTAINED:
        guard.check()
    assert not guard.killed
    guard.reset(scope=scope[0], scope_id=scope[1])
    assert [attempt(guard, name) for name in names] == ["executed"] * 3


@pytest.mark.parametrize("state", [ControlState.KILLED, ControlState.FROZEN])
def test_a_session_that_was_released_from_its_agents_kill_goes_on(state: ControlState) -> None:
    entry = stands_as(state, ScopeKind.AGENT, "cleaner", spared=["s1"])
    spared, other = (ScriptedGuard(session_id=s, agent_id="cleaner", standing=(entry,)) for s in ("s1", "s2"))
    assert attempts(spared, 1) == ["executed"] != attempts(other, 1)


def test_when_decisions_come_too_late_the_guard_says_so_and_refuses_what_destroys() -> None:
    guard, delete_asset, get_asset, executed = asynchronous(max_decision_age_s=1.0)
    assert guard.degraded is None
    late = decision(Level.NUDGE, guard.events[1]).model_copy(update={"time": guard.events[1].time - 60_000})
    guard.send(late)
    assert guard.degraded == "decisions arrive too late: the workers are behind"
    assert (delete_asset("a"), get_asset("b")) == ("no_verdict", "here")
    assert executed == ["delete a", "get b"]
    guard.send(decision(Level.ALLOW, guard.events[1], decision_id="fresh"))
    assert guard.degraded is None
