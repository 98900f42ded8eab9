"""The worker on a real Kafka: killed, stopped, rebalanced, and its counts still exact."""

import random
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConsumerGroupDescription,
    NewTopic,
)

from benchmarks.cluster import answered
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.runtime.changelog import ID_BYTES, OWNER_HEADER, Owner
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.streams.counting import (
    CountingWorker,
    Log,
    expected_tellings,
    get,
    produce,
    shows,
    unused_port,
)
from tests.waiting import wait_until

KEYS = [f"session-{n}" for n in range(200)]
PARTITIONS = 4


class Site:
    """Topics and a group of a test's own on the real Kafka."""

    def __init__(self, kafka: LocalKafka) -> None:
        self.kafka = kafka
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

    def worker(self, **options: Any) -> CountingWorker:
        return CountingWorker(self.bootstrap, topics=self.topics, output=self.output, group=self.group, **options)

    def produce(self, records: int) -> None:
        self.sent += produce(self.bootstrap, self.events, random.choices(KEYS, k=records))

    def load(self) -> "Load":
        """Records that keep coming."""
        return Load(self)

    def wait_until_done(self, *, deadline_s: float = 120.0) -> None:
        self.log.wait_until_committed(self.group, self.topics, deadline_s=deadline_s)

    def committed(self) -> int:
        return sum(self.log.committed(self.group, self.events).values())

    def check_exact(self) -> None:
        """Every record is counted once, and all was told."""
        assert self.log.counts(self.changelog) == self.sent
        assert self.log.told(self.output).keys() == expected_tellings(self.sent)

    def set_max_message_bytes(self, limit: int) -> None:
        entry = ConfigEntry("max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.changelog, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result()

    def close(self) -> None:
        self.log.close()
        for future in self.admin.delete_topics([*self.topics, self.output, self.changelog]).values():
            future.result()


class Load:
    """Sends up to 5,000 records a second in a thread of its own, as a `with` block or until `stop`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.1):
                self._site.produce(500)
        except BaseException as failure:  # raised again by whoever waits for more
            self._failure = failure

    def check(self) -> None:
        """It still sends. Raises what ended it."""
        if self._failure is not None:
            raise RuntimeError("expected records to keep coming, got their end") from self._failure

    def stop(self) -> None:
        """Send no more; all that was sent has arrived."""
        self._stop.set()
        self._thread.join()
        self.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def wait_for_commits(self, records: int) -> None:
        """Until so many more are committed than now."""
        expected = self._site.committed() + records

        def enough() -> bool:
            self.check()
            return self._site.committed() >= expected

        wait_until(enough, f"{records} more are committed", deadline_s=120)


@pytest.fixture
def site(kafka: LocalKafka) -> Iterator[Site]:
    site = Site(kafka)
    yield site
    site.close()


def test_a_worker_that_is_killed_again_and_again_counts_each_record_once(site: Site) -> None:
    with site.load() as load:
        for _ in range(5):
            with site.worker(instance_id="one") as worker:  # takes its partitions up at once
                load.wait_for_commits(random.choice([1, 1000, 3000]))
                worker.send(signal.SIGKILL)
    site.produce(1000)
    with site.worker(instance_id="one") as worker:
        site.wait_until_done()
        worker.stop()

    site.check_exact()


def test_partitions_move_between_workers_under_load_and_each_record_counts_once(site: Site) -> None:
    with site.load() as load, site.worker() as first:
        load.wait_for_commits(1000)
        with site.worker() as second:
            wait_until(lambda: members(site) == 2, "both are members")
            load.wait_for_commits(3000)
            first.stop()
            load.wait_for_commits(3000)
            with site.worker() as third:
                wait_until(lambda: members(site) == 2, "both are members")
                load.wait_for_commits(3000)
                load.stop()
                site.wait_until_done()
                third.stop()
            second.stop()

    site.check_exact()


def members(site: Site) -> int:
    def ask() -> ConsumerGroupDescription:
        futures = site.admin.describe_consumer_groups([site.group], request_timeout=5)
        description: ConsumerGroupDescription = futures[site.group].result()
        return description

    described = answered(ask)
    return sum(1 for member in described.members if member.assignment.topic_partitions)


def test_a_standby_takes_over_a_killed_worker_s_partitions(site: Site) -> None:
    site.produce(8000)
    with site.worker(standby_replicas=1, session_timeout_s=3) as first:
        site.wait_until_done()
        with site.worker(standby_replicas=1, session_timeout_s=3) as second:
            wait_until(lambda: members(site) == 2, "both are members")
            site.produce(8000)
            site.wait_until_done()
            first.send(signal.SIGKILL)
            site.produce(8000)
            site.wait_until_done()
            second.stop()

    site.check_exact()


def goes_on_or_ends(site: Site, worker: CountingWorker) -> None:
    """Until a worker has committed more, or has found what a stopped one still had on its way, and ended for it."""
    enough = site.committed() + 3000
    wait_until(lambda: worker.ended or site.committed() >= enough, "it goes on, or has ended", deadline_s=120)


def stop_and_go(site: Site, load: Load, zombie: CountingWorker, other: CountingWorker) -> None:
    """Stop a worker until the other one has its partitions and goes on, then let it go on too."""
    load.wait_for_commits(3000)
    zombie.send(signal.SIGSTOP)
    wait_until(lambda: other.ended or members(site) == 1, "the other one has all partitions", deadline_s=90)
    goes_on_or_ends(site, other)
    zombie.send(signal.SIGCONT)


def test_a_worker_that_was_stopped_for_longer_than_its_session_ends_when_it_goes_on(site: Site) -> None:
    with site.load() as load, site.worker(session_timeout_s=4) as zombie, site.worker(session_timeout_s=4) as other:
        wait_until(lambda: members(site) == 2, "both are members")
        stop_and_go(site, load, zombie, other)
        assert zombie.wait() == EXIT_FAILED
        assert "longer than the session timeout: another may have its partitions" in zombie.stderr
        goes_on_or_ends(site, other)
        if other.ended:
            assert other.wait() == EXIT_FAILED
            assert "another process writes to it" in other.stderr
        else:
            other.stop()
    with site.worker() as fresh:
        site.wait_until_done()
        fresh.stop()

    site.check_exact()


def test_also_a_worker_that_does_not_know_that_it_was_stopped_does_no_harm(site: Site) -> None:
    options = {"session_timeout_s": 4, "stood_still_s": 3600, "watermark_interval_s": 0.2}
    with site.load() as load, site.worker(**options) as zombie, site.worker(**options) as other:
        wait_until(lambda: members(site) == 2, "both are members")
        stop_and_go(site, load, zombie, other)
        wait_until(
            lambda: zombie.ended or other.ended or members(site) == 2, "one ended, or both are members", deadline_s=90
        )
        site.produce(5000)
        for worker in (zombie, other):  # each may have found a record of the other, and ended to read anew
            if worker.ended:
                assert worker.wait() == EXIT_FAILED
                assert "another process writes to it" in worker.stderr
    with site.worker() as fresh:
        site.wait_until_done()
        fresh.stop()

    site.check_exact()


def test_a_worker_that_was_dropped_while_it_was_assigned_partitions_writes_nothing_of_them(
    site: Site, tmp_path: Path
) -> None:
    there = tmp_path / "held"
    options = {"session_timeout_s": 4, "watermark_interval_s": 0.2, "checkpoint_interval_s": 0.1}
    with site.load() as load, site.worker(hold_assignments=there, **options) as held:
        load.wait_for_commits(1000)
        there.touch()
        with site.worker(**options) as other:
            wait_until(lambda: members(site) == 2, "both are members")
            wait_until(lambda: members(site) == 1, "the group has dropped the one that is held", deadline_s=90)
            load.wait_for_commits(3000)
            there.unlink()
            wait_until(lambda: members(site) == 2, "both are members again", deadline_s=90)
            load.wait_for_commits(3000)
            load.stop()
            site.wait_until_done()
            other.stop()
        held.stop()

    site.check_exact()


def test_a_state_that_the_changelog_refuses_ends_the_process_and_the_next_start_goes_on(site: Site) -> None:
    site.set_max_message_bytes(100)
    site.produce(4000)
    with site.worker() as worker:
        assert worker.wait() == EXIT_FAILED
    assert f"DeliveryFailed: topic {site.changelog}, partition" in worker.stderr
    assert "MSG_SIZE_TOO_LARGE" in worker.stderr
    assert site.committed() == 0

    site.set_max_message_bytes(1_000_000)
    with site.worker() as worker:
        site.wait_until_done()
        worker.stop()
    site.check_exact()


def test_a_broker_that_dies_and_comes_back_under_load_is_waited_for(site: Site) -> None:
    site.produce(20_000)
    port = unused_port()
    with site.worker(session_timeout_s=30, metrics_port=port, watermark_interval_s=0.2) as worker:
        wait_until(lambda: get(port, "/readyz")[0] == 200, "it is ready")
        site.kafka.restart(hard=True)
        site.produce(20_000)
        site.wait_until_done()
        for number, end in site.log.ends(site.events).items():  # a broker that crashed has new leader epochs
            line = f'haltline_consumer_high_watermark{{partition="{number}",topic="{site.events}"}} {float(end)}'
            wait_until(partial(shows, port, line), line)
        assert get(port, "/readyz")[0] == 200
        worker.stop()

    site.check_exact()


def test_a_late_record_of_a_replaced_owner_loses_also_after_compaction_s_order(site: Site) -> None:
    site.produce(8000)
    with site.worker() as worker:
        site.wait_until_done()
        worker.stop()
    victim = next(message for message in site.log.records(site.changelog) if message.key() == KEYS[0].encode())
    late = Producer({"bootstrap.servers": site.bootstrap})
    late.produce(
        site.changelog,
        key=KEYS[0],
        value=b'{"count": 1, "sum": 1, "offsets": {}}',
        partition=victim.partition() or 0,
        headers=[(OWNER_HEADER, Owner(0, bytes(ID_BYTES)).encode())],
    )
    late.flush(10)
    assert site.log.counts(site.changelog)[KEYS[0]] == 1

    with site.worker() as worker:
        wait_until(lambda: site.log.counts(site.changelog)[KEYS[0]] == site.sent[KEYS[0]], "the state is written anew")
        worker.stop()
    site.check_exact()


@pytest.mark.parametrize("commit", [True, False], ids=["a repair that was committed", "a repair that was aborted"])
def test_a_transaction_in_the_changelog_does_not_hold_up_recovery(site: Site, commit: bool) -> None:
    site.produce(8000)
    with site.worker() as worker:
        site.wait_until_done()
        worker.stop()
    repair = Producer({"bootstrap.servers": site.bootstrap, "transactional.id": site.group})
    begin(repair)
    for partition in range(PARTITIONS):
        repair.produce(site.changelog, key=f"by-hand-{partition}", value=None, partition=partition)
    if commit:
        repair.commit_transaction(30)
    else:
        repair.abort_transaction(30)

    site.produce(8000)
    with site.worker() as worker:
        site.wait_until_done()
        worker.stop()
    site.check_exact()


@pytest.mark.parametrize("commit", [True, False], ids=["a transaction that was committed", "one that was aborted"])
def test_the_end_of_a_transaction_on_a_source_is_no_lag(site: Site, commit: bool) -> None:
    port = unused_port()
    with site.worker(metrics_port=port, watermark_interval_s=0.1) as worker:
        wait_until(lambda: get(port, "/readyz")[0] == 200, "the worker is ready")
        producer = Producer({"bootstrap.servers": site.bootstrap, "transactional.id": site.group})
        begin(producer)
        for partition in range(PARTITIONS):
            producer.produce(site.events, key=f"by-hand-{partition}", value=b'{"n":1}', partition=partition)
        assert producer.flush(30) == 0  # what is not sent yet, an abort throws away
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        for partition in range(PARTITIONS):
            labels = f'{{partition="{partition}",topic="{site.events}"}}'
            for name, value in (("high_watermark", 2.0), ("lag_records", 0.0)):
                line = f"haltline_consumer_{name}{labels} {value}"
                wait_until(partial(shows, port, line), line)
        worker.stop()


def test_records_that_the_broker_has_deleted_are_passed_over(site: Site) -> None:
    site.produce(1000)
    with site.worker() as worker:
        site.wait_until_done()
        worker.stop()
    kept = site.sent.copy()
    site.produce(1000)
    ends = site.log.ends(site.events)
    deleted = site.admin.delete_records([TopicPartition(site.events, *end) for end in ends.items()])
    for future in deleted.values():
        future.result()
    site.sent = kept
    site.produce(1000)
    with site.worker() as worker:
        site.wait_until_done()
        worker.stop()
    site.check_exact()


def begin(producer: Producer) -> None:
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
    producer.begin_transaction()
