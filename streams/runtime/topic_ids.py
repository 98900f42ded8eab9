"""The ids of topics, which distinguish a recreated topic from its predecessor.

An offset is valid only in its log. A topic that was deleted and recreated starts at 0 again under the same name: by
name and offset alone, its records look already processed.
"""

import logging
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.system import REAL, System

_log = logging.getLogger(__name__)

UNSUPPORTED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
"""The errors of a cluster that never reports topic ids."""

_SOURCE: Final = "topic-id"
_CHANGELOG: Final = "changelog-id"
_MARK_BYTES: Final = 6
_WITHIN_S: Final = 10.0


class Topic(NamedTuple):
    """A topic's current metadata."""

    id: str | None
    """None if the cluster does not report ids."""
    partitions: int


class TopicIds:
    """A client for a cluster's topic metadata. Safe to use from any thread."""

    def __init__(self, client: Mapping[str, ClientSetting], *, system: System = REAL) -> None:
        self._client = dict(client)
        self._admin = system.admin(self._client, logger=_log)
        self._without_ids: set[str] = set()

    def cluster(self, within_s: float) -> tuple[str | None, Set[str]]:
        """Return the cluster's id, if it has one, and its topics. Raises KafkaException on a timeout."""
        metadata = self._admin.list_topics(timeout=within_s)
        return metadata.cluster_id, metadata.topics.keys()

    def of(self, names: Collection[str], within_s: float = _WITHIN_S) -> dict[str, Topic]:
        """Return those of the topics that exist. Raises KafkaException on a timeout."""
        metadata = self._admin.list_topics(timeout=within_s)
        there = {name: metadata.topics[name] for name in names if name in metadata.topics}
        found = {name: Topic(None, len(topic.partitions)) for name, topic in there.items() if topic.error is None}
        # The embedded broker has no controller, and every request to one would time out.
        unknown = found.keys() - self._without_ids if metadata.controller_id in metadata.brokers else set()
        if not unknown:
            return found
        answers = self._admin.describe_topics(TopicCollection([*unknown]), request_timeout=within_s)
        for name, answer in answers.items():
            try:
                found[name] = Topic(str(answer.result().topic_id), found[name].partitions)
            except KafkaException as error:
                code = error.args[0].code()
                if code in UNSUPPORTED:
                    self._without_ids.add(name)
                    _log.warning(
                        "topic %s: its id is not known, so its recreation would not be detected: %s", name, error
                    )
                elif code == KafkaError.UNKNOWN_TOPIC_OR_PART:  # deleted between the two requests
                    del found[name]
                else:
                    raise
        return found


@dataclass(frozen=True)
class Logs:
    """The logs to which the offsets of states and commits refer: topics by their ids."""

    ids: Mapping[str, str]
    """The ids of the sources, by topic. Empty if the cluster does not report them."""
    changelog: str = ""
    """The id of the topic that holds the states."""

    @classmethod
    def of(cls, topics: Mapping[str, Topic], changelog: str) -> "Logs":
        """Return the logs of these topics, one of which is the changelog; no logs if an id is unknown."""
        ids = {name: topic.id for name, topic in topics.items() if topic.id is not None}
        return cls(ids, ids.pop(changelog, "")) if len(ids) == len(topics) else cls({})

    @property
    def mark(self) -> bytes:
        """The header of a changelog record that identifies the logs of its offsets."""
        return b"".join(_mark(topic, topic_id) for topic, topic_id in sorted(self.ids.items()))

    def others(self, mark: bytes) -> frozenset[str]:
        """Return the topics whose log differs from that of the mark; none if either is unknown."""
        if not mark:
            return frozenset()
        known = {mark[at : at + _MARK_BYTES] for at in range(0, len(mark), _MARK_BYTES)}
        return frozenset(topic for topic, topic_id in self.ids.items() if _mark(topic, topic_id) not in known)

    def in_commit(self, topic: str) -> str:
        """Return the metadata of a commit."""
        return f"{_SOURCE}={self.ids[topic]} {_CHANGELOG}={self.changelog}" if topic in self.ids else ""

    def is_other(self, topic: str, committed: str) -> bool | None:
        """Return whether a commit with this metadata is of another log; None if unknown."""
        return _differs(self.ids.get(topic), committed, _SOURCE)

    def has_other_states(self, committed: str) -> bool | None:
        """Return whether a commit with this metadata covers states in another changelog; None if unknown."""
        return _differs(self.changelog, committed, _CHANGELOG)


def _differs(topic_id: str | None, committed: str, name: str) -> bool | None:
    committed_id = dict(field.partition("=")[::2] for field in committed.split()).get(name)
    return topic_id != committed_id if topic_id and committed_id else None


def _mark(topic: str, topic_id: str) -> bytes:
    return blake2b(f"{topic}\0{topic_id}".encode(), digest_size=_MARK_BYTES).digest()
