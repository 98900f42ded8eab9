from pathlib import Path
from typing import Any

import orjson
import pytest

from haltline.interventions.control.request_queue import MAX_TICKETS
from haltline.schemas import wire
from haltline.schemas.control import REMOVED_KINDS, Command, CommandKind, Feedback, Stage
from haltline.schemas.decisions import Approval, Decision, Level, Mode
from haltline.schemas.events import Kind, Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import Interventions
from haltline.schemas.policy import ApprovalRules, HoldRules, Operations, Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.policy.loader import parse_policy
from haltline.streams.sessions import state_codec
from tests.builders import at, cases, some
from tests.interventions.control.core_session import CoreSession, decided, shown

PAUSING = {"destructive_repeat": Rule(levels=dict.fromkeys(Severity, Level.PAUSE), settings={"window_s": 100_000})}
OFF = {name: Rule(enabled=False) for name in ("destructive_volume", "evasion", "severe_destruction")}
APPROVE, REJECT, ASK = CommandKind.APPROVE, CommandKind.REJECT, CommandKind.ASK
Shown = tuple[str, str, str]
GOLDEN = Path(__file__).parents[2] / "streams" / "sessions" / "golden"


class Session(CoreSession):
    def __init__(self) -> None:
        operations = Operations(approvals=ApprovalRules(expires_s=60))
        super().__init__(Policy(rules={**PAUSING, **OFF}, operations=operations, judgement=Mode.SHADOW))

    def propose(self, second: float, target: str = "a", *, waits: bool = True, **args: Any) -> Decision | None:
        return self.does(second, target, args={"asset_id": target, **args}, await_verdict=waits, targets=[]).decision

    def completed(self, second: float, outcome: Outcome = Outcome.ERROR) -> None:
        self.event(Kind.COMPLETED, second, call_id=f"c{self.calls}", outcome=outcome)

    def says(
        self, kind: CommandKind, request: Approval, by: str = "ada", second: float = 20, **fields: Any
    ) -> list[Decision]:
        about = {"request_id": request.request_id, "nonce": request.nonce}
        return decided(self.command(kind, second, by, **(about | fields)))

    def told(self, *given: Any, **fields: Any) -> list[Shown]:
        return [shown(decision) for decision in self.says(*given, **fields)]

    def paused(self, *, waits: bool = True) -> Approval:
        """The request about the second delete of `a`, of second 10."""
        self.propose(0)
        self.completed(1)
        return self.request(self.propose(10, waits=waits))

    def request(self, decision: Decision | None) -> Approval:
        assert some(decision).level is Level.PAUSE
        self.tick((some(decision).time - at(0)) / 1000)
        return some(some(decision).approval)


def test_what_is_approved_passes_once_and_a_call_that_was_given_up_is_none() -> None:
    session = Session()
    request = session.paused()
    assert session.told(APPROVE, request) == [("ALLOW", "approved", "p2")]
    session.completed(21, Outcome.REFUSED)
    assert shown(session.propose(22)) == ("ALLOW", "approved", "p3")
    session.completed(23)
    assert session.request(session.propose(24)).request_id != request.request_id


def test_the_next_such_call_and_none_with_other_arguments_uses_an_approval_that_nobody_waited_for() -> None:
    session = Session()
    assert [told[:2] for told in session.told(APPROVE, session.paused(waits=False))] == [("ALLOW", "approved")]
    assert shown(session.propose(30, force=True))[0] == "PAUSE"
    assert shown(session.propose(31)) == ("ALLOW", "approved", "p4")
    session.completed(32)
    assert shown(session.propose(33))[0] == "PAUSE"


def test_what_nobody_answers_is_refused_and_it_is_known_that_nobody_did() -> None:
    session = Session()
    request = session.paused()
    assert session.tick(69.9) == []
    assert [shown(decision) for decision in session.tick(70)] == [("BLOCK", "approval_expired", "p2")]
    assert session.says(APPROVE, request, second=71) == [], "too late"
    assert shown(session.propose(72))[0] == "PAUSE"


def test_what_is_rejected_is_refused_until_the_request_would_have_expired() -> None:
    session = Session()
    request = session.paused()
    assert session.told(REJECT, request) == [("BLOCK", "approval_rejected", "p2")]
    assert shown(session.propose(30)) == ("BLOCK", "approval_rejected", "p3")
    assert session.says(APPROVE, request) == [], "rejected is rejected"
    assert shown(session.propose(71))[0] == "PAUSE"


