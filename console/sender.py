"""A producer whose records are each confirmed by the broker: one for the console's lifetime."""

import threading
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from haltline.schemas.control import Command
from haltline.schemas.delivery import undelivered
from haltline.schemas.partitioner import CONFIRMED
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import Unreachable
from haltline.streams.kafka.produce import CONFIRM_WITHIN_S
from haltline.streams.operator.approval_client import ApprovalClient

_POLL_S: Final = 0.005
"""Seconds between looks for the confirmations that another thread has received."""


class ConsoleProducer:
    """One producer. Thread safe: each sender waits for the confirmations of its own records."""

    def __init__(self, bootstrap: str, client: Mapping[str, ClientSetting] | None = None) -> None:
        self._settings = {
            **(client or {}),
            "bootstrap.servers": bootstrap,
            **CONFIRMED,
            "linger.ms": 2,
            "delivery.timeout.ms": int(CONFIRM_WITHIN_S * 1000),
            "log_level": 0,  # of lost connections; the caller gets an exception instead
        }
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._is_closed = False

    def send(self, topic: str, key: bytes, value: bytes) -> TopicPartition:
        """Send a record and return its position. At least once, like all records.

        Raises Unreachable if it is not confirmed.
        """
        producer = self._open()
        reports: list[tuple[KafkaError | None, Message]] = []
        try:
            producer.produce(topic, key=key, value=value, on_delivery=lambda *report: reports.append(report))
        except (BufferError, KafkaException, RuntimeError) as error:
            raise Unreachable(f"topic {topic}: expected room for a record, got {error}") from None
        until_s = time.monotonic() + CONFIRM_WITHIN_S + 1.0
        while not reports:
            if time.monotonic() > until_s:
                raise Unreachable(
                    f"topic {topic}: expected a record confirmed within {CONFIRM_WITHIN_S:g} s, got no answer"
                )
            producer.poll(_POLL_S)
        return self._position(*reports[0])

    def close(self) -> None:
        """Flush briefly, then stop."""
        with self._lock:
            self._is_closed = True
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(2.0)
            producer.purge()
            producer.flush(0)
            producer.close()

    def _open(self) -> Producer:
        with self._lock:
            if self._is_closed:
                raise Unreachable("the console: expected one that serves, got one that ends")
            if self._producer is None:
                self._producer = Producer(self._settings)
            return self._producer

    def _position(self, error: KafkaError | None, message: Message) -> TopicPartition:
        failure = undelivered(error, message)
        if failure is None:
            return TopicPartition(str(message.topic()), int(message.partition() or 0), int(message.offset() or 0))
        if failure.fatal():  # this producer is unusable: the next record uses a new one
            self._producer = None
        got = f"{failure.name()}: {failure.str()}"
        raise Unreachable(f"topic {message.topic()}: expected a record confirmed, got {got}")


class SendingInbox(ApprovalClient):
    """An inbox whose commands are sent by the console's producer."""

    sender: ConsoleProducer

    def _send(self, command: Command) -> TopicPartition:
        return self.sender.send(self._topics.commands, command.id.encode(), command.to_json())
