"""The worker on a real Kafka: killed, stopped, rebalanced, and its counts still exact."""

import os
import random
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    ConsumerGroupDescription,
    NewPartitions,
    NewTopic,
)

from benchmarks.cluster import answered
from haltline.schemas.keys import make_keys
from haltline.streams.local.kafka import LocalKafka, free_port
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.mock_cluster import MockCluster
from tests.streams.commands import haltline
from tests.streams.counting import (
    Log,
    expected_tellings,
    get,
    produce,
    shows,
    start_counting,
    stop,
)
from tests.waiting import wait_until

KEYS = [f"session-{n}" for n in range(200)]
PARTITIONS = 4


class Site:
    """Topics and a group of a test's own on the real Kafka."""

    def __init__(self, kafka: LocalKafka, children: Children) -> None:
        self.kafka, self.children = kafka, children
        self.bootstrap = kafka.bootstrap
        self.group = f"g{uuid.uuid4().hex[:8]}"
        self.changelog = f"{self.group}-sessions-changelog"
        self.topics = [f"{self.group}.commands", f"{self.group}.events"]
        self.events = self.topics[1]
        self.output = f"{self.group}.told"
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self.log = Log(kafka.bootstrap)
        self.sent: Counter[str] = Counter()
        made = [NewTopic(topic, PARTITIONS, 1) for topic in (*self.topics, self.output)]
        made.append(NewTopic(self.changelog, PARTITIONS, 1, config={"cleanup.policy": "compact"}))
        for future in self.admin.create_topics(made).values():
            future.result()
        wait_until(lambda: self._all_there(made), "the topics are there")

    def _all_there(self, made: list[NewTopic]) -> bool:
        there = self.admin.list_topics(timeout=10).topics
        return all(new.topic in there and len(there[new.topic].partitions) == PARTITIONS for new in made)

    def worker(self, name: str, **options: Any) -> Child:
        fields: dict[str, Any] = {"topics": self.topics, "output": self.output, "group": self.group}
        return start_counting(self.children, name, self.bootstrap, **fields, **options)

    def produce(self, records: int) -> None:
        self.sent += produce(self.bootstrap, self.events, random.choices(KEYS, k=records))

    def wait_until_done(self, *, deadline_s: float = 120.0) -> None:
        self.log.wait_until_committed(self.group, self.topics, deadline_s=deadline_s)

    def committed(self) -> int:
        return sum(self.log.committed(self.group, self.events).values())

    def check_exact(self) -> None:
        """Every record is counted once, and all was told."""
        assert self.log.counts(self.changelog) == self.sent
        assert self.log.told(self.output).keys() == expected_tellings(self.sent)

    def transactions(self, topic: str, value: bytes | None) -> None:
        """One that is committed and one that is aborted, each with a record in every partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.group})
        allow_transactions(producer)
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(topic, key=f"by-hand-{partition}", value=value, partition=partition)
            assert producer.flush(30) == 0  # what is not sent yet, an abort throws away
            end(30)

    def close(self) -> None:
        self.log.close()
        for future in self.admin.delete_topics([*self.topics, self.output, self.changelog]).values():
            future.result()


@pytest.fixture
def site(kafka: LocalKafka, tmp_path: Path) -> Iterator[Site]:
    with Children(tmp_path) as children:
        site = Site(kafka, children)
        yield site
    site.close()


def test_each_record_counts_once_whatever_becomes_of_workers_and_the_broker(site: Site) -> None:
    first = site.worker("first", standby_replicas=1, session_timeout_s=4)
    wait_until(lambda: members(site) == 1, "it is a member")
    second = site.worker("second", standby_replicas=1, session_timeout_s=4)
    wait_until(lambda: members(site) == 2, "both are members")
    site.produce(4000)
    wait_until(lambda: site.committed() > 1000, "some are committed", deadline_s=120)
    os.kill(first.pid, signal.SIGKILL)
    site.produce(4000)
    site.wait_until_done()
    stop(second)
    site.check_exact()
    port = free_port()
    worker = site.worker("third", session_timeout_s=30, metrics_port=port, watermark_interval_s=0.2)
    wait_until(lambda: get(port, "/readyz")[0] == 200, "it is ready")
    site.kafka.restart(hard=True)
    site.produce(8000)
    site.wait_until_done()
    ends = site.log.ends(site.events)
    site.transactions(site.events, b'{"n":1}')
    site.sent += Counter({f"by-hand-{partition}": 2 for partition in range(PARTITIONS)})  # aborted ones are read too
    # A broker that crashed has new leader epochs. Each transaction has ended with a marker, which may come later.
    for number, end in ((number, end + 4) for number, end in ends.items()):
        for name, value in (("high_watermark", end), ("lag_records", 0)):
            line = f'haltline_consumer_{name}{{partition="{number}",topic="{site.events}"}} {float(value)}'
            wait_until(partial(shows, port, line), line)
    assert get(port, "/readyz")[0] == 200
    stop(worker)
    site.check_exact()


def test_partitions_that_are_added_stay_unread_when_a_worker_takes_over_and_the_others_are_watched(site: Site) -> None:
    port = free_port()
    leaves = site.worker("leaves", watermark_interval_s=0.2)
    stays = site.worker("stays", metrics_port=port, watermark_interval_s=0.2)
    wait_until(lambda: members(site) == 2, "both are members")
    site.admin.create_partitions([NewPartitions(site.events, PARTITIONS + 2)])[site.events].result()
    wait_until(lambda: len(site.log.ends(site.events)) == PARTITIONS + 2, "there are more partitions")
    producer = Producer({"bootstrap.servers": site.bootstrap})
    for number in range(6000):
        partition = number % (PARTITIONS + 2)
        producer.produce(site.events, b'{"n": 1}', f"in-{partition}", partition)
    assert producer.flush(30) == 0
    stop(leaves)
    of_before = range(PARTITIONS)

    def are_read() -> bool:
        committed, ends = site.log.committed(site.group, site.events), site.log.ends(site.events)
        return all(committed[number] == ends[number] for number in of_before)

    wait_until(are_read, "the partitions of before are read", deadline_s=90)
    wait_until(lambda: get(port, "/readyz")[0] == 503, "it is not ready")
    result = get(port, "/readyz")[1]
    assert f"topic {site.events}: expected {PARTITIONS} partitions" in result
    assert (f"got {PARTITIONS + 2}" in result, "haltline topics new" in result) == (True, True)
    assert get(port, "/healthz")[0] == 200, "to start it again would not help"
    stop(stays)
    assert site.log.counts(site.changelog) == {f"in-{number}": 1000 for number in of_before}


def members(site: Site) -> int:
    def ask() -> ConsumerGroupDescription:
        futures = site.admin.describe_consumer_groups([site.group], request_timeout=30)
        description: ConsumerGroupDescription = futures[site.group].result()
        return description

    described = answered(ask)
    return sum(1 for member in described.members if member.assignment.topic_partitions)


def allow_transactions(producer: Producer) -> None:
    """A node that has just started takes a moment before it runs transactions."""

    def ready() -> bool:
        try:
            producer.init_transactions(10)
        except KafkaException as failed:
            if failed.args[0].retriable() or failed.args[0].code() == KafkaError._TIMED_OUT:
                return False
            raise
        return True

    wait_until(ready, "transactions can be begun", deadline_s=60)


def test_topics_that_cannot_be_joined_by_partition_are_refused(
    mock_cluster: Callable[[], MockCluster], tmp_path: Path
) -> None:
    cluster = mock_cluster()
    for topic, partitions in (("events", 4), ("commands", 4), ("counting-sessions-changelog", 3)):
        cluster.create_topic(topic, partitions)
    with Children(tmp_path) as children:
        fields: dict[str, Any] = {"topics": ("commands", "events"), "output": "told", "group": "counting"}
        worker = start_counting(children, "worker", cluster.bootstrap, **fields)
        wait_until(lambda: worker.exit_code is not None, "it ends")
    assert worker.exit_code == EXIT_FAILED
    expected = "of partitions in each, got {'commands': 4, 'events': 4, 'counting-sessions-changelog': 3}"
    assert f"expected the same number {expected}" in worker.log_file.read_text()


def test_a_key_that_is_none_is_refused_before_the_worker_starts(tmp_path: Path) -> None:
    public = make_keys(tmp_path / "worker.pem")
    done = haltline("worker", "--sealing-key", public, "--bootstrap", "127.0.0.1:9")
    assert (done.exit_code, "expected an ed25519 private key" in done.stderr) == (2, True)
