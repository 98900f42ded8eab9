"""The sink's librdkafka settings, and the conversion of its messages."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from haltline.streams.audit.reading import KafkaRecord
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.kafka.broker_outage import IS_AWAY
from haltline.streams.kafka.broker_retry import MOVING, answered
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.system import System

_log = logging.getLogger(__name__)

PASSING: Final = (
    IS_AWAY
    | MOVING
    | {
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""Temporary errors, after which librdkafka itself continues; every other error ends the sink.

Names with a leading underscore are the client's own errors, and as public as the others."""


# Like `KafkaRecord._make`, which is slower because it is written in Python.
_record: Final[Callable[[tuple[object, ...]], KafkaRecord]] = partial(tuple.__new__, KafkaRecord)


def client_config(settings: AuditSettings) -> dict[str, ClientSetting]:
    """Return librdkafka's settings for any client of the cluster."""
    return {"bootstrap.servers": settings.bootstrap, **settings.client}


def consumer_config(settings: AuditSettings, on_error: Callable[[KafkaError], object]) -> dict[str, object]:
    """Return librdkafka's settings for the sink's consumer; `on_error` is called within a poll."""
    static = {"group.instance.id": settings.instance_id} if settings.instance_id else {}
    return {
        "queued.max.messages.kbytes": 32 * 1024,  # the limit of prefetching, whatever the backlog
        "fetch.max.bytes": 16 * 1024 * 1024,  # the largest dead letter, with a reserve
        "fetch.wait.max.ms": settings.fetch_wait_ms,
        "session.timeout.ms": round(settings.session_timeout_s * 1000),
        "topic.metadata.refresh.interval.ms": 10_000,  # the time until a new topic or partition is discovered
        **client_config(settings),
        "group.id": settings.group,
        **static,
        "partition.assignment.strategy": "roundrobin",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",  # never let Kafka choose where to read
        "error_cb": on_error,
        "on_commit": _log_commit,
    }


def _log_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
    del partitions
    if error is not None:
        _log.info("audit sink: the group's offsets were not committed, its lag shows later: %s", error.str())


def watermarks(consumer: Consumer, place: TopicPartition, within_s: float, system: System) -> tuple[int, int]:
    """Return the first offset of a partition and its end offset. Raises KafkaException."""
    ask = partial(consumer.get_watermark_offsets, place, timeout=within_s)
    found: tuple[int, int] | None = answered(ask, within_s=within_s, system=system)
    if found is None:
        what = f"{place.topic}[{place.partition}]: no word of where it begins and ends"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, what))
    return found


def kafka_records(messages: Sequence[Message]) -> Iterator[KafkaRecord]:
    """Yield messages without errors as records."""
    times_ms = [at_ms if kind else None for kind, at_ms in map(Message.timestamp, messages)]
    headers = [tuple(pairs) if pairs else () for pairs in map(Message.headers, messages)]
    topics, partitions = map(Message.topic, messages), map(Message.partition, messages)
    offsets, keys = map(Message.offset, messages), map(Message.key, messages)
    values = map(Message.value, messages)
    fields = zip(topics, partitions, offsets, times_ms, keys, values, headers, strict=True)
    return map(_record, fields)
