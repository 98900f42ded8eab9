from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from haltline.interventions.agent import Guard, Level, Refused
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.local_decider import forget_kills
from haltline.interventions.agent.transport.worker_presence import (
    GONE,
    MOVED,
    WorkerPresence,
)
from haltline.schemas.control import ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import Kind, Usage
from haltline.schemas.keys import make_keys
from haltline.schemas.partitioner import partition_of
from haltline.schemas.seals import Sealer
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.attempts import KILLED, attempt, attempts, guard_of
from tests.interventions.agent.stand_in import StandIn, now_ms, standing
from tests.waiting import wait_until

THIRD = ["executed", "executed", KILLED]


@pytest.fixture(autouse=True)
def _sessions_begin_anew() -> Iterator[None]:
    """Other tests of this process have sessions of the same names."""
    yield
    forget_kills()


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
    with pytest.raises(Refused, match="session_frozen_spend_velocity"):
        guard.check()
    assert attempts(guard, 1) == ["session_frozen_spend_velocity"]
    guard.model_turn(usage=Usage(cost_usd=70))  # of a turn that was on its way
    with pytest.raises(Refused, match="session_killed_spend_velocity"):
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


FROZEN = standing(state=ControlState.FROZEN, code="session_frozen")


@pytest.fixture
def key(tmp_path: Path) -> str:
    return str(make_keys(tmp_path / "worker.pem"))


@pytest.fixture
def sealer(key: str) -> Sealer:
    return Sealer(Path(key).with_suffix(""))


@pytest.fixture
def worker(embedded: EmbeddedBroker, sealer: Sealer) -> Iterator[StandIn]:
    with StandIn(embedded.bootstrap, sealer=sealer) as stand_in:
        yield stand_in


def test_what_the_worker_seals_is_obeyed_if_it_is_new(embedded: EmbeddedBroker, worker: StandIn, key: str) -> None:
    with guard_of(embedded.bootstrap, mode="blocking", verify_key=key) as guard:
        assert attempts(guard, 1) == ["executed"]
        worker.control(FROZEN)
        wait_until(lambda: attempts(guard, 1) == [FROZEN.code], "the sealed stop has come")
        worker.release(ScopeKind.SESSION, "s1")
        wait_until(lambda: attempts(guard, 1) == ["executed"], "so has the sealed release")
        worker.control(FROZEN)
        worker.seal_ms = now_ms() - 120_000
        worker.release(ScopeKind.SESSION, "s1")
        with guard_of(embedded.bootstrap, mode="blocking", verify_key=key) as later:
            assert attempts(later, 1) == [FROZEN.code]
        worker.seal_ms = now_ms() - 30_000  # less than clocks may differ by
        worker.release(ScopeKind.SESSION, "s1")
        wait_until(lambda: attempts(guard, 1) == ["executed"], "a worker's clock may be slow")
        worker.seal_ms = None
        worker.control(standing())
        wait_until(lambda: guard.killed, "and the sealed kill")


@pytest.mark.parametrize("forged", ["not sealed", "sealed with another key"])
def test_a_forged_verdict_is_none(
    embedded: EmbeddedBroker, worker: StandIn, key: str, tmp_path: Path, forged: str
) -> None:
    make_keys(tmp_path / "other.pem")
    worker.sealer = None if forged == "not sealed" else Sealer(tmp_path / "other.pem")
    with guard_of(embedded.bootstrap, mode="blocking", budget_s=0.3, first_budget_s=0.3, verify_key=key) as guard:
        assert attempts(guard, 1) == ["no_verdict"], "it destroys, and nobody has allowed it"
    assert worker.of(Kind.PROPOSED)


def test_nobody_else_releases_a_stop(embedded: EmbeddedBroker, worker: StandIn, sealer: Sealer, key: str) -> None:
    worker.control(FROZEN)
    worker.sealer = None
    worker.release(ScopeKind.SESSION, "s1")
    worker.control(standing(state=ControlState.CONTAINED, code="softer"))
    with guard_of(embedded.bootstrap, verify_key=key) as guard:
        assert attempts(guard, 1) == [FROZEN.code]
        worker.sealer = sealer
        worker.release(ScopeKind.SESSION, "s1")
        wait_until(lambda: attempts(guard, 1) == ["executed"], "a worker does")


def test_a_forged_stop_freezes_until_a_worker_speaks(
    embedded: EmbeddedBroker, worker: StandIn, sealer: Sealer, key: str
) -> None:
    worker.sealer = None
    worker.control(standing(ScopeKind.TOOL, "delete_asset"))
    with guard_of(embedded.bootstrap, mode="async", verify_key=key) as guard:
        assert attempts(guard, 1) == ["control_entry_not_sealed"]
        assert not guard.killed
        worker.sealer = sealer
        worker.release(ScopeKind.TOOL, "delete_asset")
        wait_until(lambda: attempts(guard, 1) == ["executed"], "a worker says that nothing stands")


def test_a_key_is_found_in_the_environment_and_checked_at_once(tmp_path: Path, sealer: Sealer, key: str) -> None:
    with pytest.raises(ValueError, match="verify_key: expected files of public keys"):
        guard_of("127.0.0.1:9", verify_key=str(tmp_path / "none.pem"))
    with pytest.raises(ValueError, match="expected an ed25519 public key"):
        guard_of("127.0.0.1:9", verify_key=key.removesuffix(".pub"))
    environ = {"HALTLINE_VERIFY_KEY": key, "HALTLINE_BOOTSTRAP": "127.0.0.1:9"}
    assert GuardSettings.from_env(environ).verify_key == key


STAYS, MOVES = (
    next(name for name in (f"s{n}" for n in range(100)) if (partition_of(name, 4) == partition_of(name, 6)) is same)
    for same in (True, False)
)


def watching() -> tuple[WorkerPresence, SimpleNamespace]:
    """Of a topic of four partitions, and its clock."""
    clock = SimpleNamespace(now_s=1000.0)
    watched = WorkerPresence(now_s=lambda: clock.now_s)
    watched.looked(4)
    return watched, clock


def test_a_topic_that_stays_says_nothing_nor_do_reports_in_another_order() -> None:
    watched, clock = watching()
    for offset in (51, 50, 52):
        watched.delivered(0, offset)
        watched.delivered(1, 2 * offset)
    clock.now_s += 100
    watched.delivered(0, 53)
    watched.looked(4)
    assert [watched.unwatched_reason(MOVES), watched.unwatched_reason()] == [None, None]


def test_offsets_that_begin_again_tell_for_a_while_that_it_was_recreated() -> None:
    watched, clock = watching()
    watched.delivered(2, 50)
    clock.now_s += 10
    watched.delivered(2, 0)
    assert watched.unwatched_reason(STAYS) == RECREATED
    clock.now_s += RESTART_WITHIN_S
    watched.delivered(2, 1)
    assert watched.unwatched_reason(STAYS) is None


def test_a_topic_that_is_gone_is_told_of_until_it_is_back_and_then_what_moved() -> None:
    watched, _ = watching()
    watched.looked(None)
    assert watched.unwatched_reason(STAYS) == GONE
    watched.looked(6)
    assert [watched.unwatched_reason(name) for name in (MOVES, STAYS, None)] == [MOVED, None, MOVED]
