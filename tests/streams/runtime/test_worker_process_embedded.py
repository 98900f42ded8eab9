"""The worker on a mock cluster, which is what the embedded broker is, without its 3 s before a first join."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from haltline.streams.local.embedded_broker import FETCH_WAIT_MS, EmbeddedBroker
from haltline.streams.runtime.changelog import CLAIM_KEY, OWNER_HEADER, Owner
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.mock_cluster import MockCluster
from tests.streams.counting import CountingWorker, Log, expected_tellings, get, produce, shows, unused_port
from tests.waiting import wait_until

GROUP = "counting"
CHANGELOG = f"{GROUP}-sessions-changelog"
TOPICS = ("commands", "events")
KEYS = [f"session-{n}" for n in range(40)]


class Desk:
    """A broker with the counting worker's topics."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.log = Log(bootstrap)

    def worker(self, **options: Any) -> CountingWorker:
        # This broker keeps a member that has left for the session timeout, and the next one waits for that.
        settings = {"fetch_wait_ms": FETCH_WAIT_MS, "session_timeout_s": 3, **options}
        return CountingWorker(self.bootstrap, topics=TOPICS, output="told", group=GROUP, **settings)

    def produce(self, topic: str, records: int) -> None:
        produce(self.bootstrap, topic, islice(cycle(KEYS), records))

    def wait_until_done(self) -> None:
        self.log.wait_until_committed(GROUP, TOPICS)


@pytest.fixture
def desk(mock_cluster: Callable[[], MockCluster]) -> Iterator[Desk]:
    cluster = mock_cluster()
    for topic in (*TOPICS, "told", CHANGELOG):
        cluster.create_topic(topic)
    desk = Desk(cluster.bootstrap)
    yield desk
    desk.log.close()


def test_the_product_s_embedded_broker_carries_a_worker(product_broker: EmbeddedBroker) -> None:
    for topic in (*TOPICS, "told", CHANGELOG):
        product_broker.ensure_topic(topic)
    desk = Desk(product_broker.bootstrap)
    desk.produce("events", 400)
    with desk.worker() as worker:
        desk.wait_until_done()
        worker.stop()

    assert desk.log.counts(CHANGELOG) == dict.fromkeys(KEYS, 10)
    desk.log.close()


def test_every_record_is_counted_once_reported_and_kept_in_the_changelog(desk: Desk) -> None:
    desk.produce("events", 4000)
    desk.produce("commands", 400)
    with desk.worker() as worker:
        desk.wait_until_done()
        worker.stop()

    sent = dict.fromkeys(KEYS, 110)
    assert desk.log.counts(CHANGELOG) == sent
    assert desk.log.told("told") == dict.fromkeys(expected_tellings(sent), 1)


def test_a_state_is_in_the_partition_of_its_records_behind_its_owner_s_claim(desk: Desk) -> None:
    desk.produce("events", 400)
    with desk.worker():
        desk.wait_until_done()

    partition_of = {message.key(): message.partition() for message in desk.log.records("events")}
    records = desk.log.records(CHANGELOG)
    claims = {m.partition(): m.offset() for m in records if (m.key() or b"").startswith(CLAIM_KEY)}
    states = [message for message in records if not (message.key() or b"").startswith(CLAIM_KEY)]
    assert {message.key(): message.partition() for message in states} == partition_of
    for message in states:
        [(name, owner)] = cast("list[tuple[str, bytes]]", message.headers())
        assert name == OWNER_HEADER
        assert int.from_bytes(owner[:8]) == claims[message.partition()]


def test_a_second_start_goes_on_from_the_state_and_repeats_nothing(desk: Desk) -> None:
    desk.produce("events", 2000)
    with desk.worker() as worker:
        desk.wait_until_done()
        worker.stop()
    desk.produce("events", 2000)
    with desk.worker() as worker:
        desk.wait_until_done()
        worker.stop()

    sent = dict.fromkeys(KEYS, 100)
    assert desk.log.counts(CHANGELOG) == sent
    assert desk.log.told("told") == dict.fromkeys(expected_tellings(sent), 1)


def test_a_stop_checkpoints_and_commits_what_was_processed(desk: Desk) -> None:
    desk.produce("events", 1000)
    with desk.worker(checkpoint_interval_s=3600) as worker:
        wait_until(lambda: sum(desk.log.ends("told").values()) == 80, "all is processed, and none of it committed")
        assert sum(desk.log.committed(GROUP, "events").values()) == 0
        worker.stop()

    assert desk.log.committed(GROUP, "events") == desk.log.ends("events")
    assert desk.log.counts(CHANGELOG) == dict.fromkeys(KEYS, 25)


def test_an_error_in_the_pipeline_ends_the_process_and_the_next_start_goes_on(desk: Desk) -> None:
    desk.produce("events", 1000)
    producer = Producer({"bootstrap.servers": desk.bootstrap, "partitioner": "murmur2_random"})
    producer.produce("events", key=KEYS[0], value=b'{"n": 666}')
    producer.flush(10)
    with desk.worker(fail_on=666) as worker:
        assert worker.wait() == EXIT_FAILED
    assert "haltline worker: ends: RuntimeError: asked to fail on 666" in worker.stderr
    assert "Traceback" in worker.stderr, "it is not known where this comes from"

    with desk.worker() as worker:
        desk.wait_until_done()
        worker.stop()
    assert desk.log.counts(CHANGELOG) == dict.fromkeys(KEYS, 25) | {KEYS[0]: 26}


