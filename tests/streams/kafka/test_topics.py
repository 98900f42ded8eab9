import logging
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    ConfigResource,
    NewTopic,
)

from haltline.schemas.topics import LAYOUT, Cleanup, TopicLayout, Topics
from haltline.streams.kafka.topics import (
    CHANGELOG_MAX_MESSAGE_BYTES,
    NoAdminApiError,
    TopicReport,
    check_topics,
    create_topics,
)
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from tests.cases import cases
from tests.conftest import changelog_of

HOUR_MS = 3_600_000


@pytest.fixture
def admin(kafka: LocalKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=logging.getLogger("tests.kafka"))


@pytest.fixture
def no_topics(admin: AdminClient) -> Iterator[Topics]:
    """A prefix of the test's own, of which no topic is there yet."""
    topics = Topics(prefix=f"n{uuid.uuid4().hex[:8]}.")
    yield topics
    there = admin.list_topics(timeout=10).topics
    made = [name for name in (*topics.all, changelog_of(topics)) if name in there]
    if made:
        for deleted in admin.delete_topics(made).values():
            deleted.result()


def test_create_makes_every_topic_and_the_changelog_with_the_same_number_of_partitions(
    admin: AdminClient, no_topics: Topics
) -> None:
    names = (*no_topics.all, changelog_of(no_topics))
    reports = _create(admin, no_topics, partitions=3)
    assert [(r.topic, r.created, r.partitions, r.differences) for r in reports] == [
        (name, True, 3, ()) for name in names
    ]
    there = admin.list_topics(timeout=10).topics
    assert [len(there[name].partitions) for name in names] == [3] * len(names)


@pytest.mark.parametrize("layout", LAYOUT, ids=lambda layout: layout.name)
def test_create_tells_the_broker_what_the_layout_says(
    admin: AdminClient, kafka_topics: Topics, layout: TopicLayout
) -> None:
    actual = _settings(admin, kafka_topics.prefix + layout.name)
    assert actual["cleanup.policy"] == layout.cleanup.value
    assert int(actual["max.message.bytes"]) == layout.max_message_bytes
    if layout.retention_hours is not None:
        assert int(actual["retention.ms"]) == layout.retention_hours * HOUR_MS


def test_compacted_topics_and_the_changelog_are_compacted_within_minutes_not_a_week(
    admin: AdminClient, kafka_topics: Topics
) -> None:
    compacted = [kafka_topics.prefix + layout.name for layout in LAYOUT if layout.cleanup is Cleanup.COMPACT]
    assert set(compacted) == {kafka_topics.control, kafka_topics.policies}
    for name in (*compacted, changelog_of(kafka_topics)):
        actual = _settings(admin, name)
        assert actual["cleanup.policy"] == "compact"
        assert int(actual["segment.ms"]) == 10 * 60 * 1000
        assert float(actual["min.cleanable.dirty.ratio"]) == 0.2
    assert int(_settings(admin, changelog_of(kafka_topics))["max.message.bytes"]) == CHANGELOG_MAX_MESSAGE_BYTES


def test_a_second_create_changes_nothing(admin: AdminClient, no_topics: Topics) -> None:
    _create(admin, no_topics, partitions=2)
    before = {name: _settings(admin, name) for name in no_topics.all}
    again = _create(admin, no_topics, partitions=2)
    assert [(r.created, r.ok) for r in again] == [(False, True)] * (len(no_topics.all) + 1)
    assert {name: _settings(admin, name) for name in no_topics.all} == before


def test_create_adds_what_is_missing_and_names_what_differs(admin: AdminClient, no_topics: Topics) -> None:
    _make(admin, NewTopic(no_topics.actions, 5, 1, config={"max.message.bytes": str(12 * 1024 * 1024)}))
    reports = _create(admin, no_topics, partitions=2)
    assert [r.topic for r in reports if not r.created] == [no_topics.actions]
    assert _differences(reports) == [f"topic {no_topics.actions}: partitions: expected 2, as the rest, got 5"]


def test_check_of_topics_that_create_made_finds_nothing(admin: AdminClient, kafka_topics: Topics) -> None:
    reports = check_topics(admin, kafka_topics, changelogs=[changelog_of(kafka_topics)])
    assert [(r.created, r.ok, r.partitions) for r in reports] == [(False, True, 4)] * (len(LAYOUT) + 1)


