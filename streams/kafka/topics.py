"""Creation of topics on a cluster, and checks of existing ones."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
)

from haltline.schemas.topics import LAYOUT, Cleanup, TopicLayout, Topics

DEFAULT_CHANGELOG: Final = "haltline-sessions-changelog"
"""The changelog of a worker's sessions; Faust's name for table `sessions` of app `haltline`."""

DEFAULT_CHANGELOGS: Final = (DEFAULT_CHANGELOG, "haltline-shadow-sessions-changelog")
"""The changelogs of the default group, and of the group that runs rules in shadow."""

CHANGELOG_MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""The largest encoded state of one session that the changelog topic accepts, in bytes."""

_REQUEST_WITHIN_S = 30.0
_VISIBLE_WITHIN_S = 30.0
_POLL_S = 0.05
_HOUR_MS = 3_600_000

# The broker never compacts the segment to which it is writing. With its defaults (1 GiB, 7 days) a
# compacted topic would keep a week of old values, and a worker would read them all at its start.
_COMPACTED = {
    "segment.ms": str(_HOUR_MS // 6),
    "segment.bytes": str(64 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.2",
}

_TIMESTAMP_TYPE: Final = "LogAppendTime"
"""The broker's own time: a producer's clock may be days off."""

_CHANGELOG_LAG_MS: Final = _HOUR_MS // 6
"""Late records of a replaced worker are superseded within this time: `haltline.streams.runtime.changelog`."""


class NoAdminApiError(RuntimeError):
    """The cluster cannot create or describe topics: it has no controller."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One setting of one topic that differs from the layout."""

    topic: str
    setting: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"topic {self.topic}: {self.setting}: expected {self.expected}, got {self.actual}"


@dataclass(frozen=True, kw_only=True)
class TopicReport:
    """The result for one topic. `partitions` is 0 when the topic is missing."""

    topic: str
    what: str
    created: bool
    partitions: int
    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        """Whether the topic exists and matches the layout."""
        return not self.differences


@dataclass(frozen=True)
class _ExpectedTopic:
    """A topic by its full name, with its required layout."""

    topic: str
    layout: TopicLayout
    compaction_lag_ms: int = 0

    def settings(self) -> dict[str, str]:
        """The settings of the topic when it is created."""
        settings = {
            "cleanup.policy": self.layout.cleanup.value,
            "max.message.bytes": str(self.layout.max_message_bytes),
            "message.timestamp.type": _TIMESTAMP_TYPE,
        }
        if self.layout.retention_hours is not None:
            settings["retention.ms"] = str(self.layout.retention_hours * _HOUR_MS)
        if self.layout.cleanup is Cleanup.COMPACT:
            settings |= _COMPACTED
        if self.compaction_lag_ms:
            settings["min.compaction.lag.ms"] = str(self.compaction_lag_ms)
        return settings


def create_topics(
    admin: AdminClient,
    topics: Topics,
    partitions: int,
    replication: int,
    *,
    changelogs: Sequence[str] = DEFAULT_CHANGELOGS,
) -> list[TopicReport]:
    """Create every missing topic of the layout and the workers' changelogs.

    An existing topic is left unchanged, and its report names the differences; so a second call changes nothing. Returns
    one report per topic, in the order of the layout, when every topic is visible to clients. Raises NoAdminApiError for
    an embedded broker, and RuntimeError when the cluster refuses a topic.
    """
    expected = _expected_topics(topics, changelogs)
    there = _metadata(admin).topics
    missing = [w for w in expected if w.topic not in there]
    requested: Mapping[str, Future[None]] = {}
    if missing:
        requested = admin.create_topics(
            [
                NewTopic(w.topic, num_partitions=partitions, replication_factor=replication, config=w.settings())
                for w in missing
            ],
            request_timeout=_REQUEST_WITHIN_S,
        )
    created = {topic for topic, future in requested.items() if _was_created(topic, future)}
    _wait_until_visible(admin, {w.topic for w in expected})
    return _reports(admin, expected, partitions, created)


def check_topics(
    admin: AdminClient,
    topics: Topics,
    *,
    changelogs: Sequence[str] = DEFAULT_CHANGELOGS,
    partitions: int | None = None,
) -> list[TopicReport]:
    """Compare the topics of a cluster with the layout; changes nothing.

    Every topic must have `partitions` partitions, by default as many as the topic of actions. Retention may be longer
    and messages larger than in the layout. Raises NoAdminApiError for an embedded broker.
    """
    expected = _expected_topics(topics, changelogs)
    if partitions is None:
        actions = _metadata(admin).topics.get(topics.actions)
        partitions = len(actions.partitions) if actions is not None else None
    return _reports(admin, expected, partitions, created=set())


def _expected_topics(topics: Topics, changelogs: Sequence[str]) -> list[_ExpectedTopic]:
    own = [
        TopicLayout(name, "the state of sessions, for the worker's own recovery", None, CHANGELOG_MAX_MESSAGE_BYTES)
        for name in changelogs
    ]
    return [
        *(_ExpectedTopic(topics.prefix + layout.name, layout) for layout in LAYOUT),
        *(_ExpectedTopic(layout.name, layout, _CHANGELOG_LAG_MS) for layout in own),
    ]


def _metadata(admin: AdminClient) -> ClusterMetadata:
    metadata = admin.list_topics(timeout=_REQUEST_WITHIN_S)
    if metadata.controller_id not in metadata.brokers:
        raise NoAdminApiError(
            "topics: expected a cluster with a controller, which makes and describes topics; "
            f"got one without (brokers {sorted(metadata.brokers)}, controller {metadata.controller_id}). "
            "An embedded broker has none: its topics appear when they are first asked for"
        )
    return metadata


def _was_created(topic: str, future: Future[None]) -> bool:
    try:
        future.result()
    except KafkaException as refused:
        error = refused.args[0]
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:  # created by another process meanwhile
            return False
        raise RuntimeError(
            f"topic {topic}: expected the cluster to make it, got {error.name()}: {error.str()}"
        ) from refused
    return True


def _wait_until_visible(admin: AdminClient, names: set[str]) -> None:
    """Wait until brokers know the topics: the controller confirms a creation a moment earlier."""
    deadline = time.monotonic() + _VISIBLE_WITHIN_S
    while missing := names - _with_leaders(_metadata(admin)):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"topics: expected all to be visible within {_VISIBLE_WITHIN_S:.0f} s, "
                f"got none of {', '.join(sorted(missing))}"
            )
        time.sleep(_POLL_S)


def _with_leaders(metadata: ClusterMetadata) -> set[str]:
    return {
        name
        for name, topic in metadata.topics.items()
        if topic.error is None and all(p.leader in metadata.brokers for p in topic.partitions.values())
    }


def _reports(
    admin: AdminClient, expected: list[_ExpectedTopic], partitions: int | None, created: set[str]
) -> list[TopicReport]:
    counts = {name: len(topic.partitions) for name, topic in _metadata(admin).topics.items()}
    settings = _settings(admin, [w.topic for w in expected if w.topic in counts])
    return [
        TopicReport(
            topic=w.topic,
            what=w.layout.what,
            created=w.topic in created,
            partitions=counts.get(w.topic, 0),
            differences=tuple(_differences(w, counts.get(w.topic, 0), partitions, settings.get(w.topic, {}))),
        )
        for w in expected
    ]


def _settings(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    described = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names],
        request_timeout=_REQUEST_WITHIN_S,
    )
    return {
        resource.name: {name: entry.value for name, entry in future.result().items()}
        for resource, future in described.items()
    }


