"""What happens when no verdict can be had, or when it comes too late."""

import threading
import time
from contextlib import nullcontext

import pytest

from haltline.interventions.agent import Effect, Level, Refused
from haltline.interventions.agent.testing import ScriptedGuard, decision
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Kind, Outcome


@pytest.mark.parametrize(
    ("action", "effect", "closed_from", "executes"),
    [
        pytest.param("delete_asset", None, Effect.DESTRUCTIVE, False, id="closed for a destructive name"),
        pytest.param("mcp__db__drop_table", None, Effect.DESTRUCTIVE, False, id="closed for one behind a prefix"),
        pytest.param("tidy", "destructive", Effect.DESTRUCTIVE, False, id="closed for a declared destructive effect"),
        pytest.param("delete_asset", "read", Effect.DESTRUCTIVE, False, id="a hint does not lower what the name says"),
        pytest.param("get_asset", None, Effect.DESTRUCTIVE, True, id="open for a read"),
        pytest.param("frobnicate", None, Effect.DESTRUCTIVE, True, id="open for a name that tells nothing"),
        pytest.param("tidy", "mutate", Effect.DESTRUCTIVE, True, id="open below the setting"),
        pytest.param("tidy", "mutate", Effect.MUTATE, False, id="closed from the setting on"),
        pytest.param("frobnicate", None, Effect.EXEC, False, id="closed for the unknown where the setting says so"),
        pytest.param("get_asset", None, Effect.READ, False, id="closed for reads where the setting says so"),
        pytest.param("delete_asset", None, None, True, id="open for all where the setting says so"),
    ],
)
def test_without_a_verdict_it_is(action: str, effect: str | None, closed_from: Effect | None, executes: bool) -> None:
    guard = ScriptedGuard(None, fail_closed_from=closed_from)
    executed = False
    refused = nullcontext() if executes else pytest.raises(Refused, match="no_verdict")
    with refused, guard.action(action, effect=effect):
        executed = True
    assert executed is executes
    assert guard.events[-1].outcome is (Outcome.OK if executes else Outcome.REFUSED)


def test_a_refusal_without_a_verdict_says_so_and_is_about_this_call_only() -> None:
    guard = ScriptedGuard(None, Level.ALLOW)
    with pytest.raises(Refused) as refused, guard.action("delete_asset"):
        pytest.fail("it was executed")
    assert (refused.value.code, refused.value.decision) == ("no_verdict", None)
    assert guard.feedback == []
    assert not guard.killed
    with guard.action("delete_asset") as act:
        assert act.advice == ()


@pytest.mark.parametrize("level", [Level.ALLOW, Level.NUDGE, Level.BLOCK])
def test_a_stale_verdict_counts_as_none(level: Level) -> None:
    def stale(event: ActionEvent) -> Decision:
        return decision(level, event, time=event.time - 31_000)

    guard = ScriptedGuard(stale, stale, max_decision_age_s=30.0)
    with pytest.raises(Refused, match="no_verdict"), guard.action("delete_asset"):
        pytest.fail("it was executed")
    with guard.action("get_asset") as act:
        assert act.advice == ()


def test_a_stale_kill_is_still_a_kill() -> None:
    guard = ScriptedGuard(lambda event: decision(Level.KILL, event, time=event.time - 3_600_000))
    with pytest.raises(Refused, match="session_killed_loop_guard"), guard.action("get_asset"):
        pytest.fail("it was executed")
    assert guard.killed


def test_an_expired_decision_counts_as_none() -> None:
    guard = ScriptedGuard(lambda event: decision(Level.NUDGE, event, expires=event.time - 1))
    with guard.action("get_asset") as act:
        assert act.advice == ()


def test_a_silent_worker_costs_a_read_one_budget_and_not_one_each() -> None:
    guard = ScriptedGuard(*[None] * 100, budget_s=1.0)
    started_s = time.monotonic()
    for _ in range(100):
        with guard.action("get_asset"):
            pass
    assert time.monotonic() - started_s < 50  # one budget is 1 s, all would be 100 s
    assert [event.await_verdict for event in guard.events if event.kind is Kind.PROPOSED] == [True] * 100


def test_a_worker_that_answers_again_is_waited_for_again() -> None:
    def a_moment_later(event: ActionEvent) -> None:
        threading.Timer(0.3, lambda: guard.send(decision(Level.BLOCK, event))).start()

    guard = ScriptedGuard(None, Level.ALLOW, a_moment_later, budget_s=0.1)
    with guard.action("get_asset"):
        pass
    guard._gate.settings = guard.settings.changed(budget_s=60)
    with guard.action("delete_asset"):
        pass
    with pytest.raises(Refused, match="block"), guard.action("get_asset"):
        pytest.fail("it was executed")


def test_a_kill_that_is_the_verdict_ends_the_wait_at_once() -> None:
    guard = ScriptedGuard(Level.KILL, budget_s=600.0)
    actual: list[str] = []

    def call() -> None:
        with pytest.raises(Refused, match="session_killed_loop_guard"), guard.action("get_asset"):
            actual.append("executed")
        actual.append("refused")

    waiting = threading.Thread(target=call, daemon=True)
    waiting.start()
    waiting.join(timeout=60)
    assert actual == ["refused"]


