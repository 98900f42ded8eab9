"""Records on their way to the broker: the producer's bounded queue, and the disk while the broker is away."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.disk_spool import spool_of
from haltline.interventions.agent.transport.kafka_clients import QUEUE_RECORDS, producer_of

log: Final = logging.getLogger("haltline.agent")

_SERVE_S = 0.02
_RESERVED_RECORDS = 2_000

Report: TypeAlias = Callable[[KafkaError | None, Message | None], None]
"""What became of a record; without a message: it waits on disk."""


class Outbox:
    """Thread safe. Raises ValueError when librdkafka, or the disk, refuses the settings."""

    def __init__(self, settings: GuardSettings, common: dict[str, Any], on_error: Callable[[KafkaError], None]) -> None:
        self.producer = producer_of(settings, common, on_error)
        self.down = False
        """The broker did not answer when it was last asked."""
        self._queue_records = int(str(common.get("queue.buffering.max.messages", QUEUE_RECORDS)))
        self._reserved = min(_RESERVED_RECORDS, self._queue_records // 10)
        self._spool = spool_of(settings)

    def publish(self, topic: str, key: bytes, value: bytes, report: Report, *, must: bool) -> bool:
        """Hand one record over; `report` hears what became of it. False: there is no room for it."""
        spool = self._spool
        if spool is not None and (spool or self.down):  # in order: behind what waits already
            return self._keep(topic, key, value, report)
        if not must and len(self.producer) >= self._queue_records - self._reserved:
            return spool is not None and self._keep(topic, key, value, report)
        try:
            self.producer.produce(topic, value=value, key=key, on_delivery=report)
        except (BufferError, KafkaException, RuntimeError):  # RuntimeError: closed meanwhile
            return spool is not None and self._keep(topic, key, value, report)
        return True

    def keep(self, message: Message) -> bool:
        """A record that did not arrive waits on disk. False: it is lost."""
        topic, key, value = message.topic(), message.key(), message.value()
        if self._spool is None or topic is None or key is None or value is None:
            return False
        return self._spool.append(topic, key, value)

    def hurry(self, waits: Callable[[], bool], until_s: float) -> None:
        """Serves reports until there is nothing to wait for, or it is that late (`time.monotonic`).

        What is in the way to a broker that is away goes to the disk, if there is one to keep it.
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
        """What waited on disk is sent, as far as the queue has room."""
        spool = self._spool
        if not spool or self.down:
            return

        def send(topic: str, key: bytes, value: bytes, arrived: Callable[[bool], None]) -> bool:
            def report(error: KafkaError | None, message: Message | None) -> None:
                # What did not arrive waits behind the others; without room for it, where it was.
                arrived(error is None or (message is not None and self.keep(message)))

            if len(self.producer) >= self._queue_records // 2:
                return False
            try:
                self.producer.produce(topic, value=value, key=key, on_delivery=report)
            except (BufferError, KafkaException, RuntimeError):
                return False
            return True

        sent = spool.drain(send)
        if sent and not spool:
            log.info("haltline: the broker is back: the records on disk were sent, %d of them", sent)

    def close(self, *, is_producer_free: bool) -> None:
        """Ends. `is_producer_free`: no other thread uses the producer any more."""
        if is_producer_free:
            # A record that waits holds the producer, and the producer us: it would look for its broker without end.
            self.producer.purge()
            self.producer.flush(0)
            self.producer.close()
        if self._spool is not None:
            self._spool.close()

    def _keep(self, topic: str, key: bytes, value: bytes, report: Report) -> bool:
        kept = self._spool is not None and self._spool.append(topic, key, value)
        if kept:
            report(None, None)  # it will arrive, if not by this process
        return kept
