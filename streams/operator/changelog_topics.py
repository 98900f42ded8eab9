"""The changelogs of a group on a cluster, read as a whole beside the workers, or written while there are none."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.log_reader import (
    ANSWER_WITHIN_S,
    NoSuchTopic,
    bounds,
    open_consumer,
    partitions_of,
    read_partition,
)
from haltline.streams.kafka.topics import NoAdminApiError
from haltline.streams.runtime.changelog import ID_BYTES, Claim, PartitionState
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer
from haltline.streams.system import REAL, System

_CONFIRM_WITHIN_S: Final = 30.0
_log = logging.getLogger(__name__)


class WorkersRunning(KnownFailure):
    """A changelog must not be written from outside while a group that owns it has members."""


class NotClaimed(KnownFailure):
    """A partition could not be written as its owner."""


class Span(NamedTuple):
    """The extent of a changelog partition at the time of the request."""

    topic: str
    partition: int
    begin: int
    """The first offset that is kept."""
    end: int
    """The end offset."""


class Changelogs(AbstractContextManager["Changelogs", None]):
    """The changelogs of these names. Use it in a `with` block.

    The constructor raises Unreachable, and NoSuchTopic when none of them exists.
    """

    def __init__(
        self,
        bootstrap: str,
        names: Sequence[str],
        *,
        client: Mapping[str, ClientSetting] | None = None,
        system: System = REAL,
    ) -> None:
        self._system = system
        self._bootstrap = bootstrap
        self._client = client or {}
        self.missing: list[NoSuchTopic] = []
        self.spans: list[Span] = []
        """The partitions of existing changelogs."""
        self._consumer = open_consumer(bootstrap, client=client, system=system)
        try:
            self._find(names)
        except BaseException:
            self._consumer.close()
            raise

    def _find(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                found = partitions_of(self._consumer, name)
            except NoSuchTopic as error:  # a group whose workers never ran has no changelog
                self.missing.append(error)
            else:
                self.spans += (
                    Span(name, tp.partition, *bounds(self._consumer, tp, system=self._system)) for tp in found
                )
        if not self.spans:
            raise self.missing[0]

    def require_no_members(self, groups: Collection[str]) -> None:
        """Check that none of these groups has members.

        Raises WorkersRunning, or NoAdminApiError for an embedded broker.
        """
        admin = self._system.admin({**self._client, "bootstrap.servers": self._bootstrap}, logger=_log)
        metadata = admin.list_topics(timeout=ANSWER_WITHIN_S)
        if metadata.controller_id not in metadata.brokers:
            raise NoAdminApiError("group members: expected a cluster that lists them, got an embedded broker")
        for group, answer in admin.describe_consumer_groups([*groups], request_timeout=ANSWER_WITHIN_S).items():
            try:
                members = answer.result().members
            except KafkaException as error:
                if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                    continue
                raise
            if members:
                named = ", ".join(f"{m.group_instance_id or m.client_id} at {m.host}" for m in members)
                raise WorkersRunning(
                    f"group {group}: expected no members, got {named}. Stop all workers of the group; one that ended "
                    "under an --instance-id is a member until its session timeout is over"
                )

    def read(self, span: Span) -> PartitionState:
        """Read a partition to its end."""
        states = PartitionState(span.partition)
        self._read(span, states)
        return states

    def _read(self, span: Span, states: PartitionState) -> None:
        place = TopicPartition(span.topic, span.partition)
        for record in read_partition(self._consumer, place, span.begin, span.end, system=self._system):
            states.apply((record,), begins=states.position, following=record.offset + 1)

    def write_release_markers(self) -> Mapping[tuple[str, int], int]:
        """Write a release marker to each partition.

        Returns their offsets by topic and partition. Raises DeliveryFailed.
        """
        producer, marker = self.producer(), Claim(b"")
        offsets: dict[tuple[str, int], int] = {}
        for span in self.spans:
            _send(producer, span, marker, partial(offsets.__setitem__, (span.topic, span.partition)))
        producer.close(_CONFIRM_WITHIN_S)
        return offsets

    def claim(self, span: Span, states: PartitionState, producer: ConfirmedProducer) -> None:
        """Become the owner of a partition: write a claim, and read up to it.

        So everything before it was read, also where the partition's end lags after a crash, and what replaced workers
        write later does not count. Raises OlderRelease, DeliveryFailed, NotClaimed.
        """
        claim = Claim(self._system.random_bytes(ID_BYTES))
        states.expect(claim)
        offsets: list[int] = []
        _send(producer, span, claim, offsets.append)
        producer.flush(_CONFIRM_WITHIN_S)
        self._read(span._replace(begin=states.position, end=offsets[0] + 1), states)
        if not states.claimed:
            raise NotClaimed(
                f"{span.topic}, partition {span.partition}: expected the claim of this command to be the last, got "
                "another"
            )

    def producer(self) -> ConfirmedProducer:
        """Return a producer for `claim`, which the caller closes."""
        return ConfirmedProducer(
            self._bootstrap, delivery_timeout_s=_CONFIRM_WITHIN_S, settings=self._client, system=self._system
        )

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def _send(producer: ConfirmedProducer, span: Span, claim: Claim, on_offset: Callable[[int], None]) -> None:
    producer.send(
        span.topic,
        key=claim.key,
        value=None,
        headers=claim.headers,
        partition=span.partition,
        on_offset=on_offset,
    )
