import pytest

from haltline.schemas.control import CallRequest, CommandKind
from haltline.schemas.decisions import Approval, Decision
from haltline.schemas.findings import Severity
from tests.builders import some
from tests.interventions.control.core_session import decided, shown
from tests.interventions.control.test_approvals import APPROVE, ASK, REJECT, Session

USE, WITHDRAW = CommandKind.USE, CommandKind.WITHDRAW
APPROVED = [("ALLOW", "approved", "apr_1")]


class Asking(Session):
    def ask(self, request_id: str = "apr_1", second: float = 0, priority: Severity = Severity.MEDIUM) -> list[Decision]:
        request = CallRequest(
            action="transfer", args={"usd": 5}, agent_id="payer", priority=priority, expires_s=60, why="much money"
        )
        return decided(self.command(CommandKind.REQUEST, second, "sdk", request_id=request_id, request=request))

    def open(self, request_id: str = "apr_1", second: float = 0, priority: Severity = Severity.MEDIUM) -> Approval:
        approval = approval_of(self.ask(request_id, second, priority))
        self.tick(0)
        return approval


def approval_of(decisions: list[Decision]) -> Approval:
    (decision,) = decisions
    return some(decision.approval)


def test_what_an_agents_own_guard_asks_for_is_used_once_when_it_says_so() -> None:
    asking = Asking()
    request = asking.open()
    assert (request.state, request.asked_by, request.arguments) == ("pending", "sdk", '{"usd":5}')
    (decision,) = asking.says(APPROVE, request)
    approval = some(decision.approval)
    assert [shown(decision)] == APPROVED
    assert (decision.agent_id, approval.state, approval.approved_by) == ("payer", "approved", ["ada"])
    assert asking.says(APPROVE, request, second=21) == [], "answered once"
    (used,) = asking.says(USE, request, by="sdk", second=22)
    assert [shown(used)] == APPROVED
    assert (approval_of([used]).state, used.decision_id == decision.decision_id) == ("used", False)
    assert asking.says(USE, request, by="sdk", second=23) == [], "used once"
    assert asking.tick(100) == []
    assert asking.open(request_id="apr_2", second=110).state == "pending", "the same call again asks again"


def test_only_an_approval_that_it_asked_for_itself_is_used() -> None:
    asking = Asking()
    waits = asking.open()
    assert asking.says(USE, waits, by="sdk") == [], "nobody has approved it"
    assert asking.says(APPROVE, waits.model_copy(update={"nonce": "of another"}), second=21) == []
    assert asking.told(APPROVE, waits, second=22) == APPROVED
    assert [shown(one)[1] for one in asking.tick(100)] == ["approval_expired"], "approved, and never used"
    assert asking.says(USE, waits, by="sdk", second=101) == []
    paused = Asking()
    request = paused.paused()
    paused.says(APPROVE, request)
    assert paused.says(USE, request, by="sdk", second=21) == []


@pytest.mark.parametrize(("kind", "code"), [(REJECT, "approval_rejected"), (WITHDRAW, "approval_cancelled")])
def test_a_request_that_is_rejected_or_withdrawn_stays_refused(kind: CommandKind, code: str) -> None:
    asking = Asking()
    request = asking.open()
    assert asking.told(kind, request) == [("BLOCK", code, "apr_1")]
    assert asking.says(APPROVE, request, second=21) == []
    assert asking.tick(100) == [], "and time says nothing more"


def test_a_question_and_its_answer_go_there_and_back_while_it_waits() -> None:
    asking = Asking()
    request = asking.open()
    requested = approval_of(asking.says(ASK, request, reason="whose money?"))
    result = approval_of(asking.says(CommandKind.ANSWER, request, by="sdk", reason="the fund's", second=21))
    assert (requested.state, requested.question) == ("info_requested", "whose money?")
    assert (result.state, result.answer) == ("pending", "the fund's")
    assert asking.told(APPROVE, request, second=22) == APPROVED


def test_a_killed_session_is_approved_nothing() -> None:
    asking = Asking()
    asking.command(CommandKind.KILL, 0)
    assert [shown(one) for one in asking.ask(second=1)] == [("BLOCK", "approval_rejected", "apr_1")]


def test_what_an_agent_asked_for_lets_no_call_pass_that_haltline_paused() -> None:
    asking = Asking()
    request = asking.paused()
    asking.says(APPROVE, approval_of(asking.ask(second=11)), second=12)
    assert shown(asking.propose(13))[0] == "PAUSE"
    assert asking.says(APPROVE, request, second=14) != []
