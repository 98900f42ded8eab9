import itertools
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from haltline.interventions.agent import Level, Refused
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.interventions.agent.transport.kafka_transport import KafkaTransport
from haltline.schemas.control import Stage
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.grown_topics import GROWN
from tests.interventions.agent.attempts import KILLED, attempt, attempts, guard_of
from tests.interventions.agent.stand_in import PARTITIONS, StandIn, silent, standing, third_delete_kills
from tests.mock_cluster import ApiKey, MockCluster, client_threads
from tests.programs import printed
from tests.waiting import wait_until


@pytest.fixture
def worker(embedded: EmbeddedBroker) -> Iterator[StandIn]:
    with StandIn(embedded.bootstrap, third_delete_kills()) as stand_in:
        yield stand_in


def test_the_third_delete_is_refused_and_all_after_it(embedded: EmbeddedBroker, worker: StandIn) -> None:
    neighbours = [f"n{n}" for n in range(40) if partition_of(f"n{n}", PARTITIONS) == partition_of("s1", PARTITIONS)]
    with (
        guard_of(embedded.bootstrap, "s1", mode="blocking") as guard,
        guard_of(embedded.bootstrap, neighbours[0], mode="blocking") as other,
    ):
        assert attempts(guard, 5) == ["executed", "executed", *[KILLED] * 3]
        worker.control(standing())
        assert attempts(other, 2) == ["executed", "executed"]
        assert not other.killed
    wait_until(lambda: worker.of(Kind.SESSION_ENDED, "s1"), "the end of the session has arrived")
    assert worker.outcomes("s1") == [Outcome.OK, Outcome.OK, *[Outcome.REFUSED] * 3]
    assert len(worker.of(Kind.PROPOSED, "s1")) == 3
    stages = [Stage.RECEIVED, Stage.APPLIED, Stage.STOPPED, *[Stage.REFUSED] * 3]
    wait_until(lambda: worker.stages("s1")[: len(stages)] == stages, "all feedback has arrived")


def test_the_first_verdict_of_a_connection_may_take_as_long_as_a_start(embedded: EmbeddedBroker) -> None:
    """The worker is slow: the first call waits for it, and is made; the next ones have their usual budget."""
    asked, over = itertools.count(), threading.Event()

    def slowly(_: ActionEvent) -> Level:
        over.wait(60 if next(asked) else 0.5)  # the second verdict comes when nobody waits for it any more
        return Level.ALLOW

    with (
        StandIn(embedded.bootstrap, slowly),
        guard_of(embedded.bootstrap, mode="blocking", budget_s=0.1, first_budget_s=20) as guard,
    ):
        try:
            assert attempts(guard, 2) == ["executed", "no_verdict"]
        finally:
            over.set()


def test_with_the_broker_gone_after_the_kill_every_call_is_still_refused() -> None:
    with EmbeddedBroker() as broker:
        broker.ensure_topics(Topics())
        with StandIn(broker.bootstrap) as worker:
            guards = [guard_of(broker.bootstrap, mode=mode, close_budget_s=0.1) for mode in ("async", "blocking")]
            for guard in guards:
                guard.start()
            worker.control(standing())
            wait_until(lambda: all(guard.killed for guard in guards), "the kill has arrived")
    for guard in guards:
        assert attempts(guard, 2) == [KILLED] * 2
        with pytest.raises(Refused, match="haltline stopped this session"):
            guard.check()
        guard.close()


def test_a_kill_wakes_a_call_that_waits_for_its_verdict(embedded: EmbeddedBroker) -> None:
    with (
        StandIn(embedded.bootstrap, silent) as worker,
        guard_of(embedded.bootstrap, mode="blocking", budget_s=600.0) as guard,
        ThreadPoolExecutor(1) as pool,
    ):
        call = pool.submit(attempts, guard, 1)
        wait_until(lambda: worker.of(Kind.PROPOSED), "the call waits")
        worker.control(standing())
        assert call.result(timeout=60) == [KILLED]


