import threading
from collections.abc import Sequence
from typing import Any

import pytest

from haltline.interventions.agent import Effect, Level
from haltline.interventions.agent.call import Call
from haltline.interventions.agent.enforcement.enforcer import Enforcer
from haltline.interventions.agent.testing import ScriptedGuard, decision, killed
from haltline.schemas.control import HALTLINE, ControlState
from haltline.schemas.decisions import WHOLE_SESSION, ApprovalState, Decision, ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from tests.builders import cases, some
from tests.interventions.agent.attempts import KILLED, about_approval, attempt, attempts, of, refusal, stages


@cases(
    "action, effect, closed_from, executes",
    {
        "closed for a destructive name": ("delete_asset", None, Effect.DESTRUCTIVE, False),
        "closed for one behind a prefix": ("mcp__db__drop_table", None, Effect.DESTRUCTIVE, False),
        "closed for a declared destructive effect": ("tidy", "destructive", Effect.DESTRUCTIVE, False),
        "a hint does not lower what the name says": ("delete_asset", "read", Effect.DESTRUCTIVE, False),
        "open for a name that tells nothing": ("frobnicate", None, Effect.DESTRUCTIVE, True),
        "closed from the setting on": ("tidy", "mutate", Effect.MUTATE, False),
        "closed for reads where the setting says so": ("get_asset", None, Effect.READ, False),
    },
)
def test_without_a_verdict_it_is(action: str, effect: str | None, closed_from: Effect | None, executes: bool) -> None:
    guard = ScriptedGuard(None, fail_closed_from=closed_from)
    assert attempt(guard, action, effect=effect) == ("executed" if executes else "no_verdict")
    assert guard.events[-1].outcome is (Outcome.OK if executes else Outcome.REFUSED)


@pytest.mark.parametrize(("closed_from", "closed"), [(Effect.DESTRUCTIVE, True), (Effect.MUTATE, True), (None, False)])
def test_a_call_that_is_known_to_lose_local_work_is_closed_as_a_destructive_one(
    closed_from: Effect | None, closed: bool
) -> None:
    call = Call("frobnicate", {}, (), None, "async", "c1")
    call.loses = True
    assert ScriptedGuard(fail_closed_from=closed_from)._gate.is_closed(call) is closed


def test_a_refusal_without_a_verdict_says_so_and_is_about_this_call_only() -> None:
    guard = ScriptedGuard(None, Level.ALLOW)
    refused = refusal(guard)
    assert (refused.code, refused.decision) == ("no_verdict", None)
    assert guard.feedback == []
    assert not guard.killed
    guard.send(
        decision(Level.BLOCK, of(guard, Kind.PROPOSED)[0])
    )  # what was refused already is not refused by its late verdict once more
    with guard.action("delete_asset") as act:
        assert act.advice == ()


@pytest.mark.parametrize("level", [Level.ALLOW, Level.NUDGE, Level.BLOCK])
def test_a_stale_verdict_counts_as_none(level: Level) -> None:
    def stale(event: ActionEvent) -> Decision:
        return decision(level, event, time=event.time - 31_000)

    guard = ScriptedGuard(stale, stale, max_decision_age_s=30.0)
    assert attempt(guard, "delete_asset") == "no_verdict"
    with guard.action("get_asset") as act:
        assert act.advice == ()


def test_a_stale_kill_is_still_a_kill_and_an_expired_hint_is_none() -> None:
    guard = ScriptedGuard(
        lambda event: decision(Level.NUDGE, event, expires=event.time - 1),
        lambda event: decision(Level.KILL, event, time=event.time - 3_600_000),
    )
    with guard.action("get_asset") as act:
        assert act.advice == ()
    assert (attempt(guard), guard.killed) == (KILLED, True)


def test_a_silent_worker_costs_one_budget_and_is_waited_for_again_once_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    wait_s = Enforcer.verdict_wait_s

    def counted(*given: Any, **options: Any) -> float:
        waits.append(wait_s(*given, **options))
        return waits[-1]

    monkeypatch.setattr(Enforcer, "verdict_wait_s", counted)
    guard = ScriptedGuard(*[None] * 100)
    assert {attempt(guard) for _ in range(100)} == {"executed"}
    assert [wait > 0 for wait in waits] == [True] + [False] * 99
    assert [event.await_verdict for event in of(guard, Kind.PROPOSED)] == [True] * 100

    def a_moment_later(event: ActionEvent) -> None:
        threading.Timer(0.3, lambda: guard.send(decision(Level.BLOCK, event))).start()

    guard = ScriptedGuard(None, Level.ALLOW, a_moment_later, budget_s=60)
    guard._gate.settings = guard.settings.changed(budget_s=0.1)  # nothing comes: it need not be waited for as long
    assert attempt(guard) == "executed"
    guard._gate.settings = guard.settings
    assert [attempt(guard, "delete_asset"), attempt(guard)] == ["executed", "block"]


def earlier(guard: ScriptedGuard, level: Level, *, age_ms: int = 0) -> Decision:
    """A decision on something that went on already."""
    guard.start()
    event = guard.events[0]
    return decision(level, event, event_id=f"e-{level}", time=event.time - age_ms, message="for the model")


@pytest.mark.parametrize("level", [Level.PAUSE, Level.BLOCK, Level.ROLLBACK, Level.KILL])
def test_a_refusal_that_nobody_waits_for_refuses_the_next_action_once_and_a_kill_all(level: Level) -> None:
    guard = ScriptedGuard(mode="async")
    for _ in range(2):  # a decision that arrives twice takes effect once
        guard.send(earlier(guard, level))
    assert "for the model" in str(refusal(guard, "get_asset"))
    if level is Level.KILL:
        assert attempt(guard) == KILLED
    else:
        assert attempt(guard) == "executed"
        assert stages(guard) == ["received", "applied", "refused"]


