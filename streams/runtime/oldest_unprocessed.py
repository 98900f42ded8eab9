"""The write times of waiting records, for a process that starts behind and has not read them yet."""

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import open_consumer
from haltline.streams.runtime.health import Partition
from haltline.streams.system import REAL, System

_WITHIN_S: Final = 5.0
_POLL_S: Final = 0.1


def oldest_unprocessed(
    client: Mapping[str, ClientSetting], places: Mapping[Partition, int], *, system: System = REAL
) -> dict[Partition, int]:
    """Return the time of the record at or after an offset, by partition, in epoch milliseconds.

    Partitions without an answer within five seconds are left out. Raises Unreachable when no broker answers, and
    KafkaException when it refuses.
    """
    if not places:
        return {}
    with closing(
        open_consumer(str(client["bootstrap.servers"]), client={**client, "queued.min.messages": 1}, system=system)
    ) as consumer:
        consumer.assign([TopicPartition(*place, offset) for place, offset in places.items()])
        return _read(consumer, set(places), system)


def _read(consumer: Consumer, partitions: set[Partition], system: System) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    deadline = system.monotonic() + _WITHIN_S
    while partitions and system.monotonic() < deadline:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        place = (str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is not None and error.fatal():
            raise KafkaException(error)
        kind, at_ms = message.timestamp()
        if error is None and kind and place in partitions:
            found[place] = at_ms
        partitions.discard(place)
    return found