def test_a_place_that_the_broker_has_lost_is_found_anew(cluster: MockCluster, caplog: pytest.LogCaptureFixture) -> None:
    with StandIn(cluster.bootstrap) as worker, guard_of(cluster.bootstrap, mode="async") as guard:
        assert attempts(guard, 1) == ["executed"]
        offset_out_of_range = 1
        cluster.fail_next(ApiKey.FETCH, [offset_out_of_range] * 4)
        wait_until(lambda: "has to be read anew" in caplog.text, "the guard has lost its place")
        wait_until(lambda: guard.ready, "the guard knows what stands")
        worker.control(standing())
        wait_until(lambda: guard.killed, "a kill still arrives")


def test_topics_that_come_late_are_found(cluster: MockCluster) -> None:
    unknown = 3  # UNKNOWN_TOPIC_OR_PART, as a real cluster answers that makes no topics by itself
    for topic in (Topics().control, Topics().interventions):
        cluster.fail_topic(topic, unknown)
    with guard_of(cluster.bootstrap, mode="async", ask_from=None, start_budget_s=0.1) as guard:
        assert attempts(guard, 1) == ["no_verdict"]
        for topic in (Topics().control, Topics().interventions):
            cluster.fail_topic(topic, 0)
        wait_until(lambda: guard.ready, "the guard knows what stands")
        assert attempts(guard, 1) == ["executed"]


def test_topics_that_an_earlier_release_has_grown_are_refused_by_the_name_of_those_in_use(
    embedded: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    produce_confirmed(embedded.bootstrap, Topics().control, key=SETS_KEY, value=GROWN)
    with guard_of(embedded.bootstrap, mode="blocking", start_budget_s=1.0, budget_s=1.0) as guard:
        assert attempt(guard, "delete_asset") == "no_verdict"
        wait_until(lambda: "set --prefix haltline.2." in caplog.text, "the log names the prefix in use")
        assert attempt(guard, "get_asset") == "executed", "as while the broker is away"


def test_an_unreadable_entry_holds_as_frozen_and_other_records_are_passed_over(
    embedded: EmbeddedBroker, worker: StandIn
) -> None:
    producer = Producer({"bootstrap.servers": embedded.bootstrap, "partitioner": "murmur2_random"})

    def written(topic: str, key: bytes, *values: bytes | None) -> None:
        for value in values:
            producer.produce(topic, key=key, value=value)
        assert producer.flush(10) == 0

    written(Topics().control, b"session:s1", b'{"v": 99, "what": "is this"}')
    with guard_of(embedded.bootstrap, mode="blocking") as guard:
        assert attempts(guard, 1) == ["control_entry_unreadable"]
        written(Topics().control, b"session:s1", None)
        wait_until(lambda: attempt(guard) == "executed", "the entry is gone")
        written(Topics().interventions, b"s1", b"not json", None)
        written(Topics().control, b"galaxy:far", b"not json")
        assert attempts(guard, 1) == ["executed"]


FORKING = """
import os, sys
from haltline.interventions.agent import Guard, Refused

guard = Guard(session_id="s1", bootstrap=sys.argv[1], mode="blocking", budget_s=20, start_budget_s=20)
guard.start()
with guard.action("get_asset"):
    pass
if (child := os.fork()) == 0:
    try:
        with guard.action("delete_asset"):
            print("executed in the child", flush=True)
    except Refused as refused:
        print(refused.code, flush=True)
    guard.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
guard.close()
sys.exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_is_guarded_too(embedded: EmbeddedBroker, worker: StandIn) -> None:
    command = [sys.executable, "-c", FORKING, embedded.bootstrap]
    assert printed(*command) == "executed in the child\n"
    wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the end of the session has arrived")
    assert [event.action for event in worker.of(Kind.COMPLETED)] == ["get_asset", "delete_asset"]
    assert len(worker.of(Kind.SESSION_STARTED)) == len(worker.of(Kind.SESSION_ENDED)) == 1


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
