"""The clients of a process's connection to Kafka, and their metadata requests at its start."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import expressions as re
from haltline.schemas.partitioner import CONFIRMED

log: Final = logging.getLogger("haltline.agent")

QUEUE_RECORDS: Final = 20_000
_BATCHING_MS = 5
_QUEUE_KIB = 32 * 1024
_HOW_LONG = re.compile(r" \(after \d+ms in state \w+\)")
METADATA_S: Final = 1.0
"""Timeout of each request."""


def common_of(settings: GuardSettings) -> dict[str, Any]:
    """Return librdkafka's settings that producer and consumer share."""
    return {
        "socket.timeout.ms": 10_000,  # a broker that hangs is noticed
        "log_level": 2,  # a broker that is down is logged once by us, not repeatedly by librdkafka
        "log.connection.close": False,
        **settings.kafka,
        "bootstrap.servers": settings.bootstrap,
    }


def complaint_of(error: KafkaError) -> str:
    """Return librdkafka's error text without durations, so that the same error is logged once."""
    return _HOW_LONG.sub("", error.str())


def producer_of(settings: GuardSettings, common: Mapping[str, Any], on_error: Callable[[KafkaError], None]) -> Producer:
    """Return a producer with a bounded queue. Raises ValueError if librdkafka rejects the settings."""
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
    """Return a consumer with manual assignment, without a consumer group or commits."""
    return Consumer(
        {
            "fetch.wait.max.ms": fetch_wait_ms,
            "queued.max.messages.kbytes": 16 * 1024,
            **common,
            "group.id": "haltline-agent",  # required; not used with manual assignment and without commits
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "error_cb": on_error,
        },
        logger=log,
    )


def ends_of(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset of a partition, and the one after its last. Raises RuntimeError or KafkaException."""
    ends = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=METADATA_S)
    if ends is None:
        raise RuntimeError(f"topic {topic}, partition {partition}: expected its first and last offset, got none")
    return ends


def partitions_of(producer: Producer, topic: str) -> int:
    """Return the number of partitions. Raises RuntimeError for a missing topic, KafkaException for no response."""
    found = producer.list_topics(topic, timeout=METADATA_S).topics[topic]
    if found.error is not None or not found.partitions:
        raise RuntimeError(f"topic {topic}: expected a topic that is there, got {found.error or 'no partitions'}")
    return len(found.partitions)


def partitions_now(producer: Producer, topic: str) -> int | None:
    """Return the current number of partitions; None: the topic is missing. Raises KafkaException for no response."""
    found = producer.list_topics(topic, timeout=METADATA_S).topics[topic]
    if found.error is None:
        return len(found.partitions)
    if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return None
    raise KafkaException(found.error)


def is_embedded(producer: Producer, topic: str) -> bool:
    """Return whether it is librdkafka's mock cluster, which has no controller, and wakes no fetch at a new record."""
    metadata = producer.list_topics(topic, timeout=METADATA_S)
    return metadata.controller_id not in metadata.brokers
