from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from haltline import Guard, Refused
from haltline.detectors import BY_ID
from haltline.interventions.agent.transport.local_decider import forget_kill
from haltline.interventions.levels.default_levels import JUDGEMENT
from haltline.interventions.levels.hold import REPEATED, WENT_ON
from haltline.schemas.control import CommandKind, ControlState
from haltline.schemas.decisions import WHOLE_SESSION, Approval, Decision, Level, Mode
from haltline.schemas.events import Kind, Outcome, Task, Usage
from haltline.schemas.findings import Severity
from haltline.schemas.policy import HoldRules, Operations, Policy, Rule
from haltline.streams.engine.core import Effects
from tests.builders import cases, some
from tests.interventions.control.core_session import CoreSession, decided

HELD = "session_frozen_no_progress"


class Session(CoreSession):
    """Its only rule is `error_repetition`: the third time that an error comes is a hint, the fifth a stop."""

    def __init__(self, **fields: Any) -> None:
        rules = {name: Rule(enabled=False) for name in BY_ID if name != "error_repetition"}
        rules["error_repetition"] = Rule(settings={"medium": 3, "high": 4, "critical": 5})
        super().__init__(Policy(**{"rules": rules, "cooldown_s": 0, **fields}))
        self.second = 0.0

    def step(self, error: str | None = "no such order", *, action: str = "get_order", **args: Any) -> list[Decision]:
        """One call after another; what was refused is reported as such."""
        self.second += 2
        args = args or {"order": self.calls}
        began = self.does(self.second, action=action, args=args, targets=[])
        refused = began.decision is not None and began.decision.level >= Level.PAUSE
        refused = refused or self.next_refused
        self.next_refused = False
        outcome = Outcome.REFUSED if refused else Outcome.ERROR if error else Outcome.OK
        said = {"outcome": outcome, "error": "refused" if refused else error, "output_head": None if error else "found"}
        ended = self.event(Kind.COMPLETED, self.second + 1, call_id=f"c{self.calls}", action=action, **said)
        told = [d for d in (*decided(began), *decided(ended)) if d.level > Level.ALLOW]
        if not refused and ended.decision is not None and ended.decision.level is Level.BLOCK:
            self.next_refused = True  # what is decided on a result refuses the next call
        return told

    next_refused = False

    def levels(self, steps: int, **fields: Any) -> list[str]:
        return [d.level.value for _ in range(steps) for d in self.step(**fields)]

    def held(self) -> Decision:
        """Fails until the session is held; returns the decision."""
        for _ in range(20):
            for decision in self.step():
                if decision.approval is not None and decision.approval.action == WHOLE_SESSION:
                    return decision
        raise AssertionError("not held")

    def answers(self, kind: CommandKind, request: Approval) -> Effects:
        about = {"request_id": request.request_id, "nonce": request.nonce}
        return self.command(kind, self.second + 1, **about)

    def prompted(self, number: int) -> Effects:
        self.second += 2
        return self.event(Kind.SESSION_STARTED, self.second, task=Task(prompts=number))


def test_a_hint_then_one_refused_call_then_three_attempts_and_then_the_session_is_held() -> None:
    session = Session()
    assert session.levels(5) == ["NUDGE", "REINFORCE", "BLOCK"]
    assert session.step() == [], "the next call is refused by the agent's side, as it was decided on a result"
    assert session.levels(2) == [], "these are made"
    (held,) = session.step()
    assert (held.level, some(held.approval).action) == (Level.PAUSE, WHOLE_SESSION)
    assert some(session.known.control.held).code == HELD
    assert session.step()[0].code == HELD


def test_after_the_attempts_a_finding_that_would_be_a_hint_holds_too() -> None:
    session = Session()
    assert session.levels(5, order="W1") == ["NUDGE", "REINFORCE", "BLOCK"]
    session.step()  # refused
    assert session.levels(2, error=None) == [], "these are made, and find something"
    held = [d for n in range(4) for d in session.step(error="no such customer", customer=n)]
    assert [(d.level, d.severity) for d in held[:1]] == [(Level.PAUSE, Severity.MEDIUM)]
    assert some(session.known.control.held).code == HELD


