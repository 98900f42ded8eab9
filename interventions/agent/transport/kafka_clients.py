"""The clients of a process's connection to Kafka, and what they ask the broker at its beginning."""

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.partitioner import CONFIRMED

log: Final = logging.getLogger("haltline.agent")

QUEUE_RECORDS: Final = 20_000
_BATCHING_MS = 5
_QUEUE_KIB = 32 * 1024
_HOW_LONG = re.compile(r" \(after \d+ms in state \w+\)")
METADATA_S: Final = 1.0
"""How long a broker has to answer each question."""


def common_of(settings: GuardSettings) -> dict[str, Any]:
    """Librdkafka's settings that producer and consumer share."""
    return {
        "socket.timeout.ms": 10_000,  # a broker that hangs is noticed
        "log_level": 2,  # a broker that is away is logged once by us, not again and again by librdkafka
        "log.connection.close": False,
        **settings.kafka,
        "bootstrap.servers": settings.bootstrap,
    }


def complaint_of(error: KafkaError) -> str:
    """What librdkafka complains of, without how long it took: the same complaint is logged once."""
    return _HOW_LONG.sub("", error.str())


def producer_of(settings: GuardSettings, common: Mapping[str, Any], on_error: Callable[[KafkaError], None]) -> Producer:
    """A producer with a bounded queue. Raises ValueError when librdkafka refuses the settings."""
    try:
        return Producer(
            {
                "linger.ms": 0 if settings.mode == "blocking" else _BATCHING_MS,
                "queue.buffering.max.messages": QUEUE_RECORDS,
                "queue.buffering.max.kbytes": _QUEUE_KIB,
                "delivery.timeout.ms": 120_000,
                **common,
                **CONFIRMED,
                "error_cb": on_error,
            },
            logger=log,
        )
    except KafkaException as refused:
        raise ValueError(f"bootstrap {settings.bootstrap!r}: librdkafka refuses the settings: {refused}") from refused


def consumer_of(common: Mapping[str, Any], fetch_wait_ms: int, on_error: Callable[[KafkaError], None]) -> Consumer:
    """A consumer that is assigned, joins no group and commits nothing."""
    return Consumer(
        {
            "fetch.wait.max.ms": fetch_wait_ms,
            "queued.max.messages.kbytes": 16 * 1024,
            **common,
            "group.id": "haltline-agent",  # must be set; assigned consumers that commit nothing do not use it
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "error_cb": on_error,
        },
        logger=log,
    )


def ends_of(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """The first offset of a partition, and the one after its last. Raises RuntimeError or KafkaException for none."""
    ends = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=METADATA_S)
    if ends is None:
        raise RuntimeError(f"topic {topic}, partition {partition}: expected its first and last offset, got none")
    return ends


def partitions_of(producer: Producer, topic: str) -> int:
    """How many there are. Raises RuntimeError for a topic that is not there, KafkaException for no answer."""
    found = producer.list_topics(topic, timeout=METADATA_S).topics[topic]
    if found.error is not None or not found.partitions:
        raise RuntimeError(f"topic {topic}: expected a topic that is there, got {found.error or 'no partitions'}")
    return len(found.partitions)


def partitions_now(producer: Producer, topic: str) -> int | None:
    """How many there are now; None: the topic is not there. Raises KafkaException where the broker does not say."""
    found = producer.list_topics(topic, timeout=METADATA_S).topics[topic]
    if found.error is None:
        return len(found.partitions)
    if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return None
    raise KafkaException(found.error)


def is_embedded(producer: Producer, topic: str) -> bool:
    """Librdkafka's mock cluster has no controller, and does not wake a fetch when a record arrives."""
    metadata = producer.list_topics(topic, timeout=METADATA_S)
    return metadata.controller_id not in metadata.brokers
