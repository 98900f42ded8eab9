from typing import Any

import pytest

from haltline.schemas.control import CommandKind, ControlState
from haltline.schemas.events import Kind, Usage
from haltline.schemas.policy import Operations, Policy, ProbationRules
from haltline.streams.engine.core import Effects
from tests.builders import at, some
from tests.interventions.control.core_session import CoreSession, shown

KILL, RESET = CommandKind.KILL, CommandKind.RESET


class Session(CoreSession):
    def __init__(self, **operations: Any) -> None:
        probation = {"actions": 5, "lockout_s": 100, "longest_lockout_s": 1000} | operations.pop("probation", {})
        super().__init__(Policy(operations=Operations(probation=ProbationRules(**probation), **operations)))

    def released(self, second: float = 10, **fields: Any) -> Effects:
        self.command(KILL, second - 1)
        return self.command(RESET, second, **fields)

    def trips(self, second: float) -> None:
        """Spend as much as freezes a session, and kills one on probation."""
        self.event(Kind.MODEL_TURN, second, usage=Usage(cost_usd=40))

    @property
    def is_killed(self) -> bool:
        return self.known.control.killed is not None

    @property
    def locked_s(self) -> float:
        kill = some(self.known.control.killed)
        return 0 if kill.locked_until_ms is None else (kill.locked_until_ms - kill.since_ms) / 1000


def test_limits_are_lower_on_probation_which_a_reset_begins_and_says() -> None:
    free, held = Session(), Session()
    outcome = held.released()
    record = some(outcome.control)
    assert (record.state, record.by, record.actions_left) == (ControlState.PROBATION, "ada", 5)
    assert not outcome.released
    assert not held.command(RESET, 15).released, "another reset does not end it"
    for session, expected in ((free, ("ALLOW", "allowed")), (held, ("PAUSE", "destructive_volume"))):
        session.does(20, "a")
        assert shown(session.does(21, "b").decision)[:2] == expected


def test_a_hold_on_probation_is_a_kill_that_locks_and_an_operators_kill_locks_nothing() -> None:
    session, other = Session(), Session()
    session.released()
    session.does(18, "a")
    asked = session.does(19, "b")
    assert shown(asked.decision)[:2] == ("PAUSE", "destructive_volume"), "a question about an act is no kill"
    outcome = session.event(Kind.MODEL_TURN, 20, usage=Usage(cost_usd=40))
    assert shown(outcome.decision)[:2] == ("KILL", "session_killed_on_probation")
    assert (some(outcome.control).locked_until, session.locked_s) == (at(120), 100)
    other.released()
    other.command(KILL, 20)
    assert other.locked_s == 0


def test_each_further_kill_on_probation_locks_for_twice_as_long() -> None:
    session = Session()
    locked = []
    for second in range(10, 50_000, 10_000):
        session.released(second)
        session.trips(second + 1)
        locked.append(session.locked_s)
        session.command(RESET, second + 9_995)
    assert locked == [100, 200, 400, 800, 1000]


def test_within_the_lockout_a_reset_takes_two_different_operators_and_after_it_one() -> None:
    session, later = Session(), Session()
    for one in (session, later):
        one.released()
        one.trips(20)
    refused = session.command(RESET, 30)
    assert (refused.released, refused.followup, session.is_killed) == (False, "reset_refused", True)
    assert some(refused.control).locked_until == at(120)
    session.command(RESET, 31, force=True)
    assert session.is_killed, "the same one twice is one"
    session.command(RESET, 32, "bo")
    assert session.is_killed, "the second has to mean it"
    session.command(RESET, 33, "bo", force=True)
    assert not session.is_killed
    later.command(RESET, 121)
    assert not later.is_killed


def test_who_comes_through_has_a_clean_slate() -> None:
    session = Session()
    session.released()
    assert [session.does(20 + n, f"t{n}", action="read_asset").released for n in range(5)] == [*[False] * 4, True]
    assert (session.known.control.probation, session.known.control.trips) == (None, 0)


def test_a_reset_may_ask_for_a_new_session_and_a_wrong_rule_of_probation_is_refused() -> None:
    session = Session(reset_requires_new_session=True)
    outcome = session.released()
    closed = "session_closed_by_operator"
    assert (some(outcome.control).state, some(outcome.control).code) == (ControlState.KILLED, closed)
    assert shown(session.does(20, "a", action="read_asset").decision)[:2] == ("KILL", closed)
    with pytest.raises(ValueError, match=r"operations\.probation\.rules\.destructive_volume"):
        Session(probation={"rules": {"destructive_volume": {"settings": {"max_deletes": 0}}}})