def test_what_a_call_shows_again_after_its_hint_is_a_stop_by_rules_that_are_seldom_wrong_twice() -> None:
    rules = {name: Rule(enabled=False) for name in BY_ID if name != "cycle"}
    session = Session(rules=rules)
    levels = [d.level.value for n in range(24) for d in session.step(error=None, action=f"look_{n % 4}", at="here")]
    assert levels[:2] == ["NUDGE", "BLOCK"]


def test_who_makes_progress_within_the_attempts_is_not_held_and_gets_the_same_steps_again_later() -> None:
    session = Session(operations=Operations(hold=HoldRules(within=4)))
    session.levels(5)
    assert session.levels(6, error=None) == []
    assert session.known.control.judging is None
    levels = session.levels(9, error="another error")
    assert levels[:3] == ["NUDGE", "REINFORCE", "BLOCK"]


def test_what_was_refused_is_refused_again_within_the_attempts() -> None:
    session = Session()
    session.levels(5, order="W1")
    session.step(order="W1")  # refused
    (again,) = session.step(order="W1")
    assert (again.level, again.code) == (Level.BLOCK, REPEATED)
    assert session.step(order="W2") == []


def test_the_same_call_with_the_same_result_is_held_at_once_after_its_hint() -> None:
    session = Session(rules={name: Rule(enabled=False) for name in BY_ID if name != "repetition"})
    assert session.levels(4, error=None, order="W1") == ["NUDGE", "PAUSE"]
    assert session.known.control.held is not None


def test_parallel_calls_of_one_turn_count_as_one_attempt() -> None:
    session = Session()
    session.levels(6)
    judging = some(session.known.control.judging)
    before = judging.attempts
    for number in range(3):
        session.does(session.second + 2 + number / 100, action="get_order", args={"order": f"p{number}"}, targets=[])
    assert some(session.known.control.judging).attempts == before + 1


def test_who_goes_on_while_held_is_killed_after_ten_refused_turns() -> None:
    session = Session()
    session.held()
    decisions = [d for _ in range(10) for d in session.step()]
    assert [d.level for d in decisions[:10]] == [*[Level.PAUSE] * 9, Level.KILL]
    assert (decisions[9].code, decisions[9].values) == (WENT_ON, {"turns": 10})


def test_a_held_session_may_report_and_end_its_turn() -> None:
    session = Session()
    session.held()
    for _ in range(30):
        assert session.step(action="task_done", error=None, summary="this is missing") == []
    assert session.known.control.killed is None


def test_who_only_asks_for_turns_while_held_is_killed_too() -> None:
    with Guard(session_id="asks-for-turns", mode="local") as guard:
        while failing(guard, 0) != HELD:
            pass
        codes = [turn(guard) for _ in range(15)]
    assert (codes[1], codes[-1]) == (HELD, WENT_ON), "the first is for its report"


def test_a_report_passes_though_the_budget_is_used_up() -> None:
    rules = {"budget": Rule(settings={"limits": {"cost_usd": 1}})}
    session = CoreSession(Policy(rules=rules))
    session.event(Kind.MODEL_TURN, 0, usage=Usage(cost_usd=2))
    levels = [
        some(session.does(n, action=action, targets=[]).decision).level for n, action in enumerate(("finish", "ls"))
    ]
    assert levels == [Level.ALLOW, Level.PAUSE]


def test_an_approval_releases_it_with_a_fresh_judgement_and_only_a_new_hold_kills() -> None:
    session = Session()
    request = some(session.held().approval)
    approved = session.answers(CommandKind.APPROVE, request)
    assert approved.followup == "approval_approved"
    assert some(approved.control).state is ControlState.PROBATION
    assert session.levels(5) == ["NUDGE", "REINFORCE", "BLOCK"], "as at first"
    assert session.levels(4)[-1:] == ["KILL"]


def test_a_rejection_of_a_hold_kills() -> None:
    session = Session()
    effects = session.answers(CommandKind.REJECT, some(session.held().approval))
    assert session.known.control.killed is not None
    assert some(effects.control).state is ControlState.KILLED
    assert Level.KILL in [d.level for d in decided(effects)]