def test_a_state_that_cannot_be_decoded_ends_the_process_with_the_reason(desk: Desk) -> None:
    producer = Producer({"bootstrap.servers": desk.bootstrap, "partitioner": "murmur2_random"})
    producer.produce(CHANGELOG, key=KEYS[0], value=b"no json")
    producer.flush(10)
    desk.produce("events", 40)
    with desk.worker() as worker:
        assert worker.wait() == EXIT_FAILED

    assert "JSONDecodeError" in worker.stderr


def test_a_changelog_record_without_a_key_is_passed_over(desk: Desk) -> None:
    producer = Producer({"bootstrap.servers": desk.bootstrap})
    for partition in range(4):
        producer.produce(CHANGELOG, value=b"poison", partition=partition)
    producer.flush(10)
    desk.produce("events", 400)
    with desk.worker() as worker:
        desk.wait_until_done()
        worker.stop()

    kept = [message.key() for message in desk.log.records(CHANGELOG)]
    assert kept.count(None) == 4
    assert {key.decode() for key in kept if key is not None and not key.startswith(CLAIM_KEY)} == set(KEYS)


def test_another_writer_in_the_changelog_ends_the_process_and_the_next_start_heals_it(desk: Desk) -> None:
    desk.produce("events", 400)
    with desk.worker(watermark_interval_s=0.2) as worker:
        desk.wait_until_done()
        victim = next(message for message in desk.log.records(CHANGELOG) if message.key() == KEYS[0].encode())
        producer = Producer({"bootstrap.servers": desk.bootstrap})
        producer.produce(
            CHANGELOG,
            key=KEYS[0],
            value=b'{"count": 1, "sum": 1, "offsets": {"events": 0}}',
            partition=victim.partition() or 0,
            headers=[(OWNER_HEADER, Owner(0, bytes(16)).encode())],  # of an owner long replaced
        )
        producer.flush(10)
        assert worker.wait() == EXIT_FAILED
    assert re.search(r"ForeignWrite: changelog partition \d: expected .*: another process writes to it", worker.stderr)
    assert desk.log.counts(CHANGELOG)[KEYS[0]] == 1

    with desk.worker() as worker:
        wait_until(lambda: desk.log.counts(CHANGELOG)[KEYS[0]] == 10, "the state is written anew")
        desk.produce("events", 400)
        desk.wait_until_done()
        worker.stop()
    assert desk.log.counts(CHANGELOG) == dict.fromkeys(KEYS, 20)


def test_topics_that_cannot_be_joined_by_partition_are_refused(mock_cluster: Callable[[], MockCluster]) -> None:
    cluster = mock_cluster()
    for topic, partitions in (("events", 4), ("commands", 4), (CHANGELOG, 3)):
        cluster.create_topic(topic, partitions)
    with Desk(cluster.bootstrap).worker() as worker:
        assert worker.wait() == EXIT_FAILED

    assert (
        "expected the same number of partitions in each, "
        "got {'commands': 4, 'events': 4, 'counting-sessions-changelog': 3}" in worker.stderr
    )


@pytest.fixture
def port() -> int:
    return unused_port()


def test_a_worker_serves_its_health_and_its_lag(desk: Desk, port: int) -> None:
    with desk.worker(metrics_port=port, watermark_interval_s=0.1) as worker:
        wait_until(lambda: get(port, "/readyz")[0] == 200, "the worker is ready")
        desk.produce("events", 800)
        for line in ('haltline_events_processed_total{topic="events"} 800.0', "haltline_sessions 40.0"):
            wait_until(partial(shows, port, line), line)
        ends = desk.log.ends("events")
        for number, end in ends.items():
            labels = f'{{partition="{number}",topic="events"}}'
            for name, value in (("high_watermark", end), ("committed_offset", end), ("lag_records", 0)):
                line = f"haltline_consumer_{name}{labels} {float(value)}"
                wait_until(partial(shows, port, line), line)
        assert get(port, "/healthz")[0] == 200
        worker.stop()


def test_a_worker_whose_pipeline_hangs_says_that_it_is_stuck(desk: Desk, port: int) -> None:
    with desk.worker(metrics_port=port, watermark_interval_s=0.1, stuck_after_s=1.0, hang_on=777):
        wait_until(lambda: get(port, "/readyz")[0] == 200, "the worker is ready")
        producer = Producer({"bootstrap.servers": desk.bootstrap, "partitioner": "murmur2_random"})
        producer.produce("events", key=KEYS[0], value=b'{"n": 777}')
        producer.flush(10)
        wait_until(lambda: get(port, "/healthz")[0] == 503, "the worker says that it is stuck")

        status, body = get(port, "/readyz")
        assert status == 503
        assert re.search(r'"reasons": \["events partition \d: 1 records wait at offset 0', body)


def test_what_follows_from_a_record_goes_out_long_before_the_checkpoint(desk: Desk) -> None:
    with desk.worker(checkpoint_interval_s=3600, tell_every=1):
        desk.produce("events", 1)
        wait_until(lambda: sum(desk.log.ends("told").values()) == 1, "the first record is told")
        assert desk.log.counts(CHANGELOG) == {}
        assert desk.log.committed(GROUP, "events") == dict.fromkeys(range(4), 0)
