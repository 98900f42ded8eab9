"""Outgoing records: the producer's bounded queue, and the disk while the broker is down."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.disk_spool import spool_of
from haltline.interventions.agent.transport.kafka_clients import QUEUE_RECORDS, producer_of
from haltline.schemas.delivery import undelivered

log: Final = logging.getLogger("haltline.agent")

_SERVE_S = 0.02
_RESERVED_RECORDS = 2_000

Report: TypeAlias = Callable[[KafkaError | None, Message | None], None]
"""Receives the delivery report of a record; without a message: it waits on disk."""


class EventOutbox:
    """The outgoing records. Thread safe. Raises ValueError if librdkafka rejects the settings, or the disk fails."""

    def __init__(self, settings: GuardSettings, common: dict[str, Any], on_error: Callable[[KafkaError], None]) -> None:
        self.producer = producer_of(settings, common, on_error)
        self.down = False
        """The broker did not respond to the last request."""
        self._queue_records = int(str(common.get("queue.buffering.max.messages", QUEUE_RECORDS)))
        self._reserved = min(_RESERVED_RECORDS, self._queue_records // 10)
        self._spool = spool_of(settings)

    def publish(self, topic: str, key: bytes, value: bytes, report: Report, *, must: bool) -> bool:
        """Queue one record; `report` receives its delivery report. False: there is no room for it."""
        spool = self._spool
        if spool is not None and (spool or self.down):  # in order: after records that wait already
            return self._keep(topic, key, value, report)
        room = self._queue_records - (0 if must else self._reserved)
        if len(self.producer) >= room:
            return spool is not None and self._keep(topic, key, value, report)
        return self._produce(topic, key, value, report) or self._keep(topic, key, value, report)

    def keep(self, message: Message) -> bool:
        """Save an undelivered record on disk. False: it is lost."""
        topic, key, value = message.topic(), message.key(), message.value()
        if self._spool is None or topic is None or key is None or value is None:
            return False
        return self._spool.append(topic, key, value)

    def send_again(self, message: Message, report: Report) -> bool:
        """Queue a record again that was reported as delivered but is not. False: there is no room for it."""
        topic, key, value = message.topic(), message.key(), message.value()
        return topic is not None and key is not None and value is not None and self._produce(topic, key, value, report)

    def hurry(self, waits: Callable[[], bool], until_s: float) -> None:
        """Serve delivery reports until `waits` is false, or until `until_s` (`time.monotonic`).

        Records for a broker that is down go to the disk, if there is a spool.
        """
        if self._spool is not None and self.down:
            self.producer.purge()
        while True:
            self.producer.poll(0)
            left_s = until_s - time.monotonic()
            if not waits() or left_s <= 0:
                break
            self.producer.flush(min(left_s, _SERVE_S))
        if self._spool is not None and waits():
            self.producer.purge()
            self.producer.poll(0)

    def catch_up(self) -> None:
        """Send records that waited on disk, as far as the queue has room."""
        spool = self._spool
        if not spool or self.down:
            return

        def send(topic: str, key: bytes, value: bytes, arrived: Callable[[bool], None]) -> bool:
            def report(error: KafkaError | None, message: Message | None) -> None:
                # Undelivered records are appended to the spool; without room, they stay at their place.
                failure = error if message is None else undelivered(error, message)
                arrived(failure is None or (message is not None and self.keep(message)))

            return len(self.producer) < self._queue_records // 2 and self._produce(topic, key, value, report)

        sent = spool.drain(send)
        if sent and not spool:
            log.info("haltline: the broker is back: the records on disk were sent, %d of them", sent)

    def close(self, *, is_producer_free: bool) -> None:
        """Close. `is_producer_free`: no other thread uses the producer any more."""
        if is_producer_free:
            # A pending record references the producer, and the producer this object: it would retry its broker forever.
            self.producer.purge()
            self.producer.flush(0)
            self.producer.close()
        if self._spool is not None:
            self._spool.close()

    def _produce(self, topic: str, key: bytes, value: bytes, report: Report) -> bool:
        try:
            self.producer.produce(topic, value=value, key=key, on_delivery=report)
        except (BufferError, KafkaException, RuntimeError):  # RuntimeError: closed meanwhile
            return False
        return True

    def _keep(self, topic: str, key: bytes, value: bytes, report: Report) -> bool:
        kept = self._spool is not None and self._spool.append(topic, key, value)
        if kept:
            report(None, None)  # it will arrive, possibly by another process
        return kept