def test_a_question_refuses_the_call_that_waits_and_the_request_stays_open() -> None:
    session = Session()
    request = session.paused()
    (requested,) = session.says(ASK, request)
    assert shown(requested) == ("BLOCK", "approval_info_requested", "p2")
    assert "why?" in requested.message
    session.completed(21, Outcome.REFUSED)
    again = session.request(session.propose(30))
    assert (again.request_id, again.asked) == (request.request_id, 2)
    assert session.told(APPROVE, request) == [("ALLOW", "approved", "p3")]


def test_a_critical_request_takes_two_different_people_and_is_rejected_once_they_cannot_be_had() -> None:
    severe = {"severe_destruction": Rule(levels=dict.fromkeys(Severity, Level.PAUSE), settings={"critical": 1})}
    approved, rejected = (CoreSession(Policy(rules={**OFF, **severe})) for _ in range(2))
    for session, answers in (
        (approved, [(APPROVE, "ada"), (APPROVE, "ada"), (REJECT, "cy"), (APPROVE, "bo")]),
        (rejected, [(REJECT, "ada"), (REJECT, "bo")]),
    ):
        decision = some(session.does(0, action="bash", args={"command": "rm -rf /"}, targets=[]).decision)
        critical = some(decision.approval)
        assert (critical.priority, critical.quorum, critical.voters) == (Severity.CRITICAL, 2, 3)
        about = {"request_id": critical.request_id, "nonce": critical.nonce}
        codes = [
            told.code
            for second, (kind, by) in enumerate(answers)
            for told in decided(session.command(kind, 20 + second, by, **about))
        ]
        end = "approved" if session is approved else "approval_rejected"
        assert codes == [*["approval_vote"] * (len(answers) - 1), end]


def test_requests_are_bounded() -> None:
    session = Session()
    for number in range(MAX_TICKETS + 8):
        for second in (0.0, 1.0):
            session.propose(number + second, f"t{number}")
            session.completed(number + second)
    assert len(session.known.control.approvals) == MAX_TICKETS


def test_who_approves_what_came_after_warnings_begins_their_count_anew() -> None:
    """Two warnings in vain make a pause; once a person lets it pass, the next finding is a warning again."""
    names = ("repetition", "environment_gone", "stagnation", "agreement")
    rules = {**OFF, **{name: Rule(enabled=False) for name in names}}
    rules["error_repetition"] = Rule(levels=dict.fromkeys(Severity, Level.NUDGE))
    settings = {"cooldown_s": 1, "interventions": Interventions(after_warnings=2)}
    session = CoreSession(Policy(rules=rules, operations=Operations(hold=HoldRules(attempts=0)), **settings))

    def fails(number: int) -> list[Decision]:
        second = number * 10
        outcomes = [session.does(second, action="read", targets=["path=a"], await_verdict=False)]
        failed = {"call_id": f"c{session.calls}", "outcome": Outcome.ERROR, "error": "no such file"}
        outcomes.append(session.event(Kind.COMPLETED, second + 2, **failed))
        return [d for outcome in outcomes if (d := outcome.decision) is not None and d.level > Level.ALLOW]

    decisions = [decision for number in range(5) for decision in fails(number)]
    assert [d.level for d in decisions] == [Level.NUDGE, Level.NUDGE, Level.PAUSE], "held at once"
    request = some(decisions[-1].approval)
    session.command(APPROVE, 60, request_id=request.request_id, nonce=request.nonce)
    assert [d.level for number in (6, 7, 8) for d in fails(number)] == [Level.NUDGE], "judged afresh"


# One cause, one open request: calls with other parameters come behind it.

ALL = ("p2", "p3", "p4")


def lined_up() -> tuple[Session, Approval]:
    session = Session()
    request = session.paused(waits=True)
    for number, second in ((1, 11), (2, 12)):
        decision = some(session.propose(second, force=number))
        assert shown(decision)[:2] == ("PAUSE", "loop_detected")
        assert (some(decision.approval).request_id, some(decision.approval).behind) == (request.request_id, True)
        assert decision.expires == request.expires
    return session, request


def test_an_approval_lets_its_own_call_pass_and_asks_about_the_next_one() -> None:
    session, request = lined_up()
    passed, following = session.says(APPROVE, request)
    assert shown(passed) == ("ALLOW", "approved", "p2")
    behind = some(following.approval)
    assert (following.level, behind.request_id != request.request_id) == (Level.PAUSE, True)
    assert len(behind.also or ()) == 1
    assert shown(session.propose(21, force=1))[0] == "PAUSE", "the first approval was not for this call"
    session.says(APPROVE, behind, second=22)  # a critical one takes two
    answers = session.told(APPROVE, behind, "bo", second=23)
    assert ("ALLOW", "approved", "p3") in answers
    assert all(event != "p4" for _, _, event in answers), "the third goes on waiting"