def test_a_stale_hint_is_not_given_but_acknowledged_as_stale() -> None:
    guard = ScriptedGuard(mode="async")
    guard.send(earlier(guard, Level.BLOCK, age_ms=31_000))
    with guard.action("get_asset") as act:
        assert act.advice == ()
    assert [(f.stage.value, f.detail) for f in guard.feedback] == [("received", "stale: not applied")]


@pytest.mark.parametrize("own", [Level.ALLOW, Level.BLOCK])
def test_a_verdict_that_comes_too_late_takes_effect_at_the_next_action_unless_its_own_is_as_hard(own: Level) -> None:
    guard = ScriptedGuard(None if own is Level.ALLOW else Level.ALLOW, own)
    assert attempt(guard) == "executed"
    proposal = of(guard, Kind.PROPOSED)[0]
    guard.send(decision(Level.BLOCK, proposal, decision_id="late"))  # as a worker that has taken over decides once more
    refused = refusal(guard, "get_asset")
    assert (refused.code, some(refused.decision).decision_id == "late") == ("block", own is Level.ALLOW)


PENDING, APPROVED, REJECTED = ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.REJECTED
ASKS = (PENDING, Level.PAUSE)
YES, NO = (APPROVED, Level.ALLOW), (REJECTED, Level.BLOCK)
Said = tuple[ApprovalState, Level] | tuple[str, Level]


def answer_to(event: ActionEvent, result: Said, number: int) -> Decision:
    """One decision that names the event: about the request, or by a rule that looks across sessions."""
    what, level = result
    if isinstance(what, ApprovalState):
        return about_approval(event, what, level, decision_id=f"d{number}", code=f"approval_{what}")
    across = decision(level, event, decision_id=f"d{number}", scope=ScopeKind.SESSION, scope_id=event.session_id)
    return across.model_copy(update={"detector": what, "call_id": None})


def outcome_of(*sequence: Said) -> str:
    """The result of a blocking delete when these decisions arrive in this order."""

    def verdicts(event: ActionEvent) -> None:
        for number, result in enumerate(sequence):
            guard.send(answer_to(event, result, number))

    guard = ScriptedGuard(verdicts, session_id="s1", approval_wait_s=0.05)
    return attempts(guard, 1)[0]


@cases(
    "sequence, becomes",
    {
        "a warning across sessions is no answer": ([ASKS, ("across", Level.NUDGE)], "approval_pending"),
        "a shadow rule's note is no answer": ([ASKS, ("across", Level.ALLOW)], "approval_pending"),
        "a warning, then a rejection": ([ASKS, ("across", Level.NUDGE), NO], "approval_rejected"),
        "a warning before the verdict": ([("across", Level.NUDGE), ASKS, NO], "approval_rejected"),
        "a refusal across sessions ends the waiting": ([ASKS, ("across", Level.BLOCK)], "block"),
        "a pause across sessions is not for that person": ([("across", Level.PAUSE), YES], "pause"),
    },
)
def test_a_waiting_call_is_answered_by_its_own_request_alone(sequence: Sequence[Said], becomes: str) -> None:
    assert outcome_of(*sequence) == becomes


def test_an_answer_to_another_request_lets_nothing_pass() -> None:
    def verdicts(event: ActionEvent) -> None:
        guard.send(about_approval(event, PENDING, Level.PAUSE))
        guard.send(about_approval(event, APPROVED, Level.ALLOW, decision_id="other", request_id="another"))

    guard = ScriptedGuard(verdicts, session_id="s1", approval_wait_s=0.05)
    assert attempts(guard, 1) == ["approval_pending"]


def test_what_was_paused_by_the_result_of_the_call_before_passes_once_a_person_says_so() -> None:
    """The pause arrives on a result; the same call again waits for the request that is open, and not for nothing."""

    def verdicts(event: ActionEvent) -> None:
        again = about_approval(event, PENDING, Level.PAUSE, decision_id="again").model_copy(update={"expires": None})
        guard.send(again)
        guard.send(about_approval(event, APPROVED, Level.ALLOW, decision_id="yes"))

    guard = ScriptedGuard(Level.ALLOW, verdicts, session_id="s1")
    attempts(guard, 1, "get_asset")
    guard.send(about_approval(guard.events[1], PENDING, Level.PAUSE))
    assert attempts(guard, 1, "get_asset") == ["executed"]


@pytest.mark.parametrize("freeze_at", [0, 1], ids=["the freeze first", "the request first"])
@pytest.mark.parametrize(
    ("answers", "becomes"),
    [([], "approval_pending"), ([YES], "executed"), ([NO], "approval_rejected")],
    ids=["nobody answers", "approved", "rejected"],
)
def test_a_call_waits_for_what_froze_its_session(answers: Sequence[Said], becomes: str, freeze_at: int) -> None:
    def verdicts(event: ActionEvent) -> None:
        for number, result in enumerate((ASKS, *answers, None)):
            if number == freeze_at:
                record = killed(ScopeKind.SESSION, "s1", code="session_frozen_budget")
                frozen = {"state": ControlState.FROZEN, "decision_id": "d0", "by": HALTLINE}
                guard.script.receiver.control(record.key, record.model_copy(update=frozen))
            if result is not None:
                one = answer_to(event, result, number)
                approval = some(one.approval).model_copy(update={"action": WHOLE_SESSION})
                guard.send(one.model_copy(update={"approval": approval}))

    guard = ScriptedGuard(verdicts, session_id="s1", approval_wait_s=0.05)
    assert attempts(guard, 1, "get_asset") == [becomes]
