"""A person's approval, through the core and the real codec: bound to the call, used once, never given by time."""

from typing import Any

import pytest

from haltline.interventions.control.request_queue import MAX_TICKETS
from haltline.schemas.control import Command, CommandKind, Feedback, Stage
from haltline.schemas.decisions import Approval, Decision, Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import Interventions
from haltline.schemas.policy import ApprovalRules, Operations, Policy, Rule
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.sessions import state_codec

T0_MS = 1_750_000_000_000
PAUSING = {"destructive_repeat": Rule(levels=dict.fromkeys(Severity, Level.PAUSE), settings={"window_s": 100_000})}
OFF = {name: Rule(enabled=False) for name in ("destructive_volume", "evasion", "verify_mismatch", "severe_destruction")}


def at(second: float) -> int:
    return T0_MS + round(second * 1000)


class Session:
    """Pauses each repeated delete of one target."""

    def __init__(self, **approvals: Any) -> None:
        rules = ApprovalRules(**({"expires_s": 60} | approvals))
        self.core = Core(Policy(rules={**PAUSING, **OFF}, operations=Operations(approvals=rules)))
        self.state: SessionState | None = None
        self.calls = 0

    def _through_codec(self, state: SessionState) -> None:
        self.state = state_codec.decode(state_codec.encode(state))

    def propose(
        self, second: float, target: str = "a", *, waits: bool = True, action: str = "delete_asset", **args: Any
    ) -> Decision | None:
        self.calls += 1
        outcome = self.core.on_event(
            self.state,
            ActionEvent(
                event_id=f"p{self.calls}",
                kind=Kind.PROPOSED,
                session_id="s1",
                agent_id="cleaner",
                time=at(second),
                call_id=f"c{self.calls}",
                action=action,
                args={"asset_id": target, **args},
                effect=Effect.DESTRUCTIVE if action == "delete_asset" else None,
                await_verdict=waits,
            ),
        )
        self._through_codec(outcome.state)
        return outcome.decision

    def completed(self, second: float, outcome: Outcome = Outcome.OK, call: int | None = None) -> Decision | None:
        followed = self.core.on_event(
            self.state,
            ActionEvent(
                event_id=f"r{self.calls}@{second}",
                kind=Kind.COMPLETED,
                session_id="s1",
                time=at(second),
                call_id=f"c{call or self.calls}",
                outcome=outcome,
            ),
        )
        self._through_codec(followed.state)
        return followed.decision

    def says(
        self, kind: CommandKind, request: Approval, by: str = "ada", second: float = 20, **result: Any
    ) -> list[Decision]:
        fields: dict[str, Any] = {
            "command_id": f"{kind}{by}{second}",
            "kind": kind,
            "id": "s1",
            "by": by,
            "reason": "why?",
            "time": at(second),
            "request_id": request.request_id,
            "nonce": request.nonce,
        }
        outcome = self.core.on_command(self.state, Command(**(fields | result)))
        self._through_codec(outcome.state)
        return [d for d in (outcome.decision, *outcome.also) if d is not None]

    def tick(self, second: float) -> list[Decision]:
        decisions: list[Decision] = []
        assert self.state is not None
        while 0 < self.state.due_ms <= at(second):
            outcome = self.core.on_tick(self.state, at(second))
            decisions += [d for d in (outcome.decision, *outcome.also) if d is not None]
            self._through_codec(outcome.state)
        return decisions

    def paused(self, *, waits: bool = True, second: float = 10) -> Approval:
        """The request about the second delete of `a`."""
        self.propose(0)
        self.completed(1, Outcome.ERROR)
        decision = self.propose(second, waits=waits)
        assert decision is not None
        assert decision.level is Level.PAUSE
        assert decision.approval is not None
        self.tick(second)
        return decision.approval


def shown(decision: Decision | None) -> tuple[str, str, str]:
    assert decision is not None
    return decision.level.value, decision.code, decision.event_id


def test_what_is_approved_passes_once() -> None:
    session = Session()
    request = session.paused()
    assert [shown(d) for d in session.says(CommandKind.APPROVE, request)] == [("ALLOW", "approved", "p2")]
    session.completed(21, Outcome.ERROR)
    again = session.propose(22)
    assert again is not None
    assert again.level is Level.PAUSE
    assert again.approval is not None
    assert again.approval.request_id != request.request_id


