"""The changelogs of a group on a cluster, written while there are no workers."""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.log_reader import ANSWER_WITHIN_S, NoSuchTopic, open_consumer, partitions_of
from haltline.streams.kafka.topics import NoAdminApiError
from haltline.streams.runtime.changelog import Claim
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer

_CONFIRM_WITHIN_S: Final = 30.0
_log = logging.getLogger(__name__)


class WorkersRunning(KnownFailure):
    """A changelog must not be written from outside while a group that owns it has members."""


def partitions_of_all(
    bootstrap: str, names: Sequence[str], client: Mapping[str, ClientSetting]
) -> tuple[list[TopicPartition], list[NoSuchTopic]]:
    """Return the partitions of those of these topics that exist, and why there are no others.

    A group whose workers never ran has no changelog. Raises Unreachable, and NoSuchTopic when none of them exists.
    """
    found: list[TopicPartition] = []
    missing: list[NoSuchTopic] = []
    with closing(open_consumer(bootstrap, client=client)) as consumer:
        for name in names:
            try:
                found += partitions_of(consumer, name)
            except NoSuchTopic as error:
                missing.append(error)
    if not found:
        raise missing[0]
    return found, missing


def require_no_members(bootstrap: str, groups: Collection[str], client: Mapping[str, ClientSetting]) -> None:
    """Check that none of these groups has members.

    Raises WorkersRunning, or NoAdminApiError for an embedded broker.
    """
    admin = AdminClient({**client, "bootstrap.servers": bootstrap}, logger=_log)
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


def write_release_markers(
    bootstrap: str, places: Sequence[TopicPartition], client: Mapping[str, ClientSetting]
) -> Mapping[tuple[str, int], int]:
    """Write a release marker to each partition.

    Returns their offsets by topic and partition. Raises DeliveryFailed.
    """
    producer = ConfirmedProducer(bootstrap, delivery_timeout_s=_CONFIRM_WITHIN_S, settings=client)
    marker = Claim(b"")
    offsets: dict[tuple[str, int], int] = {}
    for place in places:
        producer.send(
            place.topic,
            key=marker.key,
            value=None,
            headers=marker.headers,
            partition=place.partition,
            on_offset=partial(offsets.__setitem__, (place.topic, place.partition)),
        )
    producer.close(_CONFIRM_WITHIN_S)
    return offsets
