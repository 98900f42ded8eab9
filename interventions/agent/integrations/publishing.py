"""Events of any number of sessions on the topic `actions`: each is reported when the broker has it, or has not."""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import ActionEvent
from haltline.schemas.partitioner import CONFIRMED
from haltline.schemas.topics import Topics

log: Final = logging.getLogger("haltline.agent")

CONFIRM_S: Final = 30.0
_HEALTH_S = 2.0


class Away(Exception):
    """The broker did not take it."""


class Publisher:
    """One producer, and a thread that hears what the broker says. Thread safe."""

    def __init__(self, settings: GuardSettings) -> None:
        """Raises KafkaException when librdkafka refuses the settings."""
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
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="haltline-publisher", daemon=True)
        self._thread.start()

    def publish(self, events: Iterable[ActionEvent]) -> "list[Future[None]]":
        """Returns what is done when each is confirmed, or ends with Away."""
        return [self._publish(event) for event in events]

    def healthy(self) -> bool:
        """Whether the broker answers and has the topic. Waits for it, for two seconds at most."""
        try:
            found = self._producer.list_topics(self._topic, _HEALTH_S)
        except KafkaException:
            return False
        return found.topics[self._topic].error is None

    def flush(self, within_s: float) -> int:
        """Waits for what is under way. Returns how many are left."""
        return self._producer.flush(within_s)

    def close(self, within_s: float = 5.0) -> int:
        """Waits for what is under way, and ends. Returns how many did not arrive."""
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
                self._topic, key=event.session_id.encode(), value=event.to_json(), on_delivery=_tell(confirmed)
            )
        except (BufferError, KafkaException, RuntimeError) as error:  # RuntimeError: closed meanwhile
            confirmed.set_exception(Away(str(error)))
        return confirmed

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._producer.poll(0.1)


def _tell(confirmed: "Future[None]") -> Callable[[KafkaError | None, Message], None]:
    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if not confirmed.set_running_or_notify_cancel():  # nobody waits any more
            return
        if error is None:
            confirmed.set_result(None)
        else:
            confirmed.set_exception(Away(error.str()))

    return on_delivery
