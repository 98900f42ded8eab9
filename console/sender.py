"""A producer whose records are each confirmed by the broker: one for the console's lifetime."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import AbstractContextManager
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from haltline.schemas.control import Command
from haltline.schemas.delivery import undelivered
from haltline.schemas.partitioner import CONFIRMED
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import Unreachable
from haltline.streams.kafka.produce import CONFIRM_WITHIN_S
from haltline.streams.operator.approval_client import ApprovalClient

_POLL_S: Final = 0.1

# librdkafka's log of lost connections; the caller gets an exception instead.
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())
_log.propagate = False

Headers = Sequence[tuple[str, bytes | None]]
Keyed = tuple[bytes | None, bytes]
"""Key and value."""


class Sender(AbstractContextManager["Sender", None]):
    """One producer, and a thread that receives the broker's confirmations. Thread safe."""

    def __init__(self, bootstrap: str, client: Mapping[str, ClientSetting] | None = None) -> None:
        self._settings = {
            **(client or {}),
            "bootstrap.servers": bootstrap,
            **CONFIRMED,
            "linger.ms": 2,
            "delivery.timeout.ms": int(CONFIRM_WITHIN_S * 1000),
        }
        self._lock = threading.Lock()
        self._producer: Producer | None = Producer(self._settings, logger=_log)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="haltline-sender", daemon=True)
        self._thread.start()

    def send(self, topic: str, key: bytes, value: bytes) -> TopicPartition:
        """Send a record and return its position. At least once, like all records. Raises Unreachable."""
        return self.send_all(topic, [(key, value)])[0]

    def send_all(self, topic: str, records: Sequence[Keyed], headers: Sequence[Headers] = ()) -> list[TopicPartition]:
        """Send several records in order; `headers` of each. Raises Unreachable if one of them is not confirmed."""
        producer = self._made()
        sent: list[Future[TopicPartition]] = []
        for number, (key, value) in enumerate(records):
            future: Future[TopicPartition] = Future()
            sent.append(future)
            with_headers = {"headers": list(headers[number])} if headers else {}
            try:
                producer.produce(topic, key=key, value=value, on_delivery=self._callback(future), **with_headers)  # type: ignore[arg-type]
            except (BufferError, KafkaException, RuntimeError) as error:
                future.set_exception(Unreachable(f"topic {topic}: expected room for a record, got {error}"))
        try:
            return [one.result(CONFIRM_WITHIN_S + 1.0) for one in sent]
        except Late:
            raise Unreachable(
                f"topic {topic}: expected a record confirmed within {CONFIRM_WITHIN_S:g} s, got no answer"
            ) from None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush briefly, then stop."""
        self._ended.set()
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            self._thread.join()
            producer.flush(2.0)
            producer.purge()
            producer.flush(0)
            producer.close()

    def _made(self) -> Producer:
        with self._lock:
            if self._ended.is_set():
                raise Unreachable("the console: expected one that serves, got one that ends")
            if self._producer is None:
                self._producer = Producer(self._settings, logger=_log)
            return self._producer

    def _callback(self, future: "Future[TopicPartition]") -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            failure = undelivered(error, message)
            if failure is None:
                place = TopicPartition(str(message.topic()), int(message.partition() or 0), int(message.offset() or 0))
                future.set_result(place)
                return
            if failure.fatal():  # this producer is unusable: the next record uses a new one
                self._producer = None
            got = f"{failure.name()}: {failure.str()}"
            future.set_exception(Unreachable(f"topic {message.topic()}: expected a record confirmed, got {got}"))

        return on_delivery

    def _serve(self) -> None:
        while not self._ended.is_set():
            producer = self._producer
            if producer is None:
                self._ended.wait(_POLL_S)
            else:
                producer.poll(_POLL_S)


class SendingInbox(ApprovalClient):
    """An inbox whose commands are sent by the console's producer."""

    sender: Sender

    def _send(self, command: Command) -> TopicPartition:
        return self.sender.send(self._topics.commands, command.id.encode(), command.to_json())