def test_check_names_every_topic_that_is_missing_and_makes_none(admin: AdminClient, no_topics: Topics) -> None:
    reports = check_topics(admin, no_topics, changelogs=[changelog_of(no_topics)])
    assert _differences(reports) == [
        f"topic {name}: topic: expected there, got missing" for name in (*no_topics.all, changelog_of(no_topics))
    ]
    assert not set(no_topics.all) & set(admin.list_topics(timeout=10).topics)


@cases(
    "name, partitions, settings, difference",
    {
        "another number of partitions than actions has": (
            "feedback",
            3,
            {"retention.ms": "-1"},
            "partitions: expected 2, as the rest, got 3",
        ),
        "kills that are forgotten after a while": (
            "control",
            2,
            {"cleanup.policy": "compact,delete"},
            "cleanup.policy: expected compact, got compact,delete",
        ),
        "findings kept for an hour only": (
            "detections",
            2,
            {"retention.ms": "3600000"},
            f"retention.ms: expected at least {30 * 24 * HOUR_MS}, got 3600000",
        ),
        "records dropped by size before their time": (
            "feedback",
            2,
            {"retention.ms": "-1", "retention.bytes": "1000000"},
            "retention.bytes: expected -1, no limit, got 1000000",
        ),
        "a dead letter topic that refuses large records": (
            "dead-letter",
            2,
            {"retention.ms": "-1", "max.message.bytes": "1048588"},
            f"max.message.bytes: expected at least {13 * 1024 * 1024}, got 1048588",
        ),
    },
)
def test_check_names_where_what_was_expected_and_what_was_found(
    admin: AdminClient,
    no_topics: Topics,
    name: str,
    partitions: int,
    settings: dict[str, str],
    difference: str,
) -> None:
    at_least = {"max.message.bytes": str(16 * 1024 * 1024)}
    topic = no_topics.prefix + name
    _make(admin, NewTopic(topic, partitions, 1, config=at_least | settings))
    _create(admin, no_topics, partitions=2)
    reports = check_topics(admin, no_topics, changelogs=[changelog_of(no_topics)])
    assert _differences(reports) == [f"topic {topic}: {difference}"]


def test_longer_retention_and_larger_messages_are_no_difference(admin: AdminClient, no_topics: Topics) -> None:
    generous = {"retention.ms": "-1", "max.message.bytes": str(16 * 1024 * 1024)}
    _make(admin, NewTopic(no_topics.actions, 2, 1, config=generous))
    assert _differences(_create(admin, no_topics, partitions=2)) == []


def test_a_topic_that_the_cluster_refuses_is_named_with_its_reason(admin: AdminClient, no_topics: Topics) -> None:
    with pytest.raises(RuntimeError, match=rf"topic {no_topics.actions}: .* got INVALID_REPLICATION_FACTOR"):
        create_topics(admin, no_topics, 1, 3, changelogs=[changelog_of(no_topics)])


@pytest.mark.parametrize(
    "ask",
    [lambda admin: create_topics(admin, Topics(), 4, 1), lambda admin: check_topics(admin, Topics())],
    ids=["create", "check"],
)
def test_an_embedded_broker_is_refused_at_once_with_the_reason(
    embedded: EmbeddedBroker, ask: Callable[[AdminClient], object]
) -> None:
    admin = AdminClient({"bootstrap.servers": embedded.bootstrap})
    with pytest.raises(NoAdminApiError, match=r"expected a cluster with a controller.*An embedded broker has none"):
        ask(admin)


def _create(admin: AdminClient, topics: Topics, partitions: int) -> list[TopicReport]:
    return create_topics(admin, topics, partitions, replication=1, changelogs=[changelog_of(topics)])


def _make(admin: AdminClient, topic: NewTopic) -> None:
    for made in admin.create_topics([topic]).values():
        made.result()


def _settings(admin: AdminClient, topic: str) -> dict[str, str]:
    (config,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in config.result().items()}


def _differences(reports: list[TopicReport]) -> list[str]:
    return [str(difference) for report in reports for difference in report.differences]
