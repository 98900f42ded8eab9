"""The guard over a broker: the product's embedded one, with a stand-in for the worker."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from haltline.interventions.agent import Guard, Level, Refused
from haltline.schemas.control import Stage
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import PARTITIONS, StandIn, silent, standing, third_delete_kills
from tests.mock_cluster import ApiKey, MockCluster
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
PATIENT = {"budget_s": 20.0, "start_budget_s": 20.0}  # a busy machine must not look like a silent worker


@pytest.fixture
def worker(embedded: EmbeddedBroker) -> Iterator[StandIn]:
    with StandIn(embedded.bootstrap, third_delete_kills()) as stand_in:
        yield stand_in


def guard_of(bootstrap: str, session_id: str = "s1", **options: object) -> Guard:
    return Guard(session_id=session_id, agent_id="cleaner", bootstrap=bootstrap, **(PATIENT | options))  # type: ignore[arg-type]  # options of each test


def delete(guard: Guard) -> str:
    with guard.action("delete_asset", args={"asset_id": "fact_sales"}) as act:
        act.result("asset still exists")
        return "executed"


def attempts(guard: Guard, times: int) -> list[str]:
    actual = []
    for _ in range(times):
        try:
            actual.append(delete(guard))
        except Refused as refused:
            actual.append(refused.code)
    return actual


def in_a_process(bootstrap: str, session_id: str, tool: str, times: int, prefix: str = "haltline.") -> list[str]:
    module = "tests.interventions.agent.agent_process"
    done = subprocess.run(
        [sys.executable, "-m", module, bootstrap, session_id, tool, str(times), prefix],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_third_delete_is_refused_and_so_is_everything_after_it(embedded: EmbeddedBroker, worker: StandIn) -> None:
    with guard_of(embedded.bootstrap, mode="blocking") as guard:
        assert attempts(guard, 5) == ["executed", "executed", *["session_killed_loop_guard"] * 3]
    wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the end of the session has arrived")
    assert worker.outcomes() == [Outcome.OK, Outcome.OK, *[Outcome.REFUSED] * 3]
    assert len(worker.of(Kind.PROPOSED)) == 3
    wait_until(lambda: len(worker.feedback) == 6, "all feedback has arrived")
    assert worker.stages() == [Stage.RECEIVED, Stage.APPLIED, Stage.STOPPED, *[Stage.REFUSED] * 3]


def test_another_session_of_the_same_agent_and_partition_goes_on(embedded: EmbeddedBroker, worker: StandIn) -> None:
    neighbours = [f"n{n}" for n in range(40) if partition_of(f"n{n}", PARTITIONS) == partition_of("s1", PARTITIONS)]
    with (
        guard_of(embedded.bootstrap, "s1", mode="blocking") as killed,
        guard_of(embedded.bootstrap, neighbours[0], mode="blocking") as other,
    ):
        assert attempts(killed, 3)[-1] == "session_killed_loop_guard"
        worker.control(standing())
        assert attempts(other, 2) == ["executed", "executed"]
        assert not other.killed


def test_a_new_process_is_refused_without_any_worker_until_an_operator_resets_it(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        assert in_a_process(embedded.bootstrap, "s1", "delete_asset", 3)[-2:] == [
            "session_killed_loop_guard",
            "executed 2",
        ]
        worker.control(standing())
    again = in_a_process(embedded.bootstrap, "s1", "delete_asset", 2)
    assert again == ["session_killed_loop_guard", "session_killed_loop_guard", "executed 0"]
    with StandIn(embedded.bootstrap, silent) as operator:
        operator.release(ScopeKind.SESSION, "s1")
    assert in_a_process(embedded.bootstrap, "s1", "get_asset", 1)[-1] == "executed 1"


def test_the_first_verdict_of_a_connection_may_take_as_long_as_a_start(embedded: EmbeddedBroker) -> None:
    """The worker is slow each time: the first call waits for it, and is made; the next ones have their usual budget."""

    def slowly(_: ActionEvent) -> Level:
        time.sleep(0.5)
        return Level.ALLOW

    with (
        StandIn(embedded.bootstrap, slowly),
        guard_of(embedded.bootstrap, mode="blocking", budget_s=0.1, first_budget_s=20) as guard,
    ):
        assert attempts(guard, 2) == ["executed", "no_verdict"]


@pytest.mark.parametrize("mode", ["async", "blocking"])
def test_with_the_broker_gone_after_the_kill_every_call_is_still_refused(mode: str) -> None:
    with EmbeddedBroker() as broker:
        broker.ensure_topics(Topics())
        with StandIn(broker.bootstrap) as worker:
            guard = guard_of(broker.bootstrap, mode=mode, close_budget_s=0.1)
            guard.start()
            worker.control(standing())
            wait_until(lambda: guard.killed, "the kill has arrived")
    assert attempts(guard, 2) == ["session_killed_loop_guard"] * 2
    with pytest.raises(Refused, match="session_killed_loop_guard"):
        guard.check()
    guard.close()


def test_a_kill_while_the_agent_works(embedded: EmbeddedBroker, worker: StandIn) -> None:
    scope, scope_id, code = ScopeKind.SESSION, "parent", "session_killed_loop_guard"
    with guard_of(embedded.bootstrap, mode="async", parent_session_id="parent") as guard:
        assert delete(guard) == "executed"
        worker.control(standing(scope, scope_id, code=code))
        wait_until(lambda: guard.killed, "the kill has arrived")
        assert attempts(guard, 2) == [code, code]
        wait_until(lambda: worker.stages().count(Stage.REFUSED) == 2, "the feedback has arrived")
    assert worker.stages() == [Stage.RECEIVED, Stage.APPLIED, Stage.STOPPED, Stage.REFUSED, Stage.REFUSED]
    assert {feedback.decision_id for feedback in worker.feedback} == {f"stands-{scope}-{scope_id}"}


def test_a_kill_wakes_a_call_that_waits_for_its_verdict(embedded: EmbeddedBroker) -> None:
    with (
        StandIn(embedded.bootstrap, silent) as worker,
        guard_of(embedded.bootstrap, mode="blocking", budget_s=600.0) as guard,
    ):
        actual: list[str] = []
        call = threading.Thread(target=lambda: actual.extend(attempts(guard, 1)))
        call.start()
        wait_until(lambda: worker.of(Kind.PROPOSED), "the call waits")
        worker.control(standing())
        call.join(timeout=60)
        assert actual == ["session_killed_loop_guard"]


def test_closing_flushes_what_was_reported(embedded: EmbeddedBroker) -> None:
    with guard_of(embedded.bootstrap, mode="async", kafka={"linger.ms": 5000}) as guard:
        for _ in range(500):
            with guard.action("get_asset"):
                pass
    assert guard.dropped == 0
    with StandIn(embedded.bootstrap) as worker:
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "everything has arrived")
        assert len(worker.of(Kind.COMPLETED)) == 500
        assert [event.seq for event in worker.events] == list(range(1002))


def test_with_no_broker_at_the_start_reads_go_on_and_destructive_calls_are_refused() -> None:
    guard = guard_of("127.0.0.1:1", mode="blocking", budget_s=0.1, start_budget_s=0.2, close_budget_s=0.1)
    with guard:
        assert attempts(guard, 2) == ["no_verdict", "no_verdict"]
        with guard.action("get_asset") as act:
            act.result("here")


def test_a_broker_that_was_away_is_found_again(mock_cluster: Callable[[int], MockCluster]) -> None:
    cluster = mock_cluster(1)
    for topic in Topics().all:
        cluster.create_topic(topic)
    with (
        StandIn(cluster.bootstrap) as worker,
        guard_of(cluster.bootstrap, mode="blocking", budget_s=0.5, close_budget_s=20) as guard,
    ):
        wait_until(lambda: attempts(guard, 1) == ["executed"], "the worker answers")
        cluster.set_down()
        wait_until(lambda: attempts(guard, 1) == ["no_verdict"], "the broker is away")
        cluster.set_up()
        wait_until(lambda: attempts(guard, 1) == ["executed"], "the worker answers again")
        worker.control(standing())
        wait_until(lambda: guard.killed, "a kill still arrives")


def test_a_place_that_the_broker_does_not_know_any_more_is_found_anew(
    mock_cluster: Callable[[int], MockCluster], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = mock_cluster(1)
    for topic in Topics().all:
        cluster.create_topic(topic)
    with StandIn(cluster.bootstrap) as worker, guard_of(cluster.bootstrap, mode="async") as guard:
        assert delete(guard) == "executed"
        offset_out_of_range = 1
        cluster.fail_next(ApiKey.FETCH, [offset_out_of_range] * 4)
        wait_until(lambda: "has to be read anew" in caplog.text, "the guard has lost its place")
        wait_until(lambda: guard.ready, "the guard knows what stands")
        worker.control(standing())
        wait_until(lambda: guard.killed, "a kill still arrives")


def test_topics_that_come_late_are_found(mock_cluster: Callable[[int], MockCluster]) -> None:
    cluster, topics = mock_cluster(1), Topics()
    unknown = 3  # UNKNOWN_TOPIC_OR_PART, as a real cluster answers that makes no topics by itself
    for topic in (topics.control, topics.interventions):
        cluster.create_topic(topic)
        cluster.fail_topic(topic, unknown)
    with guard_of(cluster.bootstrap, mode="async", ask_from=None, start_budget_s=0.1) as guard:
        assert attempts(guard, 1) == ["no_verdict"]
        for topic in (topics.control, topics.interventions):
            cluster.fail_topic(topic, 0)
        wait_until(lambda: guard.ready, "the guard knows what stands")
        assert attempts(guard, 1) == ["executed"]


def test_an_entry_that_cannot_be_read_holds_as_frozen(embedded: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": embedded.bootstrap, "partitioner": "murmur2_random"})
    producer.produce(Topics().control, key=b"session:s1", value=b'{"v": 99, "what": "is this"}')
    assert producer.flush(10) == 0
    with guard_of(embedded.bootstrap, mode="async", ask_from=None) as guard:
        assert attempts(guard, 1) == ["control_entry_unreadable"]
        producer.produce(Topics().control, key=b"session:s1", value=None)
        assert producer.flush(10) == 0
        wait_until(lambda: attempts(guard, 1) == ["executed"], "the entry is gone")


def test_records_that_cannot_be_read_are_passed_over(embedded: EmbeddedBroker, worker: StandIn) -> None:
    producer = Producer({"bootstrap.servers": embedded.bootstrap, "partitioner": "murmur2_random"})
    with guard_of(embedded.bootstrap, mode="blocking") as guard:
        assert delete(guard) == "executed"
        producer.produce(Topics().interventions, key=b"s1", value=b"not json")
        producer.produce(Topics().interventions, key=b"s1", value=None)
        producer.produce(Topics().control, key=b"galaxy:far", value=b"not json")
        assert producer.flush(10) == 0
        assert delete(guard) == "executed"


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
    done = subprocess.run(
        [sys.executable, "-c", FORKING, embedded.bootstrap], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "executed in the child\n"), done.stderr
    wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the end of the session has arrived")
    assert [event.action for event in worker.of(Kind.COMPLETED)] == ["get_asset", "delete_asset"]
    assert len(worker.of(Kind.SESSION_STARTED)) == len(worker.of(Kind.SESSION_ENDED)) == 1
