"""Approvals from the call that waits to the operator and back, over the embedded broker and a real worker."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from haltline.interventions.agent import Guard, Refused
from haltline.schemas.control import CommandKind
from haltline.streams.operator.approval_client import ApprovalClient, Request
from haltline.streams.operator.command_factory import NotAllowed
from haltline.streams.operator.ids import NotFound
from tests.streams.commands import haltline
from tests.streams.running import asking_system
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with asking_system(tmp_path_factory.mktemp("inbox")) as (bootstrap, _):
        yield bootstrap


def guard_of(bootstrap: str, session: str) -> Guard:
    """A guard of a session with its own agent: destruction by several sessions of one agent is another rule."""
    return Guard(
        session_id=session, agent_id=f"agent of {session}", bootstrap=bootstrap, mode="blocking", budget_s=30.0,
        start_budget_s=30.0,
    )  # fmt: skip


def delete(guard: Guard, asset: str = "a") -> str:
    try:
        with guard.action("delete_asset", args={"asset_id": asset}, targets=[f"asset_id={asset}"]):
            return "executed"
    except Refused as refused:
        return refused.code


def in_background(guard: Guard) -> "Future[str]":
    actual: Future[str] = Future()
    threading.Thread(target=lambda: actual.set_result(delete(guard)), daemon=True).start()
    return actual


def request_of(inbox: ApprovalClient, session: str) -> Request:
    found: list[Request] = []

    def look() -> bool:
        found[:] = [r for r in inbox.pending() if r.session_id == session]
        return bool(found)

    wait_until(look, f"session {session} waits for a person", deadline_s=30)
    return found[0]


def test_a_call_waits_for_a_person_and_passes_once(bootstrap: str) -> None:
    inbox = ApprovalClient(bootstrap, answer_within_s=30)
    with pytest.raises(NotFound, match="request not found: none"):
        inbox.answer(CommandKind.APPROVE, "none", by="ada", reason="r")
    with guard_of(bootstrap, "approved") as guard:
        assert delete(guard) == "executed"
        waits = in_background(guard)
        request = request_of(inbox, "approved")
        assert request.approval.action == "delete_asset"
        assert not waits.done()
        answered = inbox.answer(CommandKind.APPROVE, request.approval.request_id[:8], by="ada", reason="it is a copy")
        assert answered.after is not None
        assert waits.result(30) == "executed"
        with pytest.raises(NotAllowed, match=r"it is used \(ada\) and cannot be answered any more"):
            inbox.answer(CommandKind.APPROVE, request.approval.request_id, by="bo", reason="again")
        another = in_background(guard)
        second = request_of(inbox, "approved")
        assert second.approval.request_id != request.approval.request_id
        assert (second.approval.priority, second.approval.quorum) == ("critical", 2), "the third delete is a loop"
        one_of_two = "rejected by 1 of 2 needed (ada); still open"
        assert said(bootstrap, "reject", second) == (0, one_of_two)
        assert said(bootstrap, "reject", second) == (0, f"already rejected by you; {one_of_two}")
        assert not another.done()
        inbox.answer(CommandKind.REJECT, second.approval.request_id, by="bo", reason="enough")
        assert another.result(30) == "approval_rejected"
    used = "already approved by you; it is used (ada) and cannot be answered any more"
    assert said(bootstrap, "approve", request)[1] == used
    assert said(bootstrap, "approve", second) == (1, "it is rejected (ada, bo) and cannot be answered any more")


def said(bootstrap: str, word: str, request: Request) -> tuple[int, str]:
    """The output for ada when she answers a request by the beginning of its id."""
    request_id = request.approval.request_id
    done = haltline(word, request_id[:8], "--by", "ada", "--reason", "r", "--bootstrap", bootstrap)
    return done.exit_code, " ".join(done.output.split()).rpartition(": ")[2]


def test_identical_calls_of_many_sessions_are_answered_at_once(bootstrap: str) -> None:
    inbox = ApprovalClient(bootstrap, answer_within_s=30)
    with guard_of(bootstrap, "twin-1") as first, guard_of(bootstrap, "twin-2") as second:
        assert [delete(guard, "a") for guard in (first, second)] == ["executed", "executed"]
        waiting = [in_background(guard) for guard in (first, second)]
        one = request_of(inbox, "twin-1")
        request_of(inbox, "twin-2")
        answers = inbox.answer_identical(CommandKind.APPROVE, one.approval.request_id, by="ada", reason="both")
        assert {a.before.session_id for a in answers} >= {"twin-1", "twin-2"}
        assert [actual.result(30) for actual in waiting] == ["executed", "executed"]


def test_a_question_goes_to_the_agent(bootstrap: str) -> None:
    inbox = ApprovalClient(bootstrap, answer_within_s=30)
    with guard_of(bootstrap, "asked") as guard:
        delete(guard)
        waits = in_background(guard)
        request = request_of(inbox, "asked")
        asked = request.approval.request_id
        done = haltline("ask", asked, "Who needs it gone?", "--by", "ada", "--bootstrap", bootstrap)
        assert (done.exit_code, "info requested" in done.output) == (0, True)
        assert waits.result(30) == "approval_info_requested"
        again = in_background(guard)
        wait_until(lambda: request_of(inbox, "asked").approval.asked == 2, "the call was made again", deadline_s=30)
        listed = haltline("approvals", "--bootstrap", bootstrap)
        assert (listed.exit_code, asked in listed.output) == (1, True)
        inbox.answer(CommandKind.APPROVE, asked, by="ada", reason="thanks")
        assert again.result(30) == "executed"
