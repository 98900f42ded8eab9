"""The worker on a real Kafka whose topics are deleted, recreated, or given more partitions under it."""

import random
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]  # its stubs miss them

from haltline.streams.local.kafka import LocalKafka
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.cases import cases
from tests.streams.counting import get, produce, shows, unused_port
from tests.streams.runtime.test_worker_process_kafka import KEYS, PARTITIONS, Site, members
from tests.waiting import wait_until

LOOK_OFTEN = {"watermark_interval_s": 0.2}


@pytest.fixture
def site(kafka: LocalKafka) -> Iterator[Site]:
    site = Site(kafka)
    yield site
    site.close()


def delete(site: Site, topic: str) -> None:
    for future in site.admin.delete_topics([topic]).values():
        future.result()
    wait_until(lambda: topic not in site.admin.list_topics(timeout=10).topics, f"{topic} is gone")


def make(site: Site, topic: str, partitions: int = PARTITIONS) -> None:
    def made() -> bool:
        try:
            for future in site.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
                future.result()
        except KafkaException:  # its deletion is not over yet
            return False
        return True

    wait_until(made, f"{topic} is made")
    wait_until(lambda: len(site.log.ends(topic)) == partitions, f"{topic} is there")


def more_partitions(site: Site, topic: str, partitions: int) -> None:
    for future in site.admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result()
    wait_until(lambda: len(site.log.ends(topic)) == partitions, f"{topic} has {partitions} partitions")


def work_off(site: Site) -> str:
    """A worker that reads all that is there and stops, and what it complained of."""
    with site.worker() as worker:
        site.wait_until_done()
        worker.stop()
    return worker.stderr


def send(site: Site, topic: str, records: int) -> None:
    site.sent += produce(site.bootstrap, topic, random.choices(KEYS, k=records))


@cases("place", {"events": 1, "commands": 0})
def test_a_topic_that_is_recreated_under_a_running_worker_is_begun_anew(site: Site, place: int) -> None:
    topic = site.topics[place]
    with site.worker(**LOOK_OFTEN) as worker:
        send(site, topic, 4000)
        site.wait_until_done()
        delete(site, topic)
        make(site, topic)
        send(site, topic, 1000)
        assert worker.wait(deadline_s=30) == EXIT_FAILED
    assert f"topic {topic}" in worker.stderr
    assert "recreated" in worker.stderr

    port = unused_port()
    with site.worker(metrics_port=port, **LOOK_OFTEN) as worker:
        send(site, topic, 1000)
        site.wait_until_done()
        line = f'haltline_topics_made_anew_total{{topic="{topic}"}} 1.0'
        wait_until(partial(shows, port, line), line)
        wait_until(lambda: get(port, "/readyz")[0] == 200, "it is ready")
        assert f"topic {topic} was recreated" in get(port, "/readyz")[1]
        worker.stop()
    site.check_exact()


def test_a_topic_that_is_recreated_while_no_worker_runs_is_begun_anew_and_said_once(site: Site) -> None:
    site.produce(4000)
    work_off(site)
    delete(site, site.events)
    make(site, site.events)
    site.produce(8000)  # more than the offsets of before
    assert work_off(site).count(f"topic {site.events} was recreated") == 1
    site.check_exact()

    site.produce(1000)
    assert "recreated" not in work_off(site)
    site.check_exact()


def test_a_changelog_that_is_recreated_is_reported_and_the_worker_goes_on_where_it_was(site: Site) -> None:
    site.produce(1000)
    work_off(site)
    delete(site, site.changelog)
    make(site, site.changelog)
    site.sent.clear()
    site.produce(1000)
    assert f"topic {site.changelog} was recreated: what sessions were known for is lost" in work_off(site)
    assert site.log.counts(site.changelog) == site.sent, "nothing is read again"


def test_a_topic_that_is_gone_makes_the_worker_not_ready_and_says_what_to_do(site: Site) -> None:
    port = unused_port()
    with site.worker(metrics_port=port, **LOOK_OFTEN) as worker:
        send(site, site.topics[0], 400)
        site.wait_until_done()
        wait_until(lambda: get(port, "/readyz")[0] == 200, "it is ready")
        delete(site, site.topics[0])
        gone = f"topic {site.topics[0]} is gone"
        wait_until(lambda: gone in get(port, "/readyz")[1], "it says what is missing")
        assert get(port, "/readyz")[0] == 503
        assert "haltline topics create" in get(port, "/readyz")[1]
        make(site, site.topics[0])
        assert worker.wait() == EXIT_FAILED


def test_partitions_that_are_added_make_the_worker_not_ready_and_it_says_what_to_do(site: Site) -> None:
    port = unused_port()
    with site.worker(metrics_port=port, **LOOK_OFTEN) as worker:
        site.produce(400)
        site.wait_until_done()
        wait_until(lambda: get(port, "/readyz")[0] == 200, "it is ready")
        more_partitions(site, site.events, PARTITIONS + 2)
        expected = f"topic {site.events}: expected {PARTITIONS} partitions"
        wait_until(lambda: expected in get(port, "/readyz")[1], "it says what it expected")
        code, result = get(port, "/readyz")
        assert code == 503
        assert f"got {PARTITIONS + 2}" in result
        assert "--prefix" in result
        assert get(port, "/healthz")[0] == 200, "to start it again would not help"
        assert not worker.ended


def test_partitions_that_are_added_stay_unread_when_a_worker_takes_over_and_the_others_are_watched(site: Site) -> None:
    port = unused_port()
    with site.worker(**LOOK_OFTEN) as leaves, site.worker(metrics_port=port, **LOOK_OFTEN) as stays:
        wait_until(lambda: members(site) == 2, "both are members")
        more_partitions(site, site.events, PARTITIONS + 2)
        producer = Producer({"bootstrap.servers": site.bootstrap})
        for number in range(6000):
            partition = number % (PARTITIONS + 2)
            producer.produce(site.events, b'{"n": 1}', f"in-{partition}", partition)
        assert producer.flush(30) == 0
        leaves.stop()
        of_before = range(PARTITIONS)

        def are_read() -> bool:
            committed, ends = site.log.committed(site.group, site.events), site.log.ends(site.events)
            return all(committed[number] == ends[number] for number in of_before)

        wait_until(are_read, "the partitions of before are read", deadline_s=90)
        wait_until(lambda: get(port, "/readyz")[0] == 503, "it is not ready")
        assert "--prefix" in get(port, "/readyz")[1]
        stays.stop()
    assert site.log.counts(site.changelog) == {f"in-{number}": 1000 for number in of_before}


def test_a_topic_that_is_recreated_with_fewer_partitions_is_refused_with_what_to_do(site: Site) -> None:
    with site.worker(**LOOK_OFTEN) as worker:
        site.produce(400)
        site.wait_until_done()
        delete(site, site.events)
        make(site, site.events, PARTITIONS - 2)
        assert worker.wait() == EXIT_FAILED
    with site.worker() as worker:
        assert worker.wait() == EXIT_FAILED
    assert "expected the same number of partitions in each" in worker.stderr
    assert "--prefix" in worker.stderr