def earlier(guard: ScriptedGuard, level: Level, *, age_ms: int = 0) -> Decision:
    """A decision on something that went on already."""
    guard.start()
    event = guard.events[0]
    return decision(level, event, event_id=f"e-{level}", time=event.time - age_ms, message="for the model")


@pytest.mark.parametrize("mode", ["async", "blocking"])
def test_a_hint_that_nobody_waits_for_is_given_at_the_next_action(mode: str) -> None:
    guard = ScriptedGuard(mode=mode)  # type: ignore[arg-type]  # one of the two
    guard.send(earlier(guard, Level.NUDGE))
    guard.send(earlier(guard, Level.REINFORCE))
    with guard.action("get_asset") as first:
        assert [advice.level for advice in first.advice] == [Level.NUDGE, Level.REINFORCE]
    with guard.action("get_asset") as second:
        assert second.advice == ()
    assert [feedback.stage.value for feedback in guard.feedback] == ["received", "received", "applied", "applied"]


@pytest.mark.parametrize("level", [Level.PAUSE, Level.BLOCK, Level.ROLLBACK])
def test_a_refusal_that_nobody_waits_for_refuses_the_next_action_and_only_that(level: Level) -> None:
    guard = ScriptedGuard(mode="async")
    guard.send(earlier(guard, level))
    with pytest.raises(Refused, match="for the model"), guard.action("get_asset"):
        pytest.fail("it was executed")
    with guard.action("get_asset"):
        pass


def test_a_kill_that_nobody_waits_for_refuses_everything_from_the_next_action_on() -> None:
    guard = ScriptedGuard(mode="async")
    guard.send(earlier(guard, Level.KILL))
    for _ in range(2):
        with pytest.raises(Refused, match="session_killed_loop_guard"), guard.action("get_asset"):
            pytest.fail("it was executed")


def test_a_stale_hint_is_not_given_but_acknowledged_as_stale() -> None:
    guard = ScriptedGuard(mode="async")
    guard.send(earlier(guard, Level.BLOCK, age_ms=31_000))
    with guard.action("get_asset") as act:
        assert act.advice == ()
    assert [(f.stage.value, f.detail) for f in guard.feedback] == [("received", "stale: not applied")]


def test_a_decision_that_arrives_twice_takes_effect_once() -> None:
    guard = ScriptedGuard(mode="async")
    guard.send(earlier(guard, Level.BLOCK))
    guard.send(earlier(guard, Level.BLOCK))
    with pytest.raises(Refused), guard.action("get_asset"):
        pytest.fail("it was executed")
    with guard.action("get_asset"):
        pass
    assert [feedback.stage.value for feedback in guard.feedback] == ["received", "applied", "refused"]


def test_a_verdict_that_comes_too_late_takes_effect_at_the_next_action() -> None:
    guard = ScriptedGuard(None, Level.ALLOW)
    with guard.action("get_asset"):
        pass
    proposal = next(event for event in guard.events if event.kind is Kind.PROPOSED)
    guard.send(decision(Level.BLOCK, proposal))
    with pytest.raises(Refused, match="block"), guard.action("get_asset"):
        pytest.fail("it was executed")


def test_the_verdict_on_a_call_refuses_it_before_a_late_one_and_is_as_hard() -> None:
    guard = ScriptedGuard(Level.ALLOW, Level.BLOCK)
    with guard.action("get_asset"):
        pass
    first = next(event for event in guard.events if event.kind is Kind.PROPOSED)
    guard.send(decision(Level.BLOCK, first, decision_id="late"))  # a worker that has taken over decides once more
    with pytest.raises(Refused) as refused, guard.action("get_asset"):
        pytest.fail("it was executed")
    assert refused.value.decision is not None
    assert refused.value.decision.decision_id != "late"


def test_a_late_refusal_of_what_was_refused_already_does_nothing_more() -> None:
    guard = ScriptedGuard(None, Level.ALLOW)
    with pytest.raises(Refused, match="no_verdict"), guard.action("delete_asset"):
        pytest.fail("it was executed")
    proposal = next(event for event in guard.events if event.kind is Kind.PROPOSED)
    guard.send(decision(Level.BLOCK, proposal))
    with guard.action("get_asset") as act:
        assert act.advice == ()


def test_a_mode_of_one_call_is_not_waited_for() -> None:
    guard = ScriptedGuard(None, budget_s=60.0)
    with guard.action("delete_asset", mode="async"):
        pass
    assert not guard.events[1].await_verdict


def test_without_a_link_an_asynchronous_destructive_call_is_refused_and_a_read_goes_on() -> None:
    guard = ScriptedGuard(mode="async")
    guard.script.up = False
    with pytest.raises(Refused, match="no_verdict"), guard.action("delete_asset"):
        pytest.fail("it was executed")
    with guard.action("get_asset"):
        pass
