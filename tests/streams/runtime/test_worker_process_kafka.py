"""The worker's process and its partitions; what becomes of counts when one is killed, chaos and the simulator show."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    ConsumerGroupDescription,
    NewPartitions,
)

from benchmarks.cluster import answered
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


def members(admin: AdminClient, group: str) -> int:
    """How many members of the group have partitions."""

    def ask() -> ConsumerGroupDescription:
        futures = admin.describe_consumer_groups([group], request_timeout=30)
        description: ConsumerGroupDescription = futures[group].result()
        return description

    return sum(1 for member in answered(ask).members if member.assignment.topic_partitions)


def test_partitions_that_are_added_stay_unread_when_a_worker_takes_over_and_the_others_are_watched(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bootstrap, group, actions = kafka.bootstrap, kafka_topics.prefix.removesuffix("."), kafka_topics.actions
    admin, log = AdminClient({"bootstrap.servers": bootstrap}), Log(bootstrap)
    request.addfinalizer(log.close)
    with Children(tmp_path) as children:
        leaves, stays = (
            start_worker(children, bootstrap, "--prefix", kafka_topics.prefix, embedded=False, name=name)
            for name in ("leaves", "stays")
        )
        port = int(wait_until_ready(children, stays).rpartition(":")[2])
        wait_until(lambda: members(admin, group) == 2, "both are members", deadline_s=90)
        admin.create_partitions([NewPartitions(actions, PARTITIONS + 2)])[actions].result()
        wait_until(lambda: len(log.ends(actions)) == PARTITIONS + 2, "there are more partitions")
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(600):
            producer.produce(actions, b"{}", partition=number % (PARTITIONS + 2))
        assert producer.flush(30) == 0
        assert leaves.stop(within_s=60) == 0, leaves.last_lines()
        expected = {number: 100 if number < PARTITIONS else 0 for number in range(PARTITIONS + 2)}
        wait_until(lambda: log.committed(group, actions) == expected, "the others are read", deadline_s=90)
        wait_until(lambda: get(port, "/readyz")[0] == 503, "it is not ready")
        result = get(port, "/readyz")[1]
        assert f"topic {actions}: expected {PARTITIONS} partitions" in result
        assert (f"got {PARTITIONS + 2}" in result, "haltline topics new" in result) == (True, True)
        assert get(port, "/healthz")[0] == 200, "to start it again would not help"
        assert stays.stop(within_s=60) == 0, stays.last_lines()


def test_topics_that_cannot_be_joined_by_partition_are_refused(
    mock_cluster: Callable[[], MockCluster], tmp_path: Path
) -> None:
    cluster = mock_cluster()
    for topic in Topics().all:
        cluster.create_topic(topic, PARTITIONS)
    cluster.create_topic("haltline-sessions-changelog", PARTITIONS - 1)
    with Children(tmp_path) as children:
        worker = start_worker(children, cluster.bootstrap, embedded=True)
        wait_until(lambda: worker.exit_code is not None, "it ends", deadline_s=90)
    assert worker.exit_code == EXIT_FAILED
    printed = worker.log_file.read_text()
    assert "expected the same number of partitions in each, got {" in printed
    assert "'haltline-sessions-changelog': 3" in printed


def test_a_key_that_is_none_is_refused_before_the_worker_starts(tmp_path: Path) -> None:
    public = make_keys(tmp_path / "worker.pem")
    done = haltline("worker", "--sealing-key", public, "--bootstrap", "127.0.0.1:9")
    assert (done.exit_code, "expected an ed25519 private key" in done.stderr) == (2, True)
