"""What a guard does with what it is told; over the shipped scripted guard, without a broker."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from haltline.interventions.agent import Advice, Guard, Level, Refused
from haltline.interventions.agent.testing import ScriptedGuard, decision, killed
from haltline.schemas.control import ControlRecord, ControlState, Stage
from haltline.schemas.decisions import ApprovalState, ScopeKind
from haltline.schemas.events import Kind
from tests.builders import about_approval

Tool = Callable[[str], str]


def tools(guard: Guard) -> tuple[Tool, Tool, list[str]]:
    """A destructive tool, one that reads, and the log of what was really executed."""
    executed: list[str] = []

    @guard.tool(targets=("asset_id",))
    def delete_asset(asset_id: str) -> str:
        executed.append(f"delete {asset_id}")
        return "asset still exists"

    @guard.tool
    def get_asset(asset_id: str) -> str:
        executed.append(f"get {asset_id}")
        return "here"

    return delete_asset, get_asset, executed


def published(guard: ScriptedGuard) -> list[tuple[str, str | None]]:
    return [(event.kind.value, event.outcome and event.outcome.value) for event in guard.events]


def stages(guard: ScriptedGuard) -> list[str]:
    return [feedback.stage.value for feedback in guard.feedback]


def test_a_call_that_is_allowed_is_proposed_executed_and_completed() -> None:
    with ScriptedGuard(session_id="s1", agent_id="cleaner", mission_id="m1") as guard:
        delete_asset, _, executed = tools(guard)
        assert delete_asset("fact_sales") == "asset still exists"
    assert executed == ["delete fact_sales"]
    assert published(guard) == [
        ("session.started", None),
        ("action.proposed", None),
        ("action.completed", "ok"),
        ("session.ended", None),
    ]
    _, proposed, completed, _ = guard.events
    assert [event.seq for event in guard.events] == [0, 1, 2, 3]
    assert (proposed.session_id, proposed.agent_id, proposed.mission_id) == ("s1", "cleaner", "m1")
    assert (proposed.action, proposed.args, proposed.targets) == (
        "delete_asset",
        {"asset_id": "fact_sales"},
        ["asset_id=fact_sales"],
    )
    assert proposed.await_verdict
    assert not completed.await_verdict
    assert proposed.call_id == completed.call_id
    assert proposed.args_digest == completed.args_digest
    assert completed.output_head == "asset still exists"
    assert completed.output_bytes == len("asset still exists")
    assert completed.output_digest is not None
    assert completed.duration_ms is not None
    assert stages(guard) == []


@pytest.mark.parametrize(
    ("level", "executes", "code"),
    [
        pytest.param(Level.ALLOW, True, None, id="ALLOW goes on"),
        pytest.param(Level.NUDGE, True, None, id="NUDGE goes on"),
        pytest.param(Level.REINFORCE, True, None, id="REINFORCE goes on"),
        pytest.param(Level.THROTTLE, True, None, id="THROTTLE goes on"),
        pytest.param(Level.PAUSE, False, "pause", id="PAUSE refuses this call"),
        pytest.param(Level.BLOCK, False, "block", id="BLOCK refuses this call"),
        pytest.param(Level.ROLLBACK, False, "rollback", id="ROLLBACK refuses this call"),
        pytest.param(Level.KILL, False, "session_killed_loop_guard", id="KILL refuses this call"),
    ],
)
def test_each_level_does_to_the_call_what_it_says(level: Level, executes: bool, code: str | None) -> None:
    guard = ScriptedGuard(lambda event: decision(level, event, message="for the model"))
    _, get_asset, executed = tools(guard)
    refused = None
    try:
        get_asset("a")
    except Refused as refusal:
        refused = refusal
    assert executed == (["get a"] if executes else [])
    assert (refused.code if refused else None) == code
    if refused is not None:
        assert str(refused) == f"{code}: for the model"
        assert refused.decision is not None
        assert refused.decision.level is level
        assert refused.decision.reason not in str(refused)


@pytest.mark.parametrize("level", [Level.PAUSE, Level.BLOCK, Level.ROLLBACK])
def test_after_a_refusal_below_a_kill_the_next_call_goes_on(level: Level) -> None:
    guard = ScriptedGuard(level, Level.ALLOW)
    _, get_asset, executed = tools(guard)
    with pytest.raises(Refused):
        get_asset("a")
    assert get_asset("b") == "here"
    assert executed == ["get b"]
    assert not guard.killed


def test_after_a_kill_every_call_is_refused_with_its_code_and_none_is_executed() -> None:
    guard = ScriptedGuard(Level.ALLOW, Level.ALLOW, Level.KILL)
    delete_asset, get_asset, executed = tools(guard)
    codes = []
    for call in (delete_asset, delete_asset, delete_asset, delete_asset, get_asset):
        try:
            call("fact_sales")
        except Refused as refused:
            codes.append(refused.code)
    assert codes == ["session_killed_loop_guard"] * 3
    assert executed == ["delete fact_sales", "delete fact_sales"]
    assert guard.killed
    with pytest.raises(Refused, match="session_killed_loop_guard"):
        guard.check()


def test_what_was_refused_is_reported_as_refused_and_a_killed_session_proposes_nothing_more() -> None:
    guard = ScriptedGuard(Level.KILL)
    delete_asset, _, _ = tools(guard)
    for _ in range(2):
        with pytest.raises(Refused):
            delete_asset("a")
    assert published(guard) == [
        ("session.started", None),
        ("action.proposed", None),
        ("action.completed", "refused"),
        ("action.completed", "refused"),
    ]
    first, second = (event for event in guard.events if event.kind is Kind.COMPLETED)
    assert first.call_id == guard.events[1].call_id
    assert second.call_id != first.call_id
    assert (second.action, second.targets) == ("delete_asset", ["asset_id=a"])


def test_the_kill_is_acknowledged_stage_by_stage() -> None:
    guard = ScriptedGuard(Level.KILL)
    delete_asset, _, _ = tools(guard)
    for _ in range(2):
        with pytest.raises(Refused):
            delete_asset("a")
    assert stages(guard) == ["received", "applied", "stopped", "refused", "refused"]
    proposal = guard.events[1]
    assert {feedback.decision_id for feedback in guard.feedback} == {f"KILL-{proposal.event_id}"}
    assert {feedback.decided_at for feedback in guard.feedback} == {proposal.time}
    assert len({feedback.feedback_id for feedback in guard.feedback}) == 5


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(Level.ALLOW, [], id="a plain verdict asks for nothing and is not acknowledged"),
        pytest.param(Level.NUDGE, ["received", "applied"], id="a hint is received and applied"),
        pytest.param(Level.BLOCK, ["received", "applied", "refused"], id="a block is received, applied, and refuses"),
    ],
)
def test_a_verdict_is_acknowledged(level: Level, expected: list[str]) -> None:
    guard = ScriptedGuard(level)
    _, get_asset, _ = tools(guard)
    with suppress(Refused):
        get_asset("a")
    assert stages(guard) == expected


def test_a_kill_while_a_call_runs_says_stopped_only_when_it_has_ended() -> None:
    guard = ScriptedGuard()
    with guard.action("export_asset"):
        guard.kill()
        assert stages(guard) == ["received", "applied"]
        assert guard.feedback[-1].detail == "still running: export_asset"
        with pytest.raises(Refused, match="session_killed_by_operator"):
            guard.check()
    assert stages(guard) == ["received", "applied", "stopped"]


@pytest.mark.parametrize(
    ("record", "refused"),
    [
        pytest.param(killed(ScopeKind.SESSION, "s1"), True, id="its own session"),
        pytest.param(killed(ScopeKind.SESSION, "parent"), True, id="its parent session"),
        pytest.param(killed(ScopeKind.SESSION, "root"), True, id="its root session"),
        pytest.param(killed(ScopeKind.SESSION, "between"), True, id="another session above it"),
        pytest.param(killed(ScopeKind.AGENT, "cleaner"), True, id="its agent"),
        pytest.param(killed(ScopeKind.MISSION, "m1"), True, id="its mission"),
        pytest.param(killed(ScopeKind.FLEET, "*"), True, id="the fleet"),
        pytest.param(killed(ScopeKind.TOOL, "delete_asset"), True, id="the tool"),
        pytest.param(killed(ScopeKind.TARGET, "asset_id=fact_sales"), True, id="the target"),
        pytest.param(killed(ScopeKind.SESSION, "s2"), False, id="another session does not matter"),
        pytest.param(killed(ScopeKind.SESSION, "cleaner"), False, id="a session named like the agent does not matter"),
        pytest.param(killed(ScopeKind.AGENT, "other"), False, id="another agent does not matter"),
        pytest.param(killed(ScopeKind.MISSION, "m2"), False, id="another mission does not matter"),
        pytest.param(killed(ScopeKind.TOOL, "drop_table"), False, id="another tool does not matter"),
        pytest.param(killed(ScopeKind.TARGET, "asset_id=dim_date"), False, id="another target does not matter"),
    ],
)
def test_a_kill_stops_what_it_is_about(record: ControlRecord, refused: bool) -> None:
    guard = ScriptedGuard(
        session_id="s1",
        agent_id="cleaner",
        parent_session_id="parent",
        root_session_id="root",
        ancestors=("between",),
        mission_id="m1",
        standing=(record,),
    )
    delete_asset, _, executed = tools(guard)
    with pytest.raises(Refused, match="session_killed_by_operator") if refused else nullcontext():
        delete_asset("fact_sales")
    assert executed == ([] if refused else ["delete fact_sales"])


@pytest.mark.parametrize(
    ("scope", "scope_id"),
    [(ScopeKind.SESSION, "s1"), (ScopeKind.AGENT, "cleaner"), (ScopeKind.FLEET, "*")],
    ids=["of the session", "of the agent", "of the fleet"],
)
def test_a_reset_does_not_revive_a_killed_guard_but_a_new_one_works(scope: ScopeKind, scope_id: str) -> None:
    guard = ScriptedGuard(session_id="s1", agent_id="cleaner")
    _, get_asset, _ = tools(guard)
    guard.kill(scope=scope, scope_id=scope_id)
    guard.reset(scope=scope, scope_id=scope_id)
    with pytest.raises(Refused, match="session_killed_by_operator"):
        get_asset("a")
    _, get_again, _ = tools(ScriptedGuard(session_id="s1", agent_id="cleaner"))
    assert get_again("a") == "here"


def test_a_killed_tool_is_released_by_a_reset() -> None:
    guard = ScriptedGuard()
    delete_asset, get_asset, _ = tools(guard)
    guard.kill(scope=ScopeKind.TOOL, scope_id="delete_asset", code="tool_killed_by_operator")
    with pytest.raises(Refused, match="tool_killed_by_operator"):
        delete_asset("a")
    assert get_asset("a") == "here"
    assert not guard.killed
    guard.reset(scope=ScopeKind.TOOL, scope_id="delete_asset")
    assert delete_asset("a") == "asset still exists"


def test_what_is_read_anew_takes_the_place_of_what_was_read_before() -> None:
    guard = ScriptedGuard(fail_closed_from=None)
    guard.kill(scope=ScopeKind.TOOL, scope_id="delete_asset")
    guard.script.receiver.unloaded()
    assert not guard.ready
    guard.script.receiver.loaded()
    delete_asset, _, _ = tools(guard)
    assert delete_asset("a") == "asset still exists"


def test_while_it_is_read_anew_what_stood_holds() -> None:
    guard = ScriptedGuard(fail_closed_from=None, start_budget_s=0.0)
    guard.kill(scope=ScopeKind.TOOL, scope_id="delete_asset", code="tool_killed_by_operator")
    guard.kill(scope=ScopeKind.TARGET, scope_id="asset_id=b", code="target_killed_by_operator")
    delete_asset, get_asset, _ = tools(guard)
    for _ in range(2):  # the broker may go away again before all is read
        guard.script.receiver.unloaded()
        with pytest.raises(Refused, match="tool_killed_by_operator"):
            delete_asset("a")
        with pytest.raises(Refused, match="target_killed_by_operator"), guard.action("x", targets=["asset_id=b"]):
            raise AssertionError("it was not refused")
        assert get_asset("a") == "here"
    guard.script.receiver.loaded()
    assert delete_asset("a") == "asset still exists"


def test_a_frozen_session_is_refused_until_it_is_thawed() -> None:
    frozen = killed(ScopeKind.SESSION, "s1", code="frozen_by_operator").model_copy(
        update={"state": ControlState.FROZEN}
    )
    guard = ScriptedGuard(session_id="s1", standing=(frozen,))
    _, get_asset, _ = tools(guard)
    with pytest.raises(Refused, match="frozen_by_operator"):
        get_asset("a")
    assert not guard.killed
    guard.reset()
    assert get_asset("a") == "here"


def test_a_kill_that_was_acknowledged_before_a_restart_is_not_acknowledged_as_stopped_again() -> None:
    stopped = killed(ScopeKind.SESSION, "s1").model_copy(update={"stopped_at": 1_750_000_001_000})
    again, first = (
        ScriptedGuard(session_id="s1", standing=(record,)) for record in (stopped, killed(ScopeKind.SESSION, "s1"))
    )
    again.start()
    first.start()
    assert "stopped" not in stages(again)
    assert stages(first)[-1] == "stopped"


def test_a_session_below_one_that_has_stopped_says_for_itself_that_it_stops() -> None:
    stopped = killed(ScopeKind.SESSION, "parent").model_copy(update={"stopped_at": 1_750_000_001_000})
    child = ScriptedGuard(session_id="s1", parent_session_id="parent", standing=(stopped,))
    child.start()
    assert stages(child) == ["received", "applied", "stopped"]


def test_each_kill_is_acknowledged_as_stopped_once() -> None:
    guard = ScriptedGuard(session_id="s1")
    guard.kill(scope=ScopeKind.FLEET, scope_id="*")
    event = guard.events[0]
    of_the_session = decision(Level.KILL, event, decision_id="kill-session-s1")
    for _ in range(2):
        guard.send(of_the_session)
        guard.kill(code="session_killed_loop_guard")
    published = [(feedback.decision_id, feedback.stage.value) for feedback in guard.feedback]
    assert published == [
        *[("kill-fleet-*", stage) for stage in ("received", "applied", "stopped")],
        *[("kill-session-s1", stage) for stage in ("received", "applied", "stopped")],
    ]


def test_a_kill_of_one_tool_in_a_decision_refuses_the_call_and_ends_no_session() -> None:
    guard = ScriptedGuard(lambda event: decision(Level.KILL, event, scope=ScopeKind.TOOL, code="tool_killed"))
    with pytest.raises(Refused, match="tool_killed: This is not allowed now"), guard.action("drop_table"):
        pytest.fail("it was executed")
    assert not guard.killed


def test_hints_reach_the_call_and_the_callback() -> None:
    received: list[Advice] = []
    guard = ScriptedGuard(
        lambda event: decision(Level.NUDGE, event, message="look first"),
        lambda event: decision(Level.THROTTLE, event, limits={"max_tokens": 1000.0}),
        on_advice=received.append,
    )
    with guard.action("get_asset") as nudged:
        assert [(advice.level, advice.message) for advice in nudged.advice] == [(Level.NUDGE, "look first")]
    with guard.action("get_asset") as throttled:
        assert throttled.advice[0].limits == {"max_tokens": 1000.0}
    assert [advice.level for advice in received] == [Level.NUDGE, Level.THROTTLE]


def test_a_callback_that_raises_does_not_break_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    def raises(advice: Advice) -> None:
        raise RuntimeError(advice.code)

    guard = ScriptedGuard(Level.NUDGE, on_advice=raises)
    _, get_asset, _ = tools(guard)
    assert get_asset("a") == "here"
    assert "on_advice raised" in caplog.text


def test_a_guard_that_was_killed_stays_killed_after_it_was_closed() -> None:
    with ScriptedGuard(Level.KILL) as guard:
        delete_asset, _, executed = tools(guard)
        with pytest.raises(Refused):
            delete_asset("a")
    with pytest.raises(Refused, match="session_killed_loop_guard"):
        delete_asset("a")
    assert executed == []
    assert Stage.STOPPED in [feedback.stage for feedback in guard.feedback]


def test_a_kill_that_is_sent_again_is_answered_again() -> None:
    guard = ScriptedGuard(session_id="s1")
    guard.start()
    kill = decision(Level.KILL, guard.events[0], decision_id="k")
    guard.send(kill)
    guard.send(kill.model_copy(update={"values": {"issued": 2}}))
    assert [f.stage.value for f in guard.feedback] == ["received", "applied", "stopped", "applied", "stopped"]


def test_without_waiting_a_call_that_needs_approval_is_refused_at_once() -> None:
    guard = ScriptedGuard(
        lambda event: about_approval(event, ApprovalState.PENDING, Level.PAUSE), session_id="s1", approval_wait_s=0
    )
    delete_asset, _, executed = tools(guard)
    with pytest.raises(Refused) as refused:
        delete_asset("a")
    assert (refused.value.code, executed) == ("approval_pending", [])


def test_an_async_call_that_waits_for_a_person_is_refused_until_they_have_approved_it() -> None:
    guard = ScriptedGuard(session_id="s1", mode="async", ask_from=None)
    delete_asset, get_asset, executed = tools(guard)
    delete_asset("a")
    proposal = guard.events[1]
    guard.send(about_approval(proposal, ApprovalState.PENDING, Level.PAUSE, decision_id="p1"))
    with pytest.raises(Refused):
        get_asset("b")  # an intervention takes effect at the next call
    get_asset("b")
    for number in range(2):
        with pytest.raises(Refused) as refused:
            delete_asset("a")
        assert refused.value.code == "approval_pending"
        guard.send(about_approval(proposal, ApprovalState.PENDING, Level.PAUSE, decision_id=f"again-{number}"))
    get_asset("c")
    delete_asset("other")
    guard.send(about_approval(proposal, ApprovalState.APPROVED, Level.ALLOW, decision_id="p2"))
    delete_asset("a")
    assert executed == ["delete a", "get b", "get c", "delete other", "delete a"]


@pytest.mark.parametrize("state", [ApprovalState.REJECTED, ApprovalState.EXPIRED, ApprovalState.USED])
def test_an_answer_to_a_call_that_waits_no_longer_refuses_no_other(state: ApprovalState) -> None:
    guard = ScriptedGuard(session_id="s1", mode="async", ask_from=None)
    delete_asset, get_asset, executed = tools(guard)
    delete_asset("a")
    guard.send(about_approval(guard.events[1], state, Level.BLOCK))
    get_asset("b")
    assert executed == ["delete a", "get b"]


def stands_as(state: ControlState, scope: ScopeKind, scope_id: str, **fields: Any) -> ControlRecord:
    return killed(scope, scope_id).model_copy(update={"state": state, "code": f"{scope}_{state}", **fields})


@pytest.mark.parametrize("scope", [(ScopeKind.SESSION, "s1"), (ScopeKind.AGENT, "unknown"), (ScopeKind.FLEET, "*")])
def test_what_is_contained_may_look_and_touch_nothing(scope: tuple[ScopeKind, str]) -> None:
    entry = stands_as(ControlState.CONTAINED, *scope)
    guard = ScriptedGuard(session_id="s1", standing=(entry,))
    delete_asset, get_asset, executed = tools(guard)
    get_asset("a")
    with pytest.raises(Refused) as refused:
        delete_asset("a")
    with pytest.raises(Refused), guard.action("something_unknown"):
        pass
    guard.check()
    assert (refused.value.code, executed) == (f"{scope[0]}_contained", ["get a"])
    guard.reset(scope=scope[0], scope_id=scope[1])
    delete_asset("a")
    assert executed[-1] == "delete a"


@pytest.mark.parametrize("state", [ControlState.KILLED, ControlState.FROZEN])
def test_a_session_that_was_released_from_its_agents_kill_goes_on(state: ControlState) -> None:
    entry = stands_as(state, ScopeKind.AGENT, "cleaner", spared=["s1"])
    spared, other = (ScriptedGuard(session_id=s, agent_id="cleaner", standing=(entry,)) for s in ("s1", "s2"))
    delete_asset, _, executed = tools(spared)
    delete_asset("a")
    assert executed == ["delete a"]
    with pytest.raises(Refused):
        tools(other)[0]("a")


def test_when_decisions_come_too_late_the_guard_says_so_and_refuses_what_destroys() -> None:
    guard = ScriptedGuard(*[None] * 8, session_id="s1", mode="async", ask_from=None, max_decision_age_s=1.0)
    delete_asset, get_asset, executed = tools(guard)
    delete_asset("a")
    assert guard.degraded is None
    late = decision(Level.NUDGE, guard.events[1]).model_copy(update={"time": guard.events[1].time - 60_000})
    guard.send(late)
    assert guard.degraded == "decisions come too late: the workers are behind"
    with pytest.raises(Refused) as refused:
        delete_asset("a")
    get_asset("b")
    assert (refused.value.code, executed) == ("no_verdict", ["delete a", "get b"])
    guard.send(decision(Level.ALLOW, guard.events[1], decision_id="fresh"))
    assert guard.degraded is None


@pytest.mark.parametrize("level", [Level.THROTTLE, Level.BLOCK, Level.ROLLBACK])
def test_a_late_decision_is_not_lost_on_a_call_that_waits_for_approval(level: Level) -> None:
    guard = ScriptedGuard(session_id="s1", mode="async", ask_from=None)
    delete_asset, get_asset, executed = tools(guard)
    delete_asset("a")
    guard.send(about_approval(guard.events[1], ApprovalState.PENDING, Level.PAUSE, decision_id="p1"))
    guard.send(decision(level, guard.events[1], decision_id="late", limits={"batch_size": 4.0}))
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            delete_asset("a")
        assert refused.value.code == "approval_pending"
    assert [f.stage for f in guard.feedback if f.decision_id == "late"] == [Stage.RECEIVED]
    if level is Level.THROTTLE:
        get_asset("b")
        assert guard.limits == {"batch_size": 4.0}
    else:
        with pytest.raises(Refused, match=level.value.lower()):
            get_asset("b")
    assert Stage.APPLIED in [f.stage for f in guard.feedback if f.decision_id == "late"]
    get_asset("c")
    assert executed == ["delete a", *(["get b"] if level is Level.THROTTLE else []), "get c"]


def test_what_a_function_of_the_author_does_to_what_it_is_given_changes_no_call() -> None:
    def named(args: Any) -> list[str]:
        return [f"path={args.pop('path')}"]

    with ScriptedGuard() as guard:

        @guard.tool(targets=named)
        def remove(path: str) -> str:
            return f"removed {path}"

        assert remove(path="/srv/a") == "removed /srv/a"
