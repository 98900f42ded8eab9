"""Marks that distinguish clusters, and a recreated topic from its predecessor.

An offset is valid only in its log. A topic that was deleted and recreated starts at 0 again: without a mark, a sink
would take its records for known ones.
"""

import hashlib
import logging
from collections.abc import Collection, Mapping, Set
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.system import REAL, System

_log = logging.getLogger(__name__)

_UNSUPPORTED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)


class LogIdentity:
    """A client for the ids of a cluster and its topics.

    `config` is librdkafka's. Raises KafkaException when the cluster does not answer in time.
    """

    def __init__(
        self, config: Mapping[str, ClientSetting], sink: str, answer_within_s: float, *, system: System = REAL
    ) -> None:
        self._admin = system.admin(dict(config), logger=_log)
        self._sink = sink
        self._within_s = answer_within_s
        self._untold: set[str] = set()
        """Topics whose ids this client lacks the permission to see."""
        cluster = self._admin.list_topics(timeout=answer_within_s)
        self._cluster_id = cluster.cluster_id
        # The embedded broker has no controller, and every request to one would time out.
        self._has_controller = cluster.controller_id in cluster.brokers
        self.topics: Collection[str] = cluster.topics.keys()

    def of_cluster(self) -> dict[str, int]:
        """Return the mark of the cluster by app id; empty if it has no id."""
        return {f"{self._sink}#cluster": _number(self._cluster_id)} if self._cluster_id else {}

    def of_topics(
        self, names: Set[str], *, within_s: float | None = None, passed_over: Set[int] = frozenset()
    ) -> dict[str, int]:
        """Return the marks of topics by app id, without topics whose ids the cluster does not report.

        Raises KafkaException if it could report them and did not, as during a restart; after errors in `passed_over`
        the topic is left out.
        """
        names_to_ask = sorted(names - self._untold)
        if not names_to_ask or not self._has_controller:
            return {}
        described = self._admin.describe_topics(
            TopicCollection(names_to_ask), request_timeout=within_s or self._within_s
        )
        marks = {}
        for name, answer in described.items():
            try:
                marks[f"{self._sink}#{name}"] = _number(str(answer.result().topic_id))
            except KafkaException as error:
                if (code := error.args[0].code()) in passed_over:
                    continue
                if code not in _UNSUPPORTED:
                    raise
                self._untold.add(name)
                _log.warning("topic %s: its id is not known, so a topic recreated is not noticed: %s", name, error)
        return marks


def _number(identity: str) -> int:
    """Return 63 bits of an id: the version of a table's transaction is a signed 64-bit number."""
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8]) >> 1
