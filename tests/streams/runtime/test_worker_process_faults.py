"""What a worker does when the broker or the group fails it: it goes on exactly, or it ends and says why."""

import re
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

import pytest
from confluent_kafka import KafkaError

from haltline.streams.local.embedded_broker import FETCH_WAIT_MS
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.mock_cluster import ApiKey, MockCluster
from tests.streams.counting import CountingWorker, Log, expected_tellings, produce
from tests.waiting import wait_until

GROUP = "faulty"
CHANGELOG = f"{GROUP}-sessions-changelog"
KEYS = [f"session-{n}" for n in range(40)]


class Stage:
    """A mock cluster with the counting worker's topics."""

    def __init__(self, cluster: MockCluster) -> None:
        self.cluster = cluster
        self.log = Log(cluster.bootstrap)

    def worker(self, **options: Any) -> CountingWorker:
        settings = {"fetch_wait_ms": FETCH_WAIT_MS, "session_timeout_s": 3, **options}
        return CountingWorker(self.cluster.bootstrap, topics=["events"], output="told", group=GROUP, **settings)

    def produce(self, records: int) -> None:
        produce(self.cluster.bootstrap, "events", islice(cycle(KEYS), records))

    def wait_until_done(self) -> None:
        self.log.wait_until_committed(GROUP, ["events"])

    def check_exact(self, records: int) -> None:
        """Every record is counted once, and all was told."""
        sent = dict.fromkeys(KEYS, records // len(KEYS))
        assert self.log.counts(CHANGELOG) == sent
        assert self.log.told("told").keys() == expected_tellings(sent)


@pytest.fixture
def stage(mock_cluster: Callable[[], MockCluster]) -> Iterator[Stage]:
    cluster = mock_cluster()
    for topic in ("events", "told", CHANGELOG):
        cluster.create_topic(topic)
    stage = Stage(cluster)
    yield stage
    stage.log.close()


def test_a_worker_that_the_group_dropped_joins_again_and_counts_each_record_once(stage: Stage) -> None:
    with stage.worker(checkpoint_interval_s=3600) as worker:
        stage.produce(2000)
        wait_until(lambda: sum(stage.log.ends("told").values()) == 200, "all is processed, and none of it committed")
        stage.cluster.fail_next(ApiKey.HEARTBEAT, [KafkaError.UNKNOWN_MEMBER_ID])
        wait_until(lambda: sum(stage.log.ends("told").values()) == 400, "all is processed again")
        worker.stop()

    assert "go without a checkpoint" in worker.stderr
    stage.check_exact(2000)


def test_a_coordinator_that_moves_is_followed(stage: Stage) -> None:
    with stage.worker() as worker:
        stage.produce(400)
        stage.wait_until_done()
        stage.cluster.fail_next(ApiKey.OFFSET_COMMIT, [KafkaError.NOT_COORDINATOR] * 2)
        stage.produce(400)
        stage.wait_until_done()
        worker.stop()

    stage.check_exact(800)


def test_a_broker_that_comes_back_within_the_delivery_timeout_is_waited_for(stage: Stage) -> None:
    with stage.worker() as worker:
        stage.produce(400)
        stage.wait_until_done()
        stage.cluster.fail_next(ApiKey.PRODUCE, [KafkaError.NOT_LEADER_FOR_PARTITION] * 5)
        stage.produce(400)
        stage.wait_until_done()
        worker.stop()

    stage.check_exact(800)


def test_a_record_that_the_broker_refuses_ends_the_process_and_commits_nothing_of_it(stage: Stage) -> None:
    with stage.worker() as worker:
        stage.produce(400)
        stage.wait_until_done()
        committed = stage.log.committed(GROUP, "events")
        stage.cluster.fail_next(ApiKey.PRODUCE, [0] + [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 1000)
        # The first produce request is this one, and the rest are the worker's.
        produce(stage.cluster.bootstrap, "events", [KEYS[0]] * 10)
        assert worker.wait() == EXIT_FAILED
    assert "DeliveryFailed: topic told, partition" in worker.stderr
    assert "TOPIC_AUTHORIZATION_FAILED" in worker.stderr
    assert stage.log.committed(GROUP, "events") == committed

    stage.cluster.stop_failing(ApiKey.PRODUCE)
    with stage.worker() as worker:
        stage.wait_until_done()
        worker.stop()
    assert stage.log.counts(CHANGELOG)[KEYS[0]] == 20


def test_a_broker_that_stays_away_ends_the_process(stage: Stage) -> None:
    with stage.worker(delivery_timeout_s=2) as worker:
        stage.produce(400)
        stage.wait_until_done()
        stage.cluster.fail_next(ApiKey.PRODUCE, [0] + [KafkaError.NOT_LEADER_FOR_PARTITION] * 100_000)
        produce(stage.cluster.bootstrap, "events", [KEYS[0]] * 10)
        assert worker.wait() == EXIT_FAILED

    assert "DeliveryFailed" in worker.stderr


def test_a_recovery_that_stands_still_ends_the_process(stage: Stage) -> None:
    with stage.worker() as worker:
        stage.produce(400)
        stage.wait_until_done()
        worker.stop()
    stage.cluster.fail_next(ApiKey.FETCH, [KafkaError.UNKNOWN] * 100_000)
    with stage.worker(recovery_stuck_after_s=2) as worker:
        assert worker.wait() == EXIT_FAILED

    assert f"RecoveryStuck: recovery: expected to read on in {CHANGELOG} within 2 s, up to the claims" in worker.stderr


def test_no_broker_at_all_ends_the_process(stage: Stage) -> None:
    stage.cluster.set_down()
    with stage.worker() as worker:
        assert worker.wait() == EXIT_FAILED

    (result,) = [line for line in worker.stderr.splitlines() if "haltline worker: ends" in line]
    assert re.match(
        r"haltline worker: ends: KnownFailure: topics .*events.*: expected their metadata within 10 s", result
    )
    assert "Traceback" not in worker.stderr, "the reason is known"
