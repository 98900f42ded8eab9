"""The worker on a real Kafka whose topics are deleted, recreated, or given more partitions under it."""

from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]  # its stubs miss them

from haltline.streams.local.kafka import LocalKafka
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.streams.counting import get, shows, unused_port
from tests.streams.runtime.test_worker_process_kafka import PARTITIONS, Site, members
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


def test_a_topic_that_is_recreated_is_begun_anew_and_one_that_is_gone_is_named(site: Site) -> None:
    with site.worker(**LOOK_OFTEN) as worker:
        site.produce(4000)
        site.wait_until_done()
        delete(site, site.events)
        make(site, site.events)
        site.produce(1000)
        assert worker.wait(deadline_s=30) == EXIT_FAILED
    assert f"topic {site.events}" in worker.stderr
    assert "recreated" in worker.stderr

    port = unused_port()
    with site.worker(metrics_port=port, **LOOK_OFTEN) as worker:
        site.produce(1000)
        site.wait_until_done()
        line = f'haltline_topics_made_anew_total{{topic="{site.events}"}} 1.0'
        wait_until(partial(shows, port, line), line)
        wait_until(lambda: get(port, "/readyz")[0] == 200, "it is ready")
        assert f"topic {site.events} was recreated" in get(port, "/readyz")[1]
        commands = site.topics[0]
        delete(site, commands)
        wait_until(lambda: f"topic {commands} is gone" in get(port, "/readyz")[1], "it says what is missing")
        assert get(port, "/readyz")[0] == 503
        assert "haltline topics create" in get(port, "/readyz")[1]
        make(site, commands)
        assert worker.wait() == EXIT_FAILED
    site.produce(1000)
    assert f"topic {site.events} was recreated" not in site.work_off(), "it is said once"
    site.check_exact()


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
        result = get(port, "/readyz")[1]
        assert f"topic {site.events}: expected {PARTITIONS} partitions" in result
        assert (f"got {PARTITIONS + 2}" in result, "--prefix" in result) == (True, True)
        assert get(port, "/healthz")[0] == 200, "to start it again would not help"
        stays.stop()
    assert site.log.counts(site.changelog) == {f"in-{number}": 1000 for number in of_before}
