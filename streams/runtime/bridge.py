"""The bridge: copies what guards publish to an older set of topics into the next set.

Every worker has one for each older set; their consumer group shares the partitions. An offset is committed after the
copies of all records before it are confirmed. So a record can be copied twice, in its order: states remember the place
of the original (`haltline.streams.kafka.topic_sets`), and skip the second copy.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import passes
from haltline.streams.kafka.log_record import record_of
from haltline.streams.kafka.topic_sets import COPY, headers_of_copy
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.ports import Sender
from haltline.streams.runtime.worker_settings import WorkerSettings
from haltline.streams.system import REAL, System

_POLL_S: Final = 0.2
_BATCH: Final = 500
_COMMIT_EVERY_S: Final = 1.0
_GONE: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""Errors of a set that was removed."""

log = logging.getLogger(__name__)


class Bridge:
    """A thread that copies the sources of `older` to `newer`, from `start` to `stop`.

    `on_failure` is called in the thread with what ended it.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        older: Topics,
        newer: Topics,
        metrics: Metrics,
        *,
        on_failure: Callable[[BaseException], object],
        system: System = REAL,
    ) -> None:
        self._settings = settings
        self._system = system
        self._targets = dict(zip(older.session_sources, newer.session_sources, strict=True))
        self._before = older.older_names
        self._group = older.bridge_group
        self._copied = metrics.children("bridged_records_total")
        for topic in self._targets:
            self._copied[topic,].inc(0)
        self._on_failure = on_failure
        self._positions: dict[tuple[str, int], int] = {}
        self._stopping = system.event()
        self._thread = system.thread(target=self._run, name="haltline-bridge", daemon=True)

    def start(self) -> None:
        """Start copying."""
        log.info("worker: copies what is published to %s", ", ".join(self._targets))
        self._thread.start()

    def stop(self) -> None:
        """Commit what was copied, and end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._copy_all()
        except Exception as failure:
            self._on_failure(failure)

    def _copy_all(self) -> None:
        settings = self._settings
        producer = ConfirmedProducer(
            settings.bootstrap,
            delivery_timeout_s=settings.delivery_timeout_s,
            settings={**settings.client, **settings.producer},
            system=self._system,
        )
        consumer = self._system.consumer(
            {
                **settings.client,
                "bootstrap.servers": settings.bootstrap,
                "group.id": self._group,
                "session.timeout.ms": int(settings.session_timeout_s * 1000),
                "fetch.wait.max.ms": settings.fetch_wait_ms,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            },
            logger=log,
        )
        try:
            consumer.subscribe([*self._targets], on_revoke=self._on_revoke, on_lost=self._on_lost)
            committed_s = self._system.monotonic()
            while not self._stopping.is_set():
                first = consumer.poll(_POLL_S)
                if first is not None:
                    self._copy([first, *consumer.consume(_BATCH, timeout=0)], producer)
                if self._system.monotonic() - committed_s >= _COMMIT_EVERY_S:
                    committed_s = self._system.monotonic()
                    self._commit(consumer)
            self._commit(consumer)
        finally:
            consumer.close()
        producer.close(settings.delivery_timeout_s)

    def _copy(self, messages: Sequence[Message], producer: ConfirmedProducer) -> None:
        positions: dict[tuple[str, int], int] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                if error.fatal() or not (passes(error) or error.code() in _GONE):
                    raise KafkaException(error)
                continue
            record = record_of(message)
            producer.send(
                self._targets[record.topic],
                key=record.key,
                value=record.value,
                headers=headers_of_copy(record, self._before),
                timestamp_ms=record.timestamp,
            )
            positions[record.topic, record.partition] = record.offset + 1
            self._copied[record.topic,].inc()
        producer.flush(self._settings.delivery_timeout_s)
        self._positions |= positions

    def _commit(self, consumer: Consumer) -> None:
        """Commit what is confirmed. A failure only means that records are copied again."""
        if not self._positions:
            return
        offsets = [TopicPartition(*place, offset) for place, offset in self._positions.items()]
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            log.warning("worker: offsets of group %s were not committed: %s", self._group, error)
        else:
            self._positions.clear()

    def _on_revoke(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        self._commit(consumer)
        self._positions.clear()

    def _on_lost(self, *_: object) -> None:
        self._positions.clear()


class EverySet:
    """A `Sender` that sends decisions and entries of `control` to the older sets too, for the guards there."""

    def __init__(self, sender: Sender, sets: Sequence[Topics]) -> None:
        self._sender = sender
        *older, topics = sets
        self._copies = {
            topics.interventions: [one.interventions for one in older],
            topics.control: [one.control for one in older],
        }

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Send one record, to each set that needs it."""
        self._sender.send(topic, key=key, value=value, headers=headers)
        for copy in self._copies.get(topic, ()):
            self._sender.send(copy, key=key, value=value, headers=(*headers, (COPY, b"1")))