def test_the_next_such_call_uses_an_approval_that_nobody_waited_for() -> None:
    session = Session()
    request = session.paused(waits=False)
    assert [shown(d)[:2] for d in session.says(CommandKind.APPROVE, request)] == [("ALLOW", "approved")]
    assert shown(session.propose(30)) == ("ALLOW", "approved", "p3")
    session.completed(31, Outcome.ERROR)
    assert shown(session.propose(32))[0] == "PAUSE"


def test_other_arguments_are_another_call() -> None:
    session = Session()
    session.says(CommandKind.APPROVE, session.paused(waits=False))
    assert shown(session.propose(30, force=True))[0] == "PAUSE"
    assert shown(session.propose(31)) == ("ALLOW", "approved", "p4")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"nonce": "of another"}, id="what was seen is not what is asked"),
        pytest.param({"request_id": "none"}, id="no such request"),
    ],
)
def test_an_answer_to_something_else_changes_nothing(changed: dict[str, Any]) -> None:
    session = Session()
    request = session.paused()
    assert session.says(CommandKind.APPROVE, request, **changed) == []
    assert shown(session.propose(30))[0] == "PAUSE"


def test_what_nobody_answers_is_refused_and_it_is_known_that_nobody_did() -> None:
    session = Session()
    request = session.paused(second=10)
    assert session.tick(69.9) == []
    (decision,) = session.tick(70)
    assert shown(decision) == ("BLOCK", "approval_expired", "p2")
    assert session.says(CommandKind.APPROVE, request, second=71) == [], "too late"
    assert shown(session.propose(72))[0] == "PAUSE"


def test_an_approval_that_is_not_used_in_time_is_gone() -> None:
    session = Session()
    session.says(CommandKind.APPROVE, session.paused(waits=False))
    assert shown(session.propose(70))[0] == "PAUSE", "by the agent's clock, though no tick came"


def test_what_is_rejected_is_refused_until_the_request_would_have_expired() -> None:
    session = Session()
    request = session.paused()
    assert [shown(d) for d in session.says(CommandKind.REJECT, request)] == [("BLOCK", "approval_rejected", "p2")]
    assert shown(session.propose(30)) == ("BLOCK", "approval_rejected", "p3")
    assert session.says(CommandKind.APPROVE, request) == [], "rejected is rejected"
    assert shown(session.propose(71))[0] == "PAUSE"


def test_a_question_refuses_the_call_that_waits_and_the_request_stays_open() -> None:
    session = Session()
    request = session.paused()
    (requested,) = session.says(CommandKind.ASK, request)
    assert shown(requested) == ("BLOCK", "approval_info_requested", "p2")
    assert "why?" in requested.message
    session.completed(21, Outcome.REFUSED)
    again = session.propose(30)
    assert again is not None
    assert again.approval is not None
    assert (again.level, again.approval.request_id, again.approval.asked) == (Level.PAUSE, request.request_id, 2)
    assert [shown(d) for d in session.says(CommandKind.APPROVE, request)] == [("ALLOW", "approved", "p3")]


def test_a_critical_request_takes_two_different_people() -> None:
    severe = {"severe_destruction": Rule(levels=dict.fromkeys(Severity, Level.PAUSE), settings={"critical": 1})}
    session = Session()
    session.core = Core(Policy(rules={**OFF, **severe}))
    decision = session.propose(0, command="rm -rf /", action="bash")
    assert decision is not None
    critical = decision.approval
    assert critical is not None
    assert (critical.priority, critical.quorum, critical.voters) == (Severity.CRITICAL, 2, 3)
    assert [shown(d)[1] for d in session.says(CommandKind.APPROVE, critical, "ada")] == ["approval_vote"]
    assert [shown(d)[1] for d in session.says(CommandKind.APPROVE, critical, "ada", 21)] == ["approval_vote"]
    assert [shown(d)[1] for d in session.says(CommandKind.REJECT, critical, "cy")] == ["approval_vote"]
    assert [shown(d)[1] for d in session.says(CommandKind.APPROVE, critical, "bo")] == ["approved"]


