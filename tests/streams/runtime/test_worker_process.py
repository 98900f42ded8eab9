"""The worker on a mock cluster, which is what the embedded broker is, without its 3 s before a first join."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Any, cast

import orjson
import pytest
from confluent_kafka import KafkaError, Producer

from haltline.streams.local.embedded_broker import FETCH_WAIT_MS
from haltline.streams.runtime.changelog import CLAIM_KEY, OWNER_HEADER, Owner
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.mock_cluster import ApiKey, MockCluster
from tests.streams.counting import CountingWorker, Log, expected_tellings, get, produce, shows, unused_port
from tests.waiting import wait_until

GROUP = "counting"
CHANGELOG = f"{GROUP}-sessions-changelog"
TOPICS = ("commands", "events")
SESSION_TIMEOUT_S = 3
KEYS = [f"session-{n}" for n in range(40)]


class Desk:
    """A mock cluster with the counting worker's topics."""

    def __init__(self, cluster: MockCluster) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap
        self.log = Log(cluster.bootstrap)

    def worker(self, **options: Any) -> CountingWorker:
        # This broker keeps a member that has left for the session timeout, and the next one waits for that.
        settings = {"fetch_wait_ms": FETCH_WAIT_MS, "session_timeout_s": SESSION_TIMEOUT_S, **options}
        return CountingWorker(self.bootstrap, topics=TOPICS, output="told", group=GROUP, **settings)

    def produce(self, records: int, topic: str = "events") -> None:
        produce(self.bootstrap, topic, islice(cycle(KEYS), records))

    def put(self, topic: str, value: bytes, *, key: str | None = KEYS[0], **where: Any) -> None:
        """One record as somebody else writes it."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"})
        producer.produce(topic, key=key, value=value, **where)
        producer.flush(10)

    def work_off(self) -> None:
        """A worker that reads all that is there and stops."""
        with self.worker() as worker:
            self.wait_until_done()
            worker.stop()

    def wait_until_told(self, times: int) -> None:
        wait_until(lambda: sum(self.log.ends("told").values()) == times, f"{times} records are told")

    def wait_until_done(self) -> None:
        self.log.wait_until_committed(GROUP, TOPICS)


@pytest.fixture
def desk(mock_cluster: Callable[[], MockCluster]) -> Iterator[Desk]:
    cluster = mock_cluster()
    for topic in (*TOPICS, "told", CHANGELOG):
        cluster.create_topic(topic)
    desk = Desk(cluster)
    yield desk
    desk.log.close()


def test_every_record_is_counted_once_over_two_starts_and_shown_and_kept_behind_its_owner_s_claim(desk: Desk) -> None:
    port = unused_port()
    for partition in range(4):
        desk.put(CHANGELOG, b"poison", key=None, partition=partition)
    desk.produce(400, "commands")
    with desk.worker(metrics_port=port, watermark_interval_s=0.1) as worker:
        wait_until(lambda: get(port, "/readyz")[0] == 200, "the worker is ready")
        desk.produce(2000)
        for line in ('haltline_events_processed_total{topic="events"} 2000.0', "haltline_sessions 40.0"):
            wait_until(partial(shows, port, line), line)
        for number, end in desk.log.ends("events").items():
            labels = f'{{partition="{number}",topic="events"}}'
            for name, value in (("high_watermark", end), ("committed_offset", end), ("lag_records", 0)):
                line = f"haltline_consumer_{name}{labels} {float(value)}"
                wait_until(partial(shows, port, line), line)
        assert get(port, "/healthz")[0] == 200
        worker.stop()
    desk.produce(2000)
    desk.work_off()

    sent = dict.fromkeys(KEYS, 110)
    assert desk.log.told("told") == dict.fromkeys(expected_tellings(sent), 1)
    records = desk.log.records(CHANGELOG)
    assert [message.value() for message in records if message.key() is None] == [b"poison"] * 4
    claims = {(m.partition(), m.offset()) for m in records if (m.key() or b"").startswith(CLAIM_KEY)}
    states = [m for m in records if m.key() is not None and not (m.key() or b"").startswith(CLAIM_KEY)]
    assert {(m.key() or b"").decode(): orjson.loads(m.value() or b"")["count"] for m in states} == sent
    assert {m.key(): m.partition() for m in states} == {m.key(): m.partition() for m in desk.log.records("events")}
    for message in states:
        [(name, owner)] = cast("list[tuple[str, bytes]]", message.headers())
        assert (name, (message.partition(), int.from_bytes(owner[:8])) in claims) == (OWNER_HEADER, True)


def test_another_writer_or_an_error_in_the_pipeline_ends_the_process_and_the_next_start_goes_on(desk: Desk) -> None:
    desk.produce(400)
    with desk.worker(watermark_interval_s=0.2) as worker:
        desk.wait_until_done()
        victim = next(message for message in desk.log.records(CHANGELOG) if message.key() == KEYS[0].encode())
        headers = [(OWNER_HEADER, Owner(0, bytes(16)).encode())]  # of an owner long replaced
        late = b'{"count": 1, "sum": 1, "offsets": {"events": 0}}'
        desk.put(CHANGELOG, late, partition=victim.partition() or 0, headers=headers)
        assert worker.wait() == EXIT_FAILED
    assert re.search(r"ForeignWrite: changelog partition \d: expected .*: another process writes to it", worker.stderr)
    assert desk.log.counts(CHANGELOG)[KEYS[0]] == 1

    with desk.worker(fail_on=666) as worker:
        wait_until(lambda: desk.log.counts(CHANGELOG)[KEYS[0]] == 10, "the state is written anew")
        desk.produce(400)
        desk.wait_until_done()
        desk.put("events", b'{"n": 666}')
        assert worker.wait() == EXIT_FAILED
    assert "haltline worker: ends: RuntimeError: asked to fail on 666" in worker.stderr
    assert "Traceback" in worker.stderr, "it is not known where this comes from"
    desk.work_off()
    assert desk.log.counts(CHANGELOG) == dict.fromkeys(KEYS, 20) | {KEYS[0]: 21}


def test_topics_that_cannot_be_joined_by_partition_are_refused(mock_cluster: Callable[[], MockCluster]) -> None:
    cluster = mock_cluster()
    for topic, partitions in (("events", 4), ("commands", 4), (CHANGELOG, 3)):
        cluster.create_topic(topic, partitions)
    with Desk(cluster).worker() as worker:
        assert worker.wait() == EXIT_FAILED

    assert (
        "expected the same number of partitions in each, "
        "got {'commands': 4, 'events': 4, 'counting-sessions-changelog': 3}" in worker.stderr
    )


def test_a_worker_whose_pipeline_hangs_says_that_it_is_stuck(desk: Desk) -> None:
    port = unused_port()
    with desk.worker(metrics_port=port, watermark_interval_s=0.1, stuck_after_s=1.0, hang_on=777):
        wait_until(lambda: get(port, "/readyz")[0] == 200, "the worker is ready")
        desk.put("events", b'{"n": 777}')
        wait_until(lambda: get(port, "/healthz")[0] == 503, "the worker says that it is stuck")
        status, body = get(port, "/readyz")
        assert status == 503
        assert re.search(r'"reasons": \["events partition \d: 1 records wait at offset 0', body)


# What it does when the broker or the group fails it: it goes on exactly, or it ends and says why.


def test_what_follows_goes_out_before_the_checkpoint_and_a_worker_that_the_group_dropped_counts_each_record_once(
    desk: Desk,
) -> None:
    with desk.worker(checkpoint_interval_s=3600) as worker:
        desk.produce(2000)
        desk.wait_until_told(200)
        assert (desk.log.counts(CHANGELOG), sum(desk.log.committed(GROUP, "events").values())) == ({}, 0)
        desk.cluster.fail_next(ApiKey.HEARTBEAT, [KafkaError.UNKNOWN_MEMBER_ID])
        desk.wait_until_told(400)  # none of it was committed, so all is processed again
        worker.stop()

    assert "go without a checkpoint" in worker.stderr
    assert desk.log.committed(GROUP, "events") == desk.log.ends("events"), "a stop makes a checkpoint"
    assert desk.log.counts(CHANGELOG) == dict.fromkeys(KEYS, 50)


def test_a_worker_that_stood_still_for_longer_than_its_session_ends_when_it_goes_on(desk: Desk) -> None:
    with desk.worker() as worker:
        desk.produce(400)
        desk.wait_until_done()
        worker.send(signal.SIGSTOP)
        until_s = time.monotonic() + SESSION_TIMEOUT_S + 1
        wait_until(lambda: time.monotonic() > until_s, "its session is over")
        worker.send(signal.SIGCONT)
        assert worker.wait() == EXIT_FAILED
    assert "longer than the session timeout: another may have its partitions" in worker.stderr


def test_no_broker_at_all_ends_the_process(desk: Desk) -> None:
    desk.cluster.set_down()
    with desk.worker() as worker:
        assert worker.wait() == EXIT_FAILED

    (result,) = [line for line in worker.stderr.splitlines() if "haltline worker: ends" in line]
    expected = r"haltline worker: ends: KnownFailure: topics .*events.*: expected their metadata within 10 s"
    assert re.match(expected, result)
    assert "Traceback" not in worker.stderr, "the reason is known"
