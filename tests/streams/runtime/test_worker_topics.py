"""The topics of a worker that cannot be joined by partition, and partitions that are added while it runs."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # its stubs miss one

from haltline.schemas.keys import make_keys
from haltline.schemas.topics import Topics
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_worker, wait_until_ready
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.conftest import PARTITIONS
from tests.mock_cluster import MockCluster
from tests.streams.broker_log import Log, get
from tests.streams.commands import haltline
from tests.waiting import wait_until


def test_partitions_that_are_added_stay_unread_when_a_worker_takes_over_and_the_others_are_watched(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    actions, group = kafka_topics.actions, kafka_topics.prefix.removesuffix(".")
    log = Log(kafka.bootstrap)
    request.addfinalizer(log.close)
    with Children(tmp_path) as children:
        workers = [
            start_worker(children, kafka.bootstrap, "--prefix", kafka_topics.prefix, embedded=False, name=name)
            for name in ("leaves", "stays")
        ]
        for worker in workers:
            url = wait_until_ready(children, worker)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_partitions([NewPartitions(actions, PARTITIONS + 2)])[actions].result()
        wait_until(lambda: len(log.ends(actions)) == PARTITIONS + 2, "there are more partitions")
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for number in range(10 * (PARTITIONS + 2)):
            producer.produce(actions, b"{}", b"k", partition=number % (PARTITIONS + 2))
        assert producer.flush(30) == 0
        assert workers[0].stop(within_s=60) == 0, workers[0].last_lines(100)
        read = {number: 10 if number < PARTITIONS else 0 for number in range(PARTITIONS + 2)}
        wait_until(lambda: log.committed(group, actions) == read, "the partitions of before are read", deadline_s=90)
        port = int(url.rpartition(":")[2])
        expected = f"topic {actions}: expected {PARTITIONS} partitions"
        wait_until(lambda: expected in get(port, "/readyz")[1], "it is not ready, and says why", deadline_s=90)
        result = get(port, "/readyz")[1]
        assert (f"got {PARTITIONS + 2}" in result, "haltline topics new" in result) == (True, True)
        assert get(port, "/healthz")[0] == 200, "to start it again would not help"


def test_topics_that_cannot_be_joined_by_partition_are_refused(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create_topic("haltline-sessions-changelog", 3)
    with Children(tmp_path) as children:
        worker = start_worker(children, cluster.bootstrap, embedded=False)
        wait_until(lambda: worker.exit_code is not None, "it ends", deadline_s=90)
    assert worker.exit_code == EXIT_FAILED
    printed = worker.log_file.read_text()
    assert "expected the same number of partitions in each, got {" in printed
    assert "'haltline-sessions-changelog': 3}" in printed


def test_a_key_that_is_none_is_refused_before_the_worker_starts(tmp_path: Path) -> None:
    public = make_keys(tmp_path / "worker.pem")
    done = haltline("worker", "--sealing-key", public, "--bootstrap", "127.0.0.1:9")
    assert (done.exit_code, "expected an ed25519 private key" in done.stderr) == (2, True)