def test_a_critical_request_is_rejected_once_the_others_cannot_make_the_quorum() -> None:
    session = Session()
    request = session.paused()
    assert session.state is not None
    ticket = session.state.standing.approvals[request.parameters]
    ticket.quorum, ticket.voters = 2, 3
    codes = [shown(d)[1] for by in ("ada", "bo") for d in session.says(CommandKind.REJECT, request, by)]
    assert codes == ["approval_vote", "approval_rejected"]


def test_a_call_that_was_given_up_leaves_its_approval_to_the_next() -> None:
    session = Session()
    request = session.paused()
    session.says(CommandKind.APPROVE, request)
    session.completed(21, Outcome.REFUSED)
    assert shown(session.propose(22)) == ("ALLOW", "approved", "p3")


def test_one_that_no_longer_waits_gets_no_answer() -> None:
    session = Session()
    request = session.paused()
    session.completed(15, Outcome.REFUSED)
    (decision,) = session.says(CommandKind.APPROVE, request)
    assert decision.event_id == request.request_id


def test_of_two_that_wait_one_is_let_pass() -> None:
    session = Session()
    request = session.paused()
    session.propose(11)
    answers = [shown(d) for d in session.says(CommandKind.APPROVE, request)]
    assert answers == [("ALLOW", "approved", "p2"), ("BLOCK", "approval_used", "p3")]


def test_a_kill_ends_every_request() -> None:
    session = Session()
    request = session.paused()
    kill = Command(command_id="k", kind=CommandKind.KILL, id="s1", by="bo", reason="no", time=at(15))
    outcome = session.core.on_command(session.state, kill)
    session.state = outcome.state
    assert session.says(CommandKind.APPROVE, request) == []
    assert shown(session.propose(30))[0] == "KILL"


def test_requests_are_bounded() -> None:
    session = Session()
    for number in range(MAX_TICKETS + 8):
        for second in (0.0, 1.0):
            session.propose(number + second, f"t{number}")
            session.completed(number + second, Outcome.ERROR)
    assert session.state is not None
    assert len(session.state.standing.approvals) == MAX_TICKETS


def test_who_approves_what_came_after_warnings_begins_their_count_anew() -> None:
    """Two warnings in vain make a pause; once a person lets it pass, the next finding is a warning again."""
    rules = {
        **OFF,
        **{
            name: Rule(enabled=False)
            for name in ("repetition", "retry_storm", "environment_gone", "stagnation", "agreement")
        },
    }
    rules["error_repetition"] = Rule(levels=dict.fromkeys(Severity, Level.NUDGE))
    core = Core(Policy(rules=rules, cooldown_s=1, interventions=Interventions(after_warnings=2)))
    state: SessionState | None = None
    decisions: list[Decision] = []

    def fail(number: int) -> None:
        nonlocal state
        for kind, more in ((Kind.PROPOSED, {}), (Kind.COMPLETED, {"outcome": Outcome.ERROR, "error": "no such file"})):
            outcome = core.on_event(
                state,
                ActionEvent(
                    event_id=f"{kind}{number}", kind=kind, session_id="s1", time=at(number * 10 + len(more)),
                    call_id=f"c{number}", action="read", targets=["path=a"], **more,
                ),
            )  # fmt: skip
            state = state_codec.decode(state_codec.encode(outcome.state))
            decisions.extend(d for d in [outcome.decision] if d is not None and d.level > Level.ALLOW)

    for number in range(5):
        fail(number)
    assert [d.level for d in decisions] == [Level.NUDGE, Level.NUDGE, Level.PAUSE]
    request = decisions[-1].approval
    assert request is not None
    assert state is not None
    approve = Command(
        command_id="a1", kind=CommandKind.APPROVE, id="s1", by="ada", reason="known", time=at(60),
        request_id=request.request_id, nonce=request.nonce,
    )  # fmt: skip
    state = core.on_command(state, approve).state
    fail(6)
    assert decisions[-1].level is Level.NUDGE


# One cause, one open request: calls with other parameters come behind it.


def lined_up() -> tuple[Session, Approval]:
    """A request about a call, with two others of the same cause behind it."""
    session = Session()
    request = session.paused(waits=True)
    for number, second in ((1, 11), (2, 12)):
        decision = session.propose(second, waits=True, force=number)
        assert shown(decision)[:2] == ("PAUSE", "loop_detected")
        assert decision is not None
        assert decision.approval is not None
        assert (decision.approval.request_id, decision.approval.behind) == (request.request_id, True)
        assert decision.expires == request.expires
    return session, request


