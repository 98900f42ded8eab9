import threading
from pathlib import Path

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.interventions.agent.transport.kafka_transport import KafkaTransport
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import Kind, Outcome
from tests.interventions.agent.attempts import attempt, attempts, guard_of
from tests.interventions.agent.stand_in import StandIn, standing
from tests.mock_cluster import MockCluster, client_threads
from tests.waiting import wait_until


def listeners() -> int:
    return sum(thread.name == "haltline-kafka" for thread in threading.enumerate())


def test_many_guards_are_one_connection_and_each_hears_its_own(cluster: MockCluster) -> None:
    with StandIn(cluster.bootstrap) as worker:
        before = client_threads()
        guards = [guard_of(cluster.bootstrap, f"s{number}", mode="blocking") for number in range(60)]
        assert {attempt(guard) for guard in guards} == {"executed"}
        # What stands for the worker may have begun its own only now: a few more, and not four for each guard.
        assert client_threads() - before < 50
        assert listeners() == 1
        worker.control(standing(scope_id="s7"))
        wait_until(lambda: guards[7].killed, "the kill has come")
        assert [guard.session_id for guard in guards if guard.killed] == ["s7"]
        late = guard_of(cluster.bootstrap, "late", parent_session_id="s7")
        assert attempt(late) != "executed", "what stood before it joined is known"

        def dropping() -> set[str]:
            return {attempt(guard, "drop_table", effect="read") for guard in guards[:3]}

        worker.control(standing(ScopeKind.TOOL, "drop_table"))
        wait_until(lambda: "executed" not in dropping(), "each of three refuses it")
        worker.release(ScopeKind.TOOL, "drop_table")
        wait_until(lambda: dropping() == {"executed"}, "none of them does any more")
        for guard in [*guards, late]:
            guard.close()
        wait_until(lambda: listeners() == 0, "their thread has ended; that the client's have, every test looks at")
        wait_until(lambda: len(worker.of(Kind.SESSION_ENDED)) == 61, "all ends have arrived")


def test_what_happens_while_the_broker_is_away_arrives_when_it_is_back(cluster: MockCluster, tmp_path: Path) -> None:
    with StandIn(cluster.bootstrap) as worker, guard_of(cluster.bootstrap, spool_dir=str(tmp_path)) as guard:
        attempt(guard)
        cluster.set_down()
        wait_until(
            lambda: guard.degraded == "the broker is unavailable", "the guard knows that the broker is unavailable"
        )
        for number in range(50):
            assert attempt(guard, args={"number": number}) == "executed"
        assert attempts(guard, 1) == ["no_verdict"]
        assert any(tmp_path.iterdir())
        cluster.set_up()
        wait_until(lambda: Outcome.REFUSED in worker.outcomes(), "what was refused meanwhile has arrived")
        seqs = list(dict.fromkeys(event.seq for event in worker.events))
        assert seqs == sorted(seqs, key=lambda seq: seq or 0), "in order"
        assert len(seqs) == 1 + 2 * 51 + 2
        assert guard.dropped == 0
        wait_until(lambda: attempts(guard, 1) == ["executed"], "the worker answers again")
        worker.control(standing())
        wait_until(lambda: guard.killed, "a kill still arrives")
    assert list(tmp_path.iterdir()) == []


def test_a_full_queue_has_room_left_for_what_destroys(cluster: MockCluster) -> None:
    kafka = {"queue.buffering.max.messages": 100, "linger.ms": 60_000}
    link = KafkaTransport(GuardSettings(bootstrap=cluster.bootstrap, kafka=kafka))
    handed = [link.publish("haltline.actions", b"{}") for _ in range(200)]
    assert handed == [True] * 90 + [False] * 110
    must = [link.publish("haltline.actions", b"{}", must=True) for _ in range(20)]
    assert must == [True] * 10 + [False] * 10
    link.close(0.0)


def test_what_destroys_is_not_done_when_it_cannot_be_reported_and_what_is_dropped_is_counted() -> None:
    guard = ScriptedGuard(mode="async")
    guard.start()
    guard.script.full = True
    assert (attempt(guard), guard.dropped) == ("executed", 2)
    assert attempts(guard, 1) == ["no_verdict"], "nobody would hear of it"
    guard.script.full = False
    attempt(guard)
    guard.close()
    assert [event.dropped for event in guard.events if event.dropped] == [4], "told once there is room again"
