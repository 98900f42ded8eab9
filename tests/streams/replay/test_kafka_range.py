"""A range of a log on a broker: frozen before it is read, and read beside the workers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import Gone, LogReader, open_consumer, partitions_of
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_worker, wait_until_ready
from haltline.streams.replay.kafka_range import KafkaRange
from haltline.streams.replay.records import Span
from haltline.streams.replay.time_range import BadMoment, Moment
from tests.builders import at
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night, deletes, works
from tests.waiting import wait_until


def put(bootstrap: str, log: LiveLog) -> None:
    """The whole log, as it was, onto a broker."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for (topic, partition), kept in log.records.items():
        for record in kept:
            producer.produce(topic, record.value, record.key, partition=partition, timestamp=record.timestamp)
    assert producer.flush(10) == 0


@pytest.fixture(scope="module")
def night() -> LiveLog:
    return a_night()


@pytest.fixture(scope="module")
def bootstrap(night: LiveLog) -> Iterator[str]:
    with EmbeddedBroker() as broker:
        broker.ensure_topics(TOPICS)
        put(broker.bootstrap, night)
        yield broker.bootstrap


def run(bootstrap: str, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["replay", "kafka", "--bootstrap", bootstrap, *arguments])
    return done.exit_code, done.output


def test_records_come_in_the_order_of_times_and_what_comes_after_the_range_was_frozen_is_not_of_it(
    night: LiveLog,
) -> None:
    with EmbeddedBroker() as broker:
        broker.ensure_topics(TOPICS)
        put(broker.bootstrap, night)
        with KafkaRange(broker.bootstrap, TOPICS) as found:
            put(broker.bootstrap, night)
            assert list(found.inputs()) == list(night.inputs())


def test_times_are_frozen_as_the_first_offsets_that_are_not_older(bootstrap: str, night: LiveLog) -> None:
    start, end = at(6), at(112)
    with KafkaRange(bootstrap, TOPICS, Moment(start), Moment(end)) as found:
        actual = list(found.inputs())
    assert actual == [record for record in night.inputs() if start <= record.timestamp < end]


def test_offsets_of_actions_cut_the_other_topics_at_their_times(bootstrap: str, night: LiveLog) -> None:
    number, kept = next((p, k) for (t, p), k in night.records.items() if t == TOPICS.actions and len(k) > 5)
    with KafkaRange(bootstrap, TOPICS, Moment(offsets={number: 2}), Moment(offsets={number: 5})) as found:
        assert Span(TOPICS.actions, number, 2, 5) in found.spans
        actual = list(found.inputs())
    assert {record.partition for record in actual} == {number}
    assert [record.offset for record in actual if record.topic == TOPICS.actions] == [2, 3, 4]
    assert all(kept[2].timestamp <= record.timestamp < kept[5].timestamp for record in actual)


@pytest.mark.parametrize("offsets", [{0: 100_000}, {9: 0}], ids=["beyond the end", "no such partition"])
def test_an_offset_that_is_not_there_is_refused(bootstrap: str, offsets: dict[int, int]) -> None:
    with pytest.raises(BadMoment, match="expected"):
        KafkaRange(bootstrap, TOPICS, Moment(offsets=offsets))


@pytest.mark.kafka
def test_what_the_broker_has_deleted_since_the_range_was_frozen_is_missed_aloud(
    kafka: LocalKafka, kafka_topics: Topics
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for n in range(100):
        producer.produce(kafka_topics.actions, f"{n}".encode(), b"k", partition=0)
    assert producer.flush(10) == 0
    with KafkaRange(kafka.bootstrap, kafka_topics) as found:
        (span,) = [one for one in found.spans_of(kafka_topics.actions) if one.count]
        assert len(list(found.read([span]))) == 100
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for deleted in admin.delete_records([TopicPartition(kafka_topics.actions, 0, 38)]).values():
            deleted.result()
        with pytest.raises(Gone, match="expected offsets 0 to 99, got a broker that has deleted those before 38"):
            list(found.read([span]))
        assert len(list(found.read([Span(span.topic, 0, 38, 100)]))) == 62


@pytest.mark.kafka
def test_a_worker_on_the_real_kafka_decided_what_its_replay_decides_and_its_group_is_left_alone(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    group = kafka_topics.prefix.strip(".")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})

    def decisions() -> int:
        with LogReader(kafka.bootstrap, [kafka_topics.interventions]) as reader:
            return sum(1 for _ in reader.to_end())

    def committed() -> list[int]:
        consumer = open_consumer(kafka.bootstrap, group)
        try:
            places = [tp for topic in kafka_topics.session_sources for tp in partitions_of(consumer, topic)]
            return [tp.offset for tp in consumer.committed(places, timeout=10)]
        finally:
            consumer.close()

    def say(seconds: float, *sessions: str) -> None:
        for one in [e for s in sessions for e in (*deletes(s, seconds, seconds + 6, seconds + 12), *works(f"w{s}", 3))]:
            producer.produce(kafka_topics.actions, one.to_json(), one.session_id)
        assert producer.flush(10) == 0

    with Children(tmp_path) as children:
        options = ("--prefix", kafka_topics.prefix, "--checkpoint-interval", "0.2")
        worker = start_worker(children, kafka.bootstrap, *options, embedded=False)
        wait_until_ready(children, worker)
        say(0, "a", "b", "c")
        wait_until(lambda: decisions() >= 9, "the first sessions are decided on", deadline_s=60)
        middle = datetime.now(UTC)
        wait_until(lambda: datetime.now(UTC) - middle > timedelta(milliseconds=2), "the clock of records moves on")
        say(1000, "d", "e")
        wait_until(lambda: decisions() >= 15, "the later sessions are decided on", deadline_s=60)
    before = committed()
    common = ("--prefix", kafka_topics.prefix, "--exact", "--json")
    code, output = run(kafka.bootstrap, *common)
    document = orjson.loads(output)
    assert (code, document["first_divergence"]) == (0, None), output
    assert document["recorded"] == 10
    code, output = run(kafka.bootstrap, *common, "--from", middle.isoformat())
    later = orjson.loads(output)
    assert (code, later["records"][kafka_topics.actions]) == (0, 24), output
    assert 0 < later["recorded"] < document["recorded"]
    assert committed() == before
