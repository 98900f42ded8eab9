from typing import Any

import pytest

from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import Approval, Level
from haltline.schemas.events import Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.policy import ApprovalRules, Operations
from haltline.streams.engine.core import Core
from haltline.streams.policy.loader import parse_policy
from tests.builders import some
from tests.interventions.control.test_approvals import Session


class Deleting(Session):
    def __init__(self, document: str = "{}", **approvals: Any) -> None:
        super().__init__()
        rules = ApprovalRules(**({"expires_s": 60} | approvals))
        self.core = Core(parse_policy(document).model_copy(update={"operations": Operations(approvals=rules)}))

    def delete(self, second: float) -> str:
        """What is decided about the next asset; what may be made is made."""
        decision = self.propose(second, f"a{second}")
        self.completed(second + 0.5, Outcome.REFUSED if decision and decision.level >= Level.PAUSE else Outcome.OK)
        return "-" if decision is None else f"{decision.level.value} {decision.code}"

    def asked(self, second: float) -> Approval:
        decision = self.propose(second, f"a{second}")
        self.tick(second)
        return some(some(decision).approval)


def deleting(**approvals: Any) -> tuple[Deleting, Approval]:
    """Two assets are gone, and the third waits for a person."""
    session = Deleting(**approvals)
    assert [session.delete(0), session.delete(1)] == ["ALLOW allowed"] * 2
    return session, session.asked(2)


def test_one_person_is_asked_and_the_session_goes_on() -> None:
    session, request = deleting(covers=3)
    assert (request.priority, request.quorum) == (Severity.HIGH, 1)
    answers = session.says(CommandKind.APPROVE, request)
    assert [(d.level, d.code, d.event_id) for d in answers] == [(Level.ALLOW, "approved", "p3")]
    assert [session.delete(n) for n in range(20, 23)] == ["ALLOW declared_batch"] * 3
    # What was approved is used up: of too many within the last actions somebody is asked once more.
    assert [session.delete(n) for n in (100, 101)] == ["ALLOW allowed", "PAUSE destructive_volume"]


def test_calls_that_wait_for_the_same_answer_get_it() -> None:
    session, request = deleting()
    behind = session.asked(3)
    assert (behind.request_id, behind.behind) == (request.request_id, True)
    answers = session.says(CommandKind.APPROVE, request)
    assert [(d.level, d.event_id) for d in answers] == [(Level.ALLOW, "p3"), (Level.ALLOW, "p4")]


def test_a_rejection_refuses_what_follows_and_asks_nobody_again() -> None:
    session, request = deleting()
    assert [d.level for d in session.says(CommandKind.REJECT, request)] == [Level.BLOCK]
    session.completed(21, Outcome.REFUSED)
    assert [session.delete(n) for n in range(22, 25)] == ["BLOCK volume_rejected"] * 3
    session.propose(26, action="read_asset")
    assert session.delete(200) == "ALLOW allowed"  # one by one it is no volume


def test_a_request_that_expires_refuses_its_call_and_no_other() -> None:
    session, request = deleting()
    session.asked(3)
    refused, following = session.tick(62)
    assert (refused.level, refused.code, refused.event_id) == (Level.BLOCK, "approval_expired", "p3")
    behind = some(following.approval)
    assert (following.level, behind.request_id != request.request_id) == (Level.PAUSE, True)
    answers = session.says(CommandKind.APPROVE, behind, second=70)
    assert [(d.level, d.event_id) for d in answers] == [(Level.ALLOW, "p4")]


def test_where_an_approval_covers_nothing_each_call_is_asked_about() -> None:
    session, request = deleting(covers=0)
    session.says(CommandKind.APPROVE, request)
    session.completed(21)
    assert session.delete(22) == "PAUSE destructive_volume"


@pytest.mark.parametrize(
    ("document", "third"),
    [
        pytest.param("{}", "PAUSE destructive_volume", id="by default a person is asked"),
        pytest.param("{preset: literal}", "KILL session_killed_loop_guard", id="literal kills"),
        pytest.param("{preset: starter}", "PAUSE destructive_volume", id="starter asks too"),
    ],
)
def test_the_third_of_a_minute_by_policy(document: str, third: str) -> None:
    session = Deleting(document)
    assert [session.delete(n) for n in range(3)] == ["ALLOW allowed", "ALLOW allowed", third]