def test_a_rejection_refuses_all_of_them_and_every_retry_and_so_does_the_end_of_the_wait() -> None:
    session, request = lined_up()
    rejected = ("BLOCK", "approval_rejected")
    assert session.told(REJECT, request) == [(*rejected, event) for event in ALL]
    assert [shown(session.propose(30 + n, force=n))[:2] for n in (1, 2)] == [rejected] * 2
    session, _ = lined_up()
    assert {shown(one) for one in session.tick(100)} == {("BLOCK", "approval_expired", event) for event in ALL}


@pytest.mark.parametrize(("kind", "why"), [(CommandKind.KILL, "session_killed"), (CommandKind.RESET, "session_reset")])
def test_what_ends_the_session_closes_its_request_and_says_why(kind: CommandKind, why: str) -> None:
    session, request = lined_up()
    outcome = session.command(kind, 20, "bo")
    closed = [one for one in decided(outcome) if one.approval is not None]
    assert {shown(one) for one in closed} == {("BLOCK", "approval_cancelled", event) for event in ALL}
    assert {one.approval.closed for one in closed if one.approval is not None} == {why}
    assert why.replace("_", " ") in closed[0].reason
    assert [record.resolution for record in outcome.incidents] == [why]
    assert session.says(APPROVE, request) == []
    if kind is CommandKind.KILL:
        assert shown(session.propose(30))[0] == "KILL"


@pytest.mark.parametrize(("second", "closed"), [(20, ["scope_killed"]), (5, [])], ids=["before it stopped", "since"])
def test_a_kill_of_its_agent_closes_what_is_open_once_its_side_has_stopped(second: float, closed: list[str]) -> None:
    session, _ = lined_up()
    about = {"feedback_id": "f1", "decision_id": "kill-of-cleaner", "session_id": "s1"}
    outcome = session.core.on_feedback(session.known, Feedback(**about, stage=Stage.STOPPED, time=at(second)))
    assert [shown(one)[1] for one in outcome.also] == ["approval_cancelled"] * 3 * len(closed)
    assert [record.resolution for record in outcome.incidents] == closed


def test_a_call_that_is_made_after_the_end_of_its_session_asks_anew() -> None:
    session, request = lined_up()
    outcome = session.event(Kind.SESSION_ENDED, 20)
    assert [shown(one)[1] for one in outcome.also] == ["approval_cancelled"] * 3
    again = session.request(session.propose(30, force=1))
    assert (again.state, again.behind) == ("pending", None)
    assert again.request_id != request.request_id


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


def test_where_an_approval_covers_nothing_each_call_is_asked_about() -> None:
    session, request = deleting(covers=0)
    session.says(CommandKind.APPROVE, request)
    session.completed(21)
    assert session.delete(22) == "PAUSE destructive_volume"


@cases(
    "document, third",
    {
        "by default a person is asked": ("{}", "PAUSE destructive_volume"),
        "literal kills": ("{preset: literal}", "KILL session_killed_loop_guard"),
        "starter asks too": ("{preset: starter}", "PAUSE destructive_volume"),
    },
)
def test_the_third_of_a_minute_by_policy(document: str, third: str) -> None:
    session = Deleting(document)
    assert [session.delete(n) for n in range(3)] == ["ALLOW allowed", "ALLOW allowed", third]


@pytest.mark.parametrize("kind", sorted(REMOVED_KINDS))
def test_a_command_of_an_earlier_release_changes_nothing_and_is_counted(kind: CommandKind) -> None:
    session = Session()
    request = session.paused()
    before = state_codec.encode(session.known)
    given = {"command_id": "c1", "kind": kind, "id": "s1", "by": "sdk", "reason": "as before", "time": at(20)}
    asked = {"action": "transfer", "args": {"usd": 5}, "agent_id": "payer", "expires_s": 60, "why": "much money"}
    old = orjson.dumps(given | {"request_id": request.request_id, "nonce": request.nonce, "request": asked})
    effects = session.core.on_command(session.known, wire.decode(Command, old))
    assert (effects.followup, decided(effects)) == ("command_passed_over", [])
    assert state_codec.encode(session.known) == before


def test_what_an_agents_own_guard_asked_for_under_an_earlier_release_expires_as_any_other() -> None:
    session = Session()
    session.state = state_codec.decode((GOLDEN / "state_v2_asked.json").read_bytes())
    assert session.tick(0) == []
    assert [shown(decision) for decision in session.tick(100)] == [("BLOCK", "approval_expired", "apr_1")]
    (incident,) = session.known.control.incidents.values()
    assert (incident.cause, incident.request_id) == ("approval_requested", None)