@cases(
    "ends",
    {
        "a reset": lambda session: session.command(CommandKind.RESET, 900),
        "a lift": lambda session: session.command(CommandKind.LIFT, 900),
        "a new prompt of the user": lambda session: session.prompted(2),
    },
)
def test_a_hold_ends_by(ends: Callable[[Session], Effects]) -> None:
    session = Session()
    session.prompted(1)
    session.held()
    effects = ends(session)
    standing = session.known.control
    assert standing.held is None
    assert (effects.released, effects.control is None) == (
        (True, True) if standing.probation is None else (False, False)
    )
    session.second = 1000
    assert session.levels(3) == ["NUDGE"], "judged afresh"


def test_time_alone_allows_nothing_and_an_expired_request_is_asked_again_when_it_goes_on() -> None:
    session = Session()
    first = some(session.held().approval)
    session.tick(session.second)
    session.tick(session.second + 2000)
    assert session.known.control.held is not None
    session.second += 2000
    (again,) = session.step()
    assert some(again.approval).request_id != first.request_id
    assert some(again.approval).action == WHOLE_SESSION


@pytest.mark.parametrize("mode", [Mode.WARN, Mode.SHADOW])
def test_under_a_judgement_that_only_warns_or_records_nothing_is_held(mode: Mode) -> None:
    session = Session(judgement=mode)
    decisions = [d for _ in range(12) for d in session.step()]
    assert session.known.control.held is None
    assert all(d.level <= Level.NUDGE for d in decisions)


def test_the_rules_of_judgement_are_one_list() -> None:
    assert {*BY_ID, "agreement"} >= JUDGEMENT


def turn(guard: Guard) -> str:
    """What becomes of a turn of the model."""
    try:
        guard.check()
    except Refused as refused:
        return refused.code
    return "taken"


def failing(guard: Guard, number: int) -> str:
    """One turn of the model with one call, which fails; returns what became of it."""
    try:
        guard.check()
        guard.model_turn()
        with suppress(LookupError), guard.action("get_order", args={"order": number}):
            get_order()
    except Refused as refused:
        return refused.code
    return "made"


def get_order() -> None:
    raise LookupError("no such order")


def test_a_guard_in_mode_local_holds_its_session_and_a_new_prompt_releases_it() -> None:
    with Guard(session_id="held-by-guard", mode="local") as guard:
        guard.prompt("sort the orders")
        codes = [failing(guard, number) for number in range(40)]
        first = codes.index(HELD)
        assert set(codes[first:]) <= {HELD, WENT_ON}
        assert codes[:first].count("made") < 12
    with Guard(session_id="held-by-guard-2", mode="local") as guard:
        guard.prompt("sort the orders")
        while failing(guard, 0) != HELD:
            pass
        with guard.action("task_done", args={"summary": "no such orders"}):
            pass
        guard.prompt("look into the archive instead")
        assert failing(guard, 1) == "made"


def test_a_subagent_is_held_with_its_parent_and_its_own_hold_is_its_own() -> None:
    with Guard(session_id="above", mode="local") as parent, parent.subagent(session_id="above/below") as below:
        while failing(below, 0) != HELD:
            pass
        with parent.action("get_order", args={"order": "x"}):
            pass
        while failing(parent, 1) != HELD:
            pass
        with parent.subagent(session_id="above/other") as other:
            assert failing(other, 2) == HELD


def test_a_hold_in_mode_local_outlives_the_process_until_it_is_released() -> None:
    with Guard(session_id="stays", mode="local") as guard:
        while failing(guard, 0) != HELD:
            pass
    with Guard(session_id="stays", mode="local") as later:
        assert failing(later, 1) == HELD
        refused = some(later.stopped)
        assert "haltline hook release stays" in refused.reason
        later.prompt("sort the orders")  # what the session is started for again
        assert failing(later, 4) == HELD
        later.prompt("look into the archive instead")
        assert failing(later, 5) == "made"
    with Guard(session_id="stays", mode="local") as released:
        assert failing(released, 6) == "made"


def test_a_stored_stop_is_of_no_concern_to_a_process_with_another_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    with Guard(session_id="recorded", mode="local") as guard:
        while failing(guard, 0) != HELD:
            pass
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.0)
    with Guard(session_id="recorded", mode="local") as again:
        assert failing(again, 1) == "made"


def test_what_an_operator_releases_here_is_released_for_later_processes() -> None:
    with Guard(session_id="let-go", mode="local") as guard:
        while failing(guard, 0) != HELD:
            pass
    forget_kill("let-go")
    with Guard(session_id="let-go", mode="local") as later:
        assert failing(later, 1) == "made"