def test_an_approval_lets_its_own_call_pass_and_asks_about_the_next_one() -> None:
    session, request = lined_up()
    passed, following = session.says(CommandKind.APPROVE, request)
    assert shown(passed) == ("ALLOW", "approved", "p2")
    assert following.approval is not None
    assert (following.level, following.approval.request_id != request.request_id) == (Level.PAUSE, True)
    assert len(following.approval.also or ()) == 1
    assert shown(session.propose(21, force=1))[0] == "PAUSE", "the first approval was not for this call"
    session.says(CommandKind.APPROVE, following.approval, second=22)  # a critical one takes two
    answers = {shown(one) for one in session.says(CommandKind.APPROVE, following.approval, "bo", second=23)}
    assert ("ALLOW", "approved", "p3") in answers
    assert all(event != "p4" for _, _, event in answers), "the third goes on waiting"


def test_a_rejection_refuses_all_of_them_and_every_retry() -> None:
    session, request = lined_up()
    assert [shown(one) for one in session.says(CommandKind.REJECT, request)] == [
        ("BLOCK", "approval_rejected", "p2"),
        ("BLOCK", "approval_rejected", "p3"),
        ("BLOCK", "approval_rejected", "p4"),
    ]
    assert [shown(session.propose(second, force=n))[:2] for second, n in ((31, 1), (32, 2))] == [
        ("BLOCK", "approval_rejected")
    ] * 2


def test_nobody_answers_and_all_of_them_are_refused() -> None:
    session, _ = lined_up()
    assert {shown(one) for one in session.tick(100)} == {("BLOCK", "approval_expired", f"p{n}") for n in (2, 3, 4)}


@pytest.mark.parametrize(
    ("kind", "why"), [(CommandKind.KILL, "session_killed"), (CommandKind.RESET, "session_reset")], ids=str
)
def test_what_ends_the_session_closes_its_request_and_says_why(kind: CommandKind, why: str) -> None:
    session, _ = lined_up()
    outcome = session.core.on_command(
        session.state, Command(command_id="k", kind=kind, id="s1", by="bo", reason="no", time=at(20))
    )
    closed = [d for d in (outcome.decision, *outcome.also) if d is not None and d.approval is not None]
    assert {shown(one) for one in closed} == {("BLOCK", "approval_cancelled", f"p{n}") for n in (2, 3, 4)}
    assert {one.approval.closed for one in closed if one.approval is not None} == {why}
    assert why.replace("_", " ") in closed[0].reason
    assert [record.resolution for record in outcome.incidents] == [why]


@pytest.mark.parametrize(
    ("second", "closes"),
    [
        pytest.param(20, True, id="what was open when it stopped"),
        pytest.param(5, False, id="nothing of a process that goes on after it"),
    ],
)
def test_a_kill_of_its_agent_closes_what_is_open_once_its_side_has_stopped(second: float, closes: bool) -> None:
    session, _ = lined_up()
    stopped = Feedback(
        feedback_id="f1", decision_id="kill-of-cleaner", session_id="s1", stage=Stage.STOPPED, time=at(second)
    )
    outcome = session.core.on_feedback(session.state, stopped)
    closed = ["scope_killed"] if closes else []
    assert [shown(one)[1] for one in outcome.also] == ["approval_cancelled"] * 3 * len(closed)
    assert [record.resolution for record in outcome.incidents] == closed


def test_a_call_that_is_made_after_the_end_of_its_session_asks_anew() -> None:
    session, request = lined_up()
    end = ActionEvent(event_id="end", kind=Kind.SESSION_ENDED, session_id="s1", agent_id="cleaner", time=at(20))
    outcome = session.core.on_event(session.state, end)
    assert [shown(one)[1] for one in outcome.also] == ["approval_cancelled"] * 3
    session.state = outcome.state
    again = session.propose(30, force=1)
    assert again is not None
    assert again.approval is not None
    assert (again.level, again.approval.state, again.approval.behind) == (Level.PAUSE, "pending", None)
    assert again.approval.request_id != request.request_id
