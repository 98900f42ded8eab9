"""Produces one record, confirmed by the broker."""

import logging
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import Unreachable

CONFIRM_WITHIN_S: Final = 10.0

# librdkafka's logs of lost connections are suppressed; the caller gets an exception instead.
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())
_log.propagate = False


def produce_confirmed(
    bootstrap: str, topic: str, *, key: bytes, value: bytes | None, client: Mapping[str, ClientSetting] | None = None
) -> TopicPartition:
    """Produce the record and return its position.

    The producer is not idempotent, as that delays its first record by half a second: the record may be written twice.

    Raises:
        Unreachable: it was not confirmed in time.

    """
    delivered: list[tuple[KafkaError | None, Message]] = []
    producer = Producer(
        {
            **(client or {}),
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "acks": "all",
            "delivery.timeout.ms": int(CONFIRM_WITHIN_S * 1000),
        },
        logger=_log,
    )
    producer.produce(topic, key=key, value=value, on_delivery=lambda error, message: delivered.append((error, message)))
    producer.flush(CONFIRM_WITHIN_S + 1.0)
    error, message = delivered[0] if delivered else (None, None)
    if message is None or error is not None:
        got = "no answer" if error is None else f"{error.name()}: {error.str()}"
        raise Unreachable(f"topic {topic}: expected a record confirmed within {CONFIRM_WITHIN_S:g} s, got {got}")
    return TopicPartition(topic, int(message.partition() or 0), int(message.offset() or 0))
