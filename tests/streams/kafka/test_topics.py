import logging
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    ConfigResource,
    NewTopic,
)

from haltline.schemas.topics import LAYOUT, Cleanup, Topics
from haltline.streams.kafka.topics import (
    CHANGELOG_MAX_MESSAGE_BYTES,
    NoAdminApiError,
    TopicReport,
    check_topics,
    create_topics,
)
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from tests.conftest import changelog_of

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def admin(kafka: LocalKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=logging.getLogger("tests.kafka"))


def _deleted_after(admin: AdminClient) -> Iterator[Topics]:
    """A prefix of the test's own, whose topics go with the test."""
    topics = Topics(prefix=f"n{uuid.uuid4().hex[:8]}.")
    yield topics
    there = admin.list_topics(timeout=10).topics
    made = [name for name in (*topics.all, changelog_of(topics)) if name in there]
    if made:
        for deleted in admin.delete_topics(made).values():
            deleted.result()


@pytest.fixture
def no_topics(admin: AdminClient) -> Iterator[Topics]:
    """A prefix of which no topic is there yet."""
    yield from _deleted_after(admin)


@pytest.fixture(scope="module")
def topics(admin: AdminClient) -> Iterator[Topics]:
    """Every topic, made once for the tests that only look."""
    for topics in _deleted_after(admin):
        _create(admin, topics, partitions=4)
        yield topics


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


def test_create_tells_the_broker_what_the_layout_says(admin: AdminClient, topics: Topics) -> None:
    for layout in LAYOUT:
        actual = _settings(admin, topics.prefix + layout.name)
        assert actual["cleanup.policy"] == layout.cleanup.value, layout.name
        assert int(actual["max.message.bytes"]) == layout.max_message_bytes, layout.name
        if layout.retention_hours is not None:
            assert int(actual["retention.ms"]) == layout.retention_hours * HOUR_MS, layout.name


def test_compacted_topics_and_the_changelog_are_compacted_within_minutes_not_a_week(
    admin: AdminClient, topics: Topics
) -> None:
    compacted = [topics.prefix + layout.name for layout in LAYOUT if layout.cleanup is Cleanup.COMPACT]
    assert set(compacted) == {topics.control, topics.policies}
    for name in (*compacted, changelog_of(topics)):
        actual = _settings(admin, name)
        assert actual["cleanup.policy"] == "compact"
        assert int(actual["segment.ms"]) == 10 * 60 * 1000
        assert float(actual["min.cleanable.dirty.ratio"]) == 0.2
    assert int(_settings(admin, changelog_of(topics))["max.message.bytes"]) == CHANGELOG_MAX_MESSAGE_BYTES


def test_a_second_create_changes_nothing(admin: AdminClient, no_topics: Topics) -> None:
    _create(admin, no_topics, partitions=2)
    before = {name: _settings(admin, name) for name in no_topics.all}
    again = _create(admin, no_topics, partitions=2)
    assert [(r.created, r.ok) for r in again] == [(False, True)] * (len(no_topics.all) + 1)
    assert {name: _settings(admin, name) for name in no_topics.all} == before


def test_check_of_topics_that_create_made_finds_nothing(admin: AdminClient, topics: Topics) -> None:
    reports = check_topics(admin, topics, changelogs=[changelog_of(topics)])
    assert [(r.created, r.ok, r.partitions) for r in reports] == [(False, True, 4)] * (len(LAYOUT) + 1)


def test_check_names_every_topic_that_is_missing_and_makes_none(admin: AdminClient, no_topics: Topics) -> None:
    reports = check_topics(admin, no_topics, changelogs=[changelog_of(no_topics)])
    assert _differences(reports) == [
        f"topic {name}: topic: expected there, got missing" for name in (*no_topics.all, changelog_of(no_topics))
    ]
    assert not set(no_topics.all) & set(admin.list_topics(timeout=10).topics)


DIFFERENT: dict[str, tuple[int, dict[str, str], list[str]]] = {
    # More of what is asked for is no difference.
    "actions": (2, {"retention.ms": "-1"}, []),
    # Another number of partitions than the rest has.
    "feedback": (3, {"retention.ms": "-1"}, ["partitions: expected 2, as the rest, got 3"]),
    # Kills that are forgotten after a while.
    "control": (2, {"cleanup.policy": "compact,delete"}, ["cleanup.policy: expected compact, got compact,delete"]),
    # Findings kept for an hour only.
    "detections": (
        2,
        {"retention.ms": "3600000"},
        [f"retention.ms: expected at least {30 * 24 * HOUR_MS}, got 3600000"],
    ),
    # Records dropped by size before their time.
    "interventions": (
        2,
        {"retention.ms": "-1", "retention.bytes": "1000000"},
        ["retention.bytes: expected -1, no limit, got 1000000"],
    ),
    # A dead letter topic that refuses large records.
    "dead-letter": (
        2,
        {"retention.ms": "-1", "max.message.bytes": "1048588"},
        [f"max.message.bytes: expected at least {13 * 1024 * 1024}, got 1048588"],
    ),
}
"""By topic: what it was made with before, and what is named of that."""


def test_create_adds_what_is_missing_and_names_where_what_was_expected_and_what_was_found(
    admin: AdminClient, no_topics: Topics
) -> None:
    at_least = {"max.message.bytes": str(16 * 1024 * 1024)}
    for name, (partitions, settings, _) in DIFFERENT.items():
        _make(admin, NewTopic(no_topics.prefix + name, partitions, 1, config=at_least | settings))
    expected = {f"topic {no_topics.prefix}{name}: {one}" for name, (*_, all_of) in DIFFERENT.items() for one in all_of}
    made = _create(admin, no_topics, partitions=2)
    assert {r.topic for r in made if not r.created} == {no_topics.prefix + name for name in DIFFERENT}
    for reports in (made, check_topics(admin, no_topics, changelogs=[changelog_of(no_topics)])):
        assert set(_differences(reports)) == expected


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
