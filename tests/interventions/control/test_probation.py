"""A reset, and what a released session is held to; through the core and the real codec."""

from typing import Any

import pytest

from haltline.schemas.control import Command, CommandKind, ControlState
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.policy import Operations, Policy, ProbationRules
from haltline.streams.engine.core import Core, Effects, SessionState
from haltline.streams.sessions import state_codec

T0_MS = 1_750_000_000_000


def at(second: float) -> int:
    return T0_MS + round(second * 1000)


class Session:
    def __init__(self, **operations: Any) -> None:
        probation = {"actions": 5, "lockout_s": 100, "longest_lockout_s": 1000} | operations.pop("probation", {})
        self.core = Core(Policy(operations=Operations(probation=ProbationRules(**probation), **operations)))
        self.state: SessionState | None = None
        self.calls = 0

    def does(self, second: float, target: str, action: str = "delete_asset") -> Effects:
        self.calls += 1
        outcome = self.core.on_event(
            self.state,
            ActionEvent(
                event_id=f"e{self.calls}",
                kind=Kind.PROPOSED,
                session_id="s1",
                agent_id="cleaner",
                time=at(second),
                call_id=f"c{self.calls}",
                action=action,
                targets=[f"asset_id={target}"],
                await_verdict=True,
            ),
        )
        self.state = state_codec.decode(state_codec.encode(outcome.state))
        return outcome

    def says(self, kind: CommandKind, second: float, by: str = "ada", **result: Any) -> Effects:
        command = Command(
            command_id=f"{kind}{second}{by}", kind=kind, id="s1", by=by, reason="so", time=at(second), **result
        )
        outcome = self.core.on_command(self.state, command)
        self.state = state_codec.decode(state_codec.encode(outcome.state))
        return outcome

    def released(self, second: float = 10, **result: Any) -> Effects:
        """Killed, and reset."""
        self.says(CommandKind.KILL, second - 1)
        return self.says(CommandKind.RESET, second, **result)

    @property
    def is_killed(self) -> bool:
        assert self.state is not None
        return self.state.standing.killed is not None

    @property
    def locked_s(self) -> float:
        """How long the lockout is."""
        assert self.state is not None
        kill = self.state.standing.killed
        assert kill is not None
        return 0 if kill.locked_until_ms is None else (kill.locked_until_ms - kill.since_ms) / 1000


def code(decision: Decision | None) -> str:
    assert decision is not None
    return f"{decision.level.value} {decision.code}"


def test_a_reset_begins_probation_and_says_so() -> None:
    session = Session()
    outcome = session.released()
    assert outcome.control is not None
    record = outcome.control
    assert (record.state, record.by, record.actions_left) == (ControlState.PROBATION, "ada", 5)
    assert not outcome.released


def test_limits_are_lower_on_probation_and_as_before_after_it() -> None:
    free, held = Session(), Session()
    held.released()
    for session, expected in ((free, "ALLOW allowed"), (held, "KILL session_killed_on_probation")):
        session.does(20, "a")
        assert code(session.does(21, "b").decision) == expected


def test_a_refusal_on_probation_is_a_kill_that_locks() -> None:
    policy = {"rules": {"severe_destruction": {"levels": {"high": "PAUSE", "critical": "PAUSE"}}}}
    session = Session(probation=policy)
    session.released()
    outcome = session.does(20, "x", action="drop_database")
    assert code(outcome.decision) == "KILL session_killed_on_probation"
    assert outcome.control is not None
    assert outcome.control.locked_until == at(120)
    assert session.locked_s == 100


def test_each_further_kill_on_probation_locks_for_twice_as_long() -> None:
    session = Session()
    locked = []
    second = 10.0
    for _ in range(5):
        session.released(second)
        session.does(second + 1, "a")
        session.does(second + 2, "b")
        locked.append(session.locked_s)
        second += 10_000
        session.says(CommandKind.RESET, second - 5)
    assert locked == [100, 200, 400, 800, 1000]


def test_within_the_lockout_a_reset_takes_two_different_operators() -> None:
    session = Session()
    session.released()
    session.does(20, "a")
    session.does(21, "b")
    refused = session.says(CommandKind.RESET, 30, "ada")
    assert (refused.released, refused.followup, session.is_killed) == (False, "reset_refused", True)
    assert refused.control is not None
    assert refused.control.locked_until == at(121)
    session.says(CommandKind.RESET, 31, "ada", force=True)
    assert session.is_killed, "the same one twice is one"
    session.says(CommandKind.RESET, 32, "bo")
    assert session.is_killed, "the second has to mean it"
    session.says(CommandKind.RESET, 33, "bo", force=True)
    assert not session.is_killed


def test_after_the_lockout_one_operator_is_enough() -> None:
    session = Session()
    session.released()
    session.does(20, "a")
    session.does(21, "b")
    session.says(CommandKind.RESET, 121)
    assert not session.is_killed


def test_the_second_operator_comes_in_time_or_is_the_first() -> None:
    session = Session(second_person_s=30)
    session.released()
    session.does(20, "a")
    session.does(21, "b")
    session.says(CommandKind.RESET, 30, "ada", force=True)
    session.says(CommandKind.RESET, 61, "bo", force=True)
    assert session.is_killed
    session.says(CommandKind.RESET, 62, "ada", force=True)
    assert not session.is_killed


def test_who_comes_through_has_a_clean_slate() -> None:
    session = Session()
    session.released()
    outcomes = [session.does(20 + n, f"t{n}", action="read_asset") for n in range(5)]
    assert [outcome.released for outcome in outcomes] == [False, False, False, False, True]
    assert session.state is not None
    assert (session.state.standing.probation, session.state.standing.trips) == (None, 0)


def test_a_reset_while_on_probation_does_not_end_it() -> None:
    session = Session()
    session.released()
    assert not session.says(CommandKind.RESET, 15).released
    assert session.state is not None
    assert session.state.standing.probation is not None


@pytest.mark.parametrize(("result", "left"), [(0, None), (2, 2), (None, 5)])
def test_an_operator_says_how_long_probation_is(result: int | None, left: int | None) -> None:
    session = Session()
    outcome = session.released(probation_actions=result)
    assert session.state is not None
    probation = session.state.standing.probation
    assert (probation.left if probation else None, outcome.released) == (left, left is None)


def test_where_a_reset_asks_for_a_new_session_the_old_one_stays_closed() -> None:
    session = Session(reset_requires_new_session=True)
    outcome = session.released()
    assert outcome.control is not None
    assert (outcome.control.state, outcome.control.code) == (ControlState.KILLED, "session_closed_by_operator")
    assert code(session.does(20, "a", action="read_asset").decision) == "KILL session_closed_by_operator"


def test_an_operators_kill_on_probation_locks_nothing() -> None:
    session = Session()
    session.released()
    session.says(CommandKind.KILL, 20)
    assert session.locked_s == 0


def test_a_wrong_rule_of_probation_is_refused_when_the_policy_is_loaded() -> None:
    with pytest.raises(ValueError, match=r"operations\.probation\.rules\.destructive_volume"):
        Session(probation={"rules": {"destructive_volume": {"settings": {"max_deletes": 0}}}})
