"""Approvals that an agent's own guard asks for, through the core and the real codec: for one call, never by time."""

from typing import Any

import pytest

from haltline.schemas.control import CallRequest, Command, CommandKind
from haltline.schemas.decisions import Approval, Decision
from haltline.schemas.findings import Severity
from haltline.streams.sessions import state_codec
from tests.interventions.control.test_approvals import Session, at, shown


class Asking:
    """A session whose agent asks itself, by its own guard."""

    def __init__(self, **approvals: Any) -> None:
        self.session = Session(**approvals)

    def ask(self, request_id: str = "apr_1", second: float = 0, priority: Severity = Severity.MEDIUM) -> list[Decision]:
        command = Command(
            command_id=f"ask {request_id}",
            kind=CommandKind.REQUEST,
            id="s1",
            by="sdk",
            reason="transfer",
            time=at(second),
            request_id=request_id,
            request=CallRequest(
                action="transfer", args={"usd": 5}, agent_id="payer", priority=priority, expires_s=60, why="much money"
            ),
        )
        outcome = self.session.core.on_command(self.session.state, command)
        self.session.state = state_codec.decode(state_codec.encode(outcome.state))
        return [] if outcome.decision is None else [outcome.decision]

    def open(self, **how: Any) -> Approval:
        (decision,) = self.ask(**how)
        assert decision.approval is not None
        self.session.tick(0)
        return decision.approval


def test_what_an_agents_own_guard_asks_for_is_used_once_when_it_says_so() -> None:
    asking = Asking()
    request = asking.open()
    assert (request.state, request.asked_by, request.arguments) == ("pending", "sdk", '{"usd":5}')
    (decision,) = asking.session.says(CommandKind.APPROVE, request)
    assert shown(decision) == ("ALLOW", "approved", "apr_1")
    assert decision.approval is not None
    assert (decision.agent_id, decision.approval.state, decision.approval.approved_by) == ("payer", "approved", ["ada"])
    assert asking.session.says(CommandKind.APPROVE, request, second=21) == [], "answered once"
    (used,) = asking.session.says(CommandKind.USE, request, by="sdk", second=22)
    assert shown(used) == ("ALLOW", "approved", "apr_1")
    assert used.approval is not None
    assert (used.approval.state, used.decision_id == decision.decision_id) == ("used", False)
    assert asking.session.says(CommandKind.USE, request, by="sdk", second=23) == [], "used once"
    assert asking.session.tick(100) == []
    again = asking.open(request_id="apr_2", second=110)
    assert again.state == "pending", "the same call again asks again"


def test_only_an_approval_that_it_asked_for_itself_is_used() -> None:
    asking = Asking()
    waits = asking.open()
    assert asking.session.says(CommandKind.USE, waits, by="sdk") == [], "nobody has approved it"
    assert asking.session.says(CommandKind.APPROVE, waits.model_copy(update={"nonce": "of another"}), second=21) == []
    (decision,) = asking.session.says(CommandKind.APPROVE, waits, second=22)
    assert shown(decision) == ("ALLOW", "approved", "apr_1")
    (expired,) = asking.session.tick(100)
    assert shown(expired)[1] == "approval_expired", "approved, and never used"
    assert asking.session.says(CommandKind.USE, waits, by="sdk", second=101) == []

    paused = Asking()
    request = paused.session.paused()
    paused.session.says(CommandKind.APPROVE, request)
    assert paused.session.says(CommandKind.USE, request, by="sdk", second=21) == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        pytest.param(CommandKind.REJECT, "approval_rejected", id="a person refuses"),
        pytest.param(CommandKind.WITHDRAW, "approval_cancelled", id="the agent's side waits no longer"),
    ],
)
def test_a_request_that_is_refused_stays_refused(kind: CommandKind, code: str) -> None:
    asking = Asking()
    request = asking.open()
    (decision,) = asking.session.says(kind, request)
    assert shown(decision) == ("BLOCK", code, "apr_1")
    assert asking.session.says(CommandKind.APPROVE, request, second=21) == []
    assert asking.session.tick(100) == [], "and time says nothing more"


def test_a_question_and_its_answer_go_there_and_back_while_it_waits() -> None:
    asking = Asking()
    request = asking.open()
    (requested,) = asking.session.says(CommandKind.ASK, request, reason="whose money?")
    (result,) = asking.session.says(CommandKind.ANSWER, request, by="sdk", reason="the fund's", second=21)
    assert requested.approval is not None
    assert result.approval is not None
    assert (requested.approval.state, requested.approval.question) == ("info_requested", "whose money?")
    assert (result.approval.state, result.approval.answer) == ("pending", "the fund's")
    (decision,) = asking.session.says(CommandKind.APPROVE, request, second=22)
    assert shown(decision) == ("ALLOW", "approved", "apr_1")


def test_a_request_that_nobody_answers_expires_and_a_critical_one_takes_two() -> None:
    asking = Asking()
    request = asking.open(priority=Severity.CRITICAL)
    (vote,) = asking.session.says(CommandKind.APPROVE, request)
    assert vote.approval is not None
    assert vote.approval.state == "pending"
    (decision,) = asking.session.tick(60)
    assert shown(decision) == ("BLOCK", "approval_expired", "apr_1")


def test_a_killed_session_is_approved_nothing() -> None:
    asking = Asking()
    kill = Command(command_id="k", kind=CommandKind.KILL, id="s1", by="ada", reason="stop", time=at(0))
    asking.session.state = asking.session.core.on_command(None, kill).state
    (decision,) = asking.ask(second=1)
    assert shown(decision) == ("BLOCK", "approval_rejected", "apr_1")


def test_what_an_agent_asked_for_lets_no_call_pass_that_haltline_paused() -> None:
    asking = Asking()
    request = asking.session.paused()
    (decision,) = asking.ask(second=11)
    assert decision.approval is not None
    asking.session.says(CommandKind.APPROVE, decision.approval, second=12)
    assert shown(asking.session.propose(13))[0] == "PAUSE"
    assert asking.session.says(CommandKind.APPROVE, request, second=14) != []
