from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from haltline.interventions.agent import Guard, Level, Refused
from haltline.schemas.events import Kind, Usage
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.attempts import KILLED, attempt, attempts
from tests.interventions.agent.stand_in import StandIn, standing
from tests.waiting import wait_until

THIRD = ["executed", "executed", KILLED]


def test_the_second_delete_is_warned_of_and_the_third_refused_and_other_sessions_are_not_touched() -> None:
    received: list[tuple[Level, str]] = []
    with Guard(
        mode="local", session_id="s1", on_advice=lambda advice: received.append((advice.level, advice.code))
    ) as guard:
        assert attempts(guard, 5) == [*THIRD, KILLED, KILLED]
        assert guard.killed
    assert received[:1] == [(Level.NUDGE, "loop_suspected")]
    assert attempts(Guard(mode="local"), 2) == ["executed", "executed"]
    assert attempts(Guard(mode="local", session_id="s1"), 1, asset_id="other") == [KILLED], "also a new guard of it"


def test_many_deletes_are_refused_with_how_to_allow_them_and_the_session_goes_on() -> None:
    with Guard(mode="local", session_id="s1") as guard:
        said = [attempts(guard, 1, asset_id=f"a{n}")[0] for n in range(4)]
        assert said == ["executed", "executed", "approval_pending", "approval_pending"]
        with (
            pytest.raises(Refused, match=r"max_deletes.*tools.*Kafka"),
            guard.action("delete_asset", args={"asset_id": "a5"}),
        ):
            pass
        assert not guard.killed


def test_a_session_that_spends_too_fast_is_frozen_and_then_killed_before_its_next_turn() -> None:
    guard = Guard(mode="local", session_id="spender")
    guard.check()
    guard.model_turn(usage=Usage(cost_usd=40))
    with pytest.raises(Refused, match="haltline holds this session"):
        guard.check()
    assert attempts(guard, 1) == ["session_frozen_spend_velocity"]
    guard.model_turn(usage=Usage(cost_usd=70))  # of a turn that was on its way
    with pytest.raises(Refused, match="haltline stopped this session"):
        guard.check()


def test_calls_from_many_threads_are_decided_one_after_the_other() -> None:
    guard = Guard(mode="local")
    executed: list[str] = []
    delete = guard.tool(name="delete_asset")(executed.append)

    def attempt_one(_: int) -> None:
        with suppress(Refused):
            delete("fact_sales")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attempt_one, range(40)))
    # The third is killed; whoever was allowed and has not begun by then does not begin any more.
    assert executed in ([], ["fact_sales"], ["fact_sales"] * 2)
    assert guard.killed


def test_with_a_broker_it_tells_what_it_does_and_hears_of_kills(embedded: EmbeddedBroker) -> None:
    with (
        StandIn(embedded.bootstrap) as worker,
        Guard(mode="local", session_id="s1", bootstrap=embedded.bootstrap, start_budget_s=20) as guard,
    ):
        assert attempts(guard, 1) == ["executed"]
        wait_until(lambda: worker.of(Kind.COMPLETED), "what was done has arrived")
        assert not worker.of(Kind.PROPOSED)[0].await_verdict
        worker.control(standing(code="session_killed_by_operator"))
        wait_until(lambda: guard.killed, "the kill has arrived")
        assert attempts(guard, 1, asset_id="other") == ["session_killed_by_operator"]


def test_the_sessions_of_one_tree_share_their_counts_and_are_killed_together() -> None:
    guard = Guard(mode="local", session_id="root of eight")
    below = [guard.subagent() for _ in range(8)]
    deepest = below[0].subagent()
    assert attempt(deepest, "look") == "executed"
    assert [code for one in below for code in attempts(one, 2)] == [*THIRD, *[KILLED] * 13]
    assert guard.killed
    assert attempt(deepest, "look") == KILLED
    with pytest.raises(Refused):
        deepest.check()
    assert guard.subagent().killed


def test_a_kill_stops_sessions_below_that_began_before_it_and_after_its_end() -> None:
    before = Guard(mode="local", session_id="began before", ancestors=("late parent",))
    assert attempts(before, 1) == ["executed"]
    with Guard(mode="local", session_id="late parent") as parent:
        assert attempts(parent, 3) == THIRD
    assert attempts(before, 1, asset_id="other") == [KILLED]
    assert Guard(mode="local", parent_session_id="late parent").killed
    assert Guard(mode="local", root_session_id="late parent").killed
    assert not Guard(mode="local", parent_session_id="another").killed
