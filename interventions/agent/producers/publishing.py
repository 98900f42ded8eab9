"""Publishing of events of many sessions to the topic `actions`, with the broker's acknowledgement for each."""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.delivery import undelivered
from haltline.schemas.events import ActionEvent
from haltline.schemas.partitioner import CONFIRMED
from haltline.schemas.topics import Topics

log: Final = logging.getLogger("haltline.agent")

CONFIRM_S: Final = 30.0
_HEALTH_S = 2.0


class Away(Exception):
    """The broker did not accept the record."""


class Publisher:
    """One producer, and a thread that polls its delivery reports. Thread safe."""

    def __init__(self, settings: GuardSettings) -> None:
        """Raises KafkaException if librdkafka rejects the settings."""
        self._topic = Topics(settings.topic_prefix).actions
        self._producer = Producer(
            {
                "log_level": 2,
                "delivery.timeout.ms": int(CONFIRM_S * 1000),
                **settings.kafka,
                "bootstrap.servers": settings.bootstrap,
                **CONFIRMED,
                "linger.ms": 2,
            },
            logger=log,
        )
        self.dropped = 0
        """Records that the broker did not accept."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="haltline-publisher", daemon=True)
        self._thread.start()

    def publish(self, events: Iterable[ActionEvent]) -> "list[Future[None]]":
        """Publish events. Returns a future for each, completed at its acknowledgement, or failed with Away."""
        return [self._publish(event) for event in events]

    def healthy(self) -> bool:
        """Return whether the broker responds and has the topic. Waits for two seconds at most."""
        try:
            found = self._producer.list_topics(self._topic, _HEALTH_S)
        except KafkaException:
            return False
        return found.topics[self._topic].error is None

    def flush(self, within_s: float) -> int:
        """Wait for pending records. Returns how many are left."""
        return self._producer.flush(within_s)

    def close(self, within_s: float = 5.0) -> int:
        """Wait for pending records, and close. Returns how many did not arrive."""
        left = self._producer.flush(within_s)
        self._ended.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(0)
        self._producer.close()
        return left

    def _publish(self, event: ActionEvent) -> "Future[None]":
        confirmed: Future[None] = Future()
        try:
            self._producer.produce(
                self._topic, key=event.session_id.encode(), value=event.to_json(), on_delivery=self._tell(confirmed)
            )
        except (BufferError, KafkaException, RuntimeError) as error:  # RuntimeError: closed meanwhile
            self._drop(confirmed, str(error))
        return confirmed

    def _drop(self, confirmed: "Future[None]", why: str) -> None:
        with self._lock:
            self.dropped += 1
        confirmed.set_exception(Away(why))

    def _tell(self, confirmed: "Future[None]") -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            failure = undelivered(error, message)
            if not confirmed.set_running_or_notify_cancel():  # the future was cancelled
                return
            if failure is None:
                confirmed.set_result(None)
            else:
                self._drop(confirmed, failure.str())

        return on_delivery

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._producer.poll(0.1)