def _differences(
    expected: _ExpectedTopic, partitions: int, partitions_of_others: int | None, settings: Mapping[str, str]
) -> Iterator[Difference]:
    def differs(setting: str, should_be: str, is_now: str) -> Difference:
        return Difference(topic=expected.topic, setting=setting, expected=should_be, actual=is_now)

    if partitions == 0:
        yield differs("topic", "there", "missing")
        return
    if partitions_of_others is not None and partitions != partitions_of_others:
        yield differs("partitions", f"{partitions_of_others}, as the rest", str(partitions))

    layout = expected.layout
    if settings["cleanup.policy"] != layout.cleanup.value:
        yield differs("cleanup.policy", layout.cleanup.value, settings["cleanup.policy"])
    if settings["message.timestamp.type"] != _TIMESTAMP_TYPE:
        yield differs("message.timestamp.type", _TIMESTAMP_TYPE, settings["message.timestamp.type"])
    if int(settings["max.message.bytes"]) < layout.max_message_bytes:
        yield differs("max.message.bytes", f"at least {layout.max_message_bytes}", settings["max.message.bytes"])
    if int(settings["min.compaction.lag.ms"]) < expected.compaction_lag_ms:
        yield differs(
            "min.compaction.lag.ms", f"at least {expected.compaction_lag_ms}", settings["min.compaction.lag.ms"]
        )
    if layout.retention_hours is not None:
        retention_ms = int(settings["retention.ms"])
        if 0 <= retention_ms < layout.retention_hours * _HOUR_MS:
            yield differs("retention.ms", f"at least {layout.retention_hours * _HOUR_MS}", str(retention_ms))
        if int(settings["retention.bytes"]) >= 0:  # drops records before their retention time
            yield differs("retention.bytes", "-1, no limit", settings["retention.bytes"])
