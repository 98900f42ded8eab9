"""A range of a log on a broker, and the texts that name its ends."""

import orjson
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs miss one

from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import Gone
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.replay.kafka_range import KafkaRange
from haltline.streams.replay.records import Span
from haltline.streams.replay.time_range import BadMoment, parse_moment, parse_range
from tests.builders import at, cases
from tests.conftest import PARTITIONS
from tests.streams.commands import said
from tests.streams.replay.recorded import TOPICS, LiveLog, named, put
from tests.waiting import wait_until


def test_offsets_of_actions_cut_the_other_topics_at_their_times(broker: EmbeddedBroker, night: LiveLog) -> None:
    number, kept = next((p, k) for (t, p), k in night.records.items() if t == TOPICS.actions and len(k) > 5)
    with KafkaRange(broker.bootstrap, TOPICS, {number: 2}, {number: 5}) as found:
        assert Span(TOPICS.actions, number, 2, 5) in found.spans
        actual = list(found.inputs())
    assert {record.partition for record in actual} == {number}
    assert [record.offset for record in actual if record.topic == TOPICS.actions] == [2, 3, 4]
    assert all(kept[2].timestamp <= record.timestamp < kept[5].timestamp for record in actual)


@pytest.mark.parametrize("offsets", [{0: 100_000}, {9: 0}], ids=["beyond the end", "no such partition"])
def test_an_offset_that_is_not_there_is_refused(broker: EmbeddedBroker, offsets: dict[int, int]) -> None:
    with pytest.raises(BadMoment, match="expected"):
        KafkaRange(broker.bootstrap, TOPICS, offsets)


@pytest.mark.kafka
def test_what_the_broker_has_deleted_since_the_range_was_frozen_is_missed_aloud(
    kafka: LocalKafka, kafka_topics: Topics
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for n in range(100):
        producer.produce(kafka_topics.actions, f"{n}".encode(), b"k", partition=0)
    assert producer.flush(10) == 0
    with KafkaRange(kafka.bootstrap, kafka_topics) as found:
        (span,) = [one for one in found.freeze(kafka_topics.actions) if one.count]
        assert len(list(found.read([span]))) == 100
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for deleted in admin.delete_records([TopicPartition(kafka_topics.actions, 0, 38)]).values():
            deleted.result()
        with pytest.raises(Gone, match="expected offsets 0 to 99, got a broker that has deleted those before 38"):
            list(found.read([span]))
        assert len(list(found.read([Span(span.topic, 0, 38, 100)]))) == 62


def keeping_producers_times(kafka: LocalKafka, topics: Topics) -> None:
    """Make the topics anew as an earlier release did: an altered setting is in force only some time later."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for deleted in admin.delete_topics([*topics.all]).values():
        deleted.result()
    wait_until(lambda: not {*topics.all} & admin.list_topics(timeout=10).topics.keys(), "the topics are deleted")
    kept = {"message.timestamp.type": "CreateTime"}
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1, config=kept) for name in topics.all]).values():
        made.result()
    wait_until(lambda: {*topics.all} <= admin.list_topics(timeout=10).topics.keys(), "the topics are there")


@pytest.mark.kafka
def test_a_range_in_time_of_the_real_kafka_is_what_the_broker_says_it_is_and_no_group_is_joined(
    kafka: LocalKafka, kafka_topics: Topics, night: LiveLog
) -> None:
    keeping_producers_times(kafka, kafka_topics)
    put(kafka.bootstrap, night, kafka_topics)
    start, end = at(6), at(112)
    with KafkaRange(kafka.bootstrap, kafka_topics, start, end) as found:
        actual = [(record.topic, record.partition, record.offset) for record in found.inputs()]
    expected = [record for record in night.inputs() if start <= record.timestamp < end]
    assert actual == [(named(r.topic, kafka_topics), r.partition, r.offset) for r in expected]
    groups = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_consumer_groups
    before = {group.group_id for group in groups().result().valid}
    code, output = said("replay", "kafka", "--bootstrap", kafka.bootstrap, "--prefix", kafka_topics.prefix, "--json")
    document = orjson.loads(output)
    decided = night.count(TOPICS.interventions)
    assert (code, document["first_divergence"], document["same"]) == (0, None, decided), output
    assert {group.group_id for group in groups().result().valid} == before


NOW_MS = 1_750_000_000_000


@cases(
    "text, expected",
    {
        "nothing is open": ("", None),
        "in several units": ("-1d2h", NOW_MS - 93_600_000),
        "in UTC": ("2025-06-15T15:06:40Z", NOW_MS),
        "no zone is UTC": ("2025-06-15T15:06:40", NOW_MS),
    },
)
def test_a_moment_is_a_time_or_how_long_ago(text: str, expected: int | None) -> None:
    assert parse_moment(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["soon", "-", "12", "0:1", "-90"])
def test_what_is_neither_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(BadMoment, match="expected a time"):
        parse_moment(text, NOW_MS)


def test_a_range_may_be_open_at_either_end_and_one_that_ends_before_it_begins_is_refused() -> None:
    assert parse_range("", "-1s", 5_000) == (None, 4_000)
    assert parse_range("0:9,2:7", "1:5", 0) == ({0: 9, 2: 7}, {1: 5})
    for since, until in (("-10m", "-10m"), ("-1m", "-10m"), ("0:9,1:5", "1:5")):
        with pytest.raises(BadMoment, match=f"--from {since}: expected a moment before --to, got --to {until}"):
            parse_range(since, until, 0)
