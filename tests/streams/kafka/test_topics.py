import logging
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    ConfigResource,
    NewTopic,
)

from haltline.schemas.topics import LAYOUT, Cleanup, Topics
from haltline.streams.kafka.topics import CHANGELOG_MAX_MESSAGE_BYTES, TopicReport, check_topics, create_topics
from haltline.streams.local.kafka import LocalKafka
from tests.conftest import changelog_of

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def admin(kafka: LocalKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=logging.getLogger("tests.kafka"))


@pytest.fixture
def no_topics(admin: AdminClient) -> Iterator[Topics]:
    """A prefix of the test's own, of which no topic is there yet; they go with the test."""
    topics = Topics(prefix=f"n{uuid.uuid4().hex[:8]}.")
    yield topics
    there = admin.list_topics(timeout=10).topics
    made = [name for name in (*topics.all, changelog_of(topics)) if name in there]
    for deleted in admin.delete_topics(made).values():
        deleted.result()


def test_create_makes_every_topic_as_the_layout_says_and_a_second_time_changes_nothing(
    admin: AdminClient, no_topics: Topics
) -> None:
    names = (*no_topics.all, changelog_of(no_topics))
    missing = check_topics(admin, no_topics, changelogs=[changelog_of(no_topics)])
    assert _differences(missing) == [f"topic {name}: topic: expected there, got missing" for name in names]
    with pytest.raises(RuntimeError, match=rf"topic {no_topics.actions}: .* got INVALID_REPLICATION_FACTOR"):
        create_topics(admin, no_topics, 1, 3, changelogs=[changelog_of(no_topics)])
    assert not set(names) & set(admin.list_topics(timeout=10).topics)
    reports = _create(admin, no_topics, partitions=3)
    assert [(r.topic, r.created, r.partitions, r.differences) for r in reports] == [(n, True, 3, ()) for n in names]
    there = admin.list_topics(timeout=10).topics
    assert [len(there[name].partitions) for name in names] == [3] * len(names)
    settings = {name: _settings(admin, name) for name in names}
    again = _create(admin, no_topics, partitions=3)
    checked = check_topics(admin, no_topics, changelogs=[changelog_of(no_topics)])
    assert {(r.created, r.ok, r.partitions) for r in (*again, *checked)} == {(False, True, 3)}
    assert {name: _settings(admin, name) for name in names} == settings
    for layout in LAYOUT:
        actual = settings[no_topics.prefix + layout.name]
        assert actual["message.timestamp.type"] == "LogAppendTime", layout.name
        assert actual["cleanup.policy"] == layout.cleanup.value, layout.name
        assert int(actual["max.message.bytes"]) == layout.max_message_bytes, layout.name
        if layout.retention_hours is not None:
            assert int(actual["retention.ms"]) == layout.retention_hours * HOUR_MS, layout.name
    compacted = [no_topics.prefix + layout.name for layout in LAYOUT if layout.cleanup is Cleanup.COMPACT]
    assert set(compacted) == {no_topics.control, no_topics.policies}
    for name in (*compacted, changelog_of(no_topics)):  # within minutes, not a week
        assert settings[name]["cleanup.policy"] == "compact"
        assert int(settings[name]["segment.ms"]) == 10 * 60 * 1000
        assert float(settings[name]["min.cleanable.dirty.ratio"]) == 0.2
    assert int(settings[changelog_of(no_topics)]["max.message.bytes"]) == CHANGELOG_MAX_MESSAGE_BYTES


KEPT = {"retention.ms": "-1"}
DIFFERENT: dict[str, tuple[int, dict[str, str], str]] = {
    "actions": (2, KEPT, ""),  # more of what is asked for is no difference
    "feedback": (3, KEPT, "partitions: expected 2, as the rest, got 3"),
    "incidents": (
        2, KEPT | {"message.timestamp.type": "CreateTime"},
        "message.timestamp.type: expected LogAppendTime, got CreateTime",
    ),
    "control": (2, {"cleanup.policy": "compact,delete"}, "cleanup.policy: expected compact, got compact,delete"),
    "detections": (2, {"retention.ms": "3600000"}, f"retention.ms: expected at least {720 * HOUR_MS}, got 3600000"),
    "interventions": (
        2, KEPT | {"retention.bytes": "1000000"}, "retention.bytes: expected -1, no limit, got 1000000",
    ),
    "dead-letter": (
        2, KEPT | {"max.message.bytes": "1048588"}, f"max.message.bytes: expected at least {13 * 2**20}, got 1048588",
    ),
}  # fmt: skip
"""By topic: what it was made with before, and what is named of that."""


def test_create_adds_what_is_missing_and_names_where_what_was_expected_and_what_was_found(
    admin: AdminClient, no_topics: Topics
) -> None:
    at_least = {"max.message.bytes": str(16 * 1024 * 1024), "message.timestamp.type": "LogAppendTime"}
    for name, (partitions, settings, _) in DIFFERENT.items():
        before = NewTopic(no_topics.prefix + name, partitions, 1, config=at_least | settings)
        admin.create_topics([before])[before.topic].result()
    expected = {f"topic {no_topics.prefix}{name}: {what}" for name, (*_, what) in DIFFERENT.items() if what}
    made = _create(admin, no_topics, partitions=2)
    assert {r.topic for r in made if not r.created} == {no_topics.prefix + name for name in DIFFERENT}
    for reports in (made, check_topics(admin, no_topics, changelogs=[changelog_of(no_topics)])):
        assert set(_differences(reports)) == expected


def _create(admin: AdminClient, topics: Topics, partitions: int) -> list[TopicReport]:
    return create_topics(admin, topics, partitions, replication=1, changelogs=[changelog_of(topics)])


def _settings(admin: AdminClient, topic: str) -> dict[str, str]:
    (config,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in config.result().items()}


def _differences(reports: list[TopicReport]) -> list[str]:
    return [str(difference) for report in reports for difference in report.differences]
