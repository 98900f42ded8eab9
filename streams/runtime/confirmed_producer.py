"""The producer of a worker, with confirmation of every delivery.

In many clients a failed produce is only a log line. Here every record is counted when it is sent and when the broker
confirms it, and a `Receipt` is complete when the two counts are equal. A record that is refused, not confirmed in
time, or confirmed without an offset raises `DeliveryFailed`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message

from haltline.schemas.delivery import undelivered
from haltline.schemas.partitioner import CONFIRMED
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.system import REAL, System

MAX_MESSAGE_BYTES: Final = 14 * 1024 * 1024
"""A dead letter holds a whole record of up to 13 MiB, plus its headers."""

log = logging.getLogger(__name__)

_QUEUE_RECORDS = 500_000
_QUEUE_KIB = 512 * 1024
_POLL_EVERY_S = 0.0005


class DeliveryFailed(KnownFailure):
    """A record did not reach the broker: refused, or not confirmed in time."""


class Receipt:
    """The number of records sent between two cuts, and how many of them were confirmed."""

    __slots__ = ("confirmed", "outbox", "sent")

    def __init__(self, outbox: "ConfirmedProducer") -> None:
        self.outbox = outbox
        self.sent = 0
        self.confirmed = 0

    @property
    def complete(self) -> bool:
        """Return whether every record was confirmed."""
        return self.confirmed == self.sent

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Process a delivery report; runs within `ConfirmedProducer.poll`."""
        self.confirmed += 1
        if (failure := undelivered(error, message)) is not None:
            self.outbox.fail(message, failure)


class ConfirmedProducer:
    """An idempotent producer whose every delivery is checked.

    Partitions by key as the Java client does, waits for all replicas, and sends at once.
    Use it from one thread.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        delivery_timeout_s: float = 30.0,
        settings: Mapping[str, str | int | float | bool] | None = None,
        system: System = REAL,
    ) -> None:
        self._timeout_s = delivery_timeout_s
        self._now_s = system.monotonic
        self._producer = system.producer(
            {
                "linger.ms": 0,
                "queue.buffering.max.messages": _QUEUE_RECORDS,
                "queue.buffering.max.kbytes": _QUEUE_KIB,
                **(settings or {}),
                "bootstrap.servers": bootstrap,
                **CONFIRMED,
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "delivery.timeout.ms": int(delivery_timeout_s * 1000),
            },
            logger=log,
        )
        self._open = Receipt(self)
        self._failure: DeliveryFailed | None = None

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_offset: Callable[[int], None] | None = None,
    ) -> None:
        """Send one record at once. Its delivery counts for the next receipt.

        `on_offset` is called with the record's offset when it is confirmed. `timestamp_ms` is the record's time, by
        default the present. Waits while the queue is full. Raises
        DeliveryFailed when the queue stays full, and for an earlier record that failed.
        """
        receipt = self._open
        report = receipt.report if on_offset is None else partial(_report_offset, receipt, on_offset)
        arguments: dict[str, object] = {"key": key, "value": value, "on_delivery": report}
        if headers:
            arguments["headers"] = list(headers)
        if partition is not None:
            arguments["partition"] = partition
        if timestamp_ms is not None:
            arguments["timestamp"] = timestamp_ms
        deadline = None
        while True:
            try:
                self._producer.produce(topic, **arguments)  # type: ignore[arg-type]  # built above, as the stubs say
            except BufferError:
                deadline = deadline or self._now_s() + self._timeout_s
                if self._now_s() > deadline:
                    raise DeliveryFailed(
                        f"topic {topic}: expected room in the send queue within {self._timeout_s:.0f} s, "
                        f"got none: {len(self._producer)} records wait for the broker"
                    ) from None
                self.poll(0.05)
            except KafkaException as refused:
                error = refused.args[0]
                raise DeliveryFailed(
                    f"topic {topic}, partition {partition}: expected a record of {len(value or b'')} bytes sent, "
                    f"got {error.name()}: {error.str()}"
                ) from refused
            else:
                receipt.sent += 1
                return

    def poll(self, timeout_s: float = 0.0) -> None:
        """Process delivery reports. Raises DeliveryFailed for the first record that failed."""
        self._producer.poll(timeout_s)
        if self._failure is not None:
            raise self._failure

    def cut(self) -> Receipt:
        """Return the receipt of everything sent since the last cut, and open a new one."""
        receipt, self._open = self._open, Receipt(self)
        return receipt

    async def confirmed(self, receipt: Receipt) -> None:
        """Wait until every record of the receipt is confirmed. Raises DeliveryFailed."""
        deadline = self._now_s() + self._timeout_s + 1.0  # librdkafka's own report comes first
        while True:
            self.poll()
            if receipt.complete:
                return
            if self._now_s() > deadline:
                raise DeliveryFailed(_outstanding(receipt.sent - receipt.confirmed, self._timeout_s))
            await asyncio.sleep(_POLL_EVERY_S)

    def flush(self, deadline_s: float) -> None:
        """Block until everything sent is confirmed. Raises DeliveryFailed."""
        waiting = self._producer.flush(deadline_s)
        self.poll()
        if waiting:
            raise DeliveryFailed(_outstanding(waiting, deadline_s))

    def close(self, deadline_s: float) -> None:
        """Block until everything sent is confirmed, then end the connections. Raises DeliveryFailed."""
        self.flush(deadline_s)
        self._producer.close()

    def partitions(self, topic: str, *, within_s: float = 10.0) -> int:
        """Return the topic's number of partitions. Raises KnownFailure when there is no such topic."""
        try:
            found = self._producer.list_topics(topic, timeout=within_s).topics[topic]
        except KafkaException as failed:
            raise KnownFailure(
                f"topic {topic}: expected its metadata within {within_s:.0f} s, got {failed}"
            ) from failed
        if found.error is not None or not found.partitions:
            raise KnownFailure(f"topic {topic}: expected a topic that is there, got {found.error or 'no partitions'}")
        return len(found.partitions)

    def fail(self, message: Message, error: KafkaError) -> None:
        """Remember the first record that failed."""
        if self._failure is None:
            self._failure = DeliveryFailed(
                f"topic {message.topic()}, partition {message.partition()}: expected a record of "
                f"{len(message)} bytes delivered, got {error.name()}: {error.str()}"
            )


def _report_offset(
    receipt: Receipt, on_offset: Callable[[int], None], error: KafkaError | None, message: Message
) -> None:
    receipt.report(error, message)
    offset = message.offset()
    if error is None and offset is not None and offset >= 0:
        on_offset(offset)


def _outstanding(records: int, seconds: float) -> str:
    return f"expected every record confirmed within {seconds:.0f} s, got no report for {records} of them"
