"""The first and end offsets of partitions, as requested from their leaders."""

import logging
from collections.abc import Collection, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # its stubs miss them

from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.system import REAL, System

Partition = tuple[str, int]

OLD_EPOCH: Final = frozenset({KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH})
"""The errors of a client that has the leader epochs from before a broker's crash."""

_log = logging.getLogger(__name__)


class PartitionOffsets:
    """Requests offsets with one client, until it fails; for one thread at a time. Raises KafkaException.

    A request that is refused for an old leader epoch is repeated once, with a new client.
    """

    def __init__(self, client: Mapping[str, ClientSetting], within_s: float, *, system: System = REAL) -> None:
        """`within_s` is the time limit of one request."""
        self._system = system
        self._client = dict(client)
        self._within_s = within_s
        self._admin = self._system.admin(self._client, logger=_log)

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return each partition's end offset."""
        return self._ask(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]  # its stubs miss it

    def begins(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first offset that each partition keeps."""
        return self._ask(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # as above

    def _ask(self, partitions: Collection[Partition], which: OffsetSpec) -> dict[Partition, int]:
        try:
            return offsets_of(self._admin, partitions, which, self._within_s)
        except KafkaException as failed:
            # This client would send leader epochs from before the broker's crash, and be refused again.
            self._admin = self._system.admin(self._client, logger=_log)
            if failed.args[0].code() not in OLD_EPOCH:
                raise
        return offsets_of(self._admin, partitions, which, self._within_s)


def offsets_of(
    admin: AdminClient, partitions: Collection[Partition], which: OffsetSpec, within_s: float
) -> dict[Partition, int]:
    """Return the requested offset by partition; without partitions, sends no request. Raises KafkaException."""
    if not partitions:
        return {}
    answers = admin.list_offsets({TopicPartition(*at): which for at in partitions}, request_timeout=within_s)
    return {(tp.topic, tp.partition): int(answer.result().offset) for tp, answer in answers.items()}
