from collections.abc import Sequence

import pytest

from haltline.interventions.agent import Level
from haltline.interventions.agent.testing import ScriptedGuard, decision, killed
from haltline.schemas.control import HALTLINE, ControlState
from haltline.schemas.decisions import WHOLE_SESSION, ApprovalState, Decision, ScopeKind
from haltline.schemas.events import ActionEvent
from tests.builders import about_approval
from tests.interventions.agent.attempts import attempts
from tests.interventions.cases import some

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


@pytest.mark.parametrize(
    ("sequence", "becomes"),
    [
        pytest.param([ASKS, NO], "approval_rejected", id="a rejection refuses"),
        pytest.param([ASKS, YES], "executed", id="an approval lets it pass"),
        pytest.param([ASKS], "approval_pending", id="nobody's answer refuses"),
        pytest.param([ASKS, ("across", Level.NUDGE)], "approval_pending", id="a warning across sessions is no answer"),
        pytest.param([ASKS, ("across", Level.ALLOW)], "approval_pending", id="a shadow rule's note is no answer"),
        pytest.param([ASKS, ("across", Level.NUDGE), NO], "approval_rejected", id="a warning, then a rejection"),
        pytest.param([ASKS, ("across", Level.NUDGE), YES], "executed", id="a warning, then an approval"),
        pytest.param([("across", Level.NUDGE), ASKS, NO], "approval_rejected", id="a warning before the verdict"),
        pytest.param([("across", Level.ALLOW), ASKS, NO], "approval_rejected", id="a shadow's note before the verdict"),
        pytest.param([ASKS, ("across", Level.BLOCK)], "block", id="a refusal across sessions ends the waiting"),
        pytest.param([("across", Level.PAUSE), YES], "pause", id="a pause across sessions is not for that person"),
        pytest.param([ASKS, ASKS, YES], "executed", id="the same request told twice"),
    ],
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
