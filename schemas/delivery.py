"""Delivery reports of librdkafka: whether a record is in its topic."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


def undelivered(error: "KafkaError | None", message: "Message") -> "KafkaError | None":
    """Return why a record may not be in its topic; None: the broker confirmed it, with its offset.

    librdkafka reports a record as delivered, without an offset, when the broker refused it and accepted a later one
    that was already on its way (https://github.com/confluentinc/confluent-kafka-go/issues/921). It relies on a broker
    to accept no gap in a producer's sequence. But a broker that has no record of the producer in this partition accepts
    any first number: the record is lost. This happens while partitions elect a leader.
    """
    offset = message.offset()
    if error is not None or (offset is not None and offset >= 0):
        return error
    from confluent_kafka import KafkaError  # noqa: PLC0415 - schemas load no client

    return KafkaError(KafkaError._FAIL, "the broker confirmed a later record of the partition, but not this one")
