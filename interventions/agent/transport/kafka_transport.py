"""A session's part of its process's connection to Kafka.

Guards with the same settings for Kafka share one connection: 200 sessions in one process are one producer, one
consumer and one thread.
"""

import os
import threading
import time
import weakref
from collections import deque
from typing import Any

from confluent_kafka import KafkaError, Message

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.kafka_connection import KafkaConnection
from haltline.interventions.agent.transport.transport import Receiver
from haltline.schemas.delivery import undelivered

_hubs: "weakref.WeakValueDictionary[tuple[Any, ...], KafkaConnection]" = weakref.WeakValueDictionary()
_hubs_lock = threading.Lock()
_of_the_parent: list[KafkaConnection] = []
"""After a fork, the parent's connections are kept open: closing them would wait for missing threads."""


class KafkaTransport:
    """Transports the records of one session. Starts no thread before `start`.

    Raises ValueError if librdkafka rejects the settings.
    """

    def __init__(self, settings: GuardSettings) -> None:
        self.session_id = settings.session_id
        self.key = settings.session_id.encode()
        self.carries = True
        self._settings = settings
        self._hub: KafkaConnection = connection_of(settings)
        self._lock = threading.Lock()
        self._not_arrived: deque[None] = deque()
        """One entry a record. Unlike a number, it needs no lock."""
        self._joined = False
        self._closed = False
        self.undelivered = 0
        """Records that the broker did not acknowledge in time."""

    @property
    def up(self) -> bool:
        """False: the broker did not respond to the last request, or the transport is closed."""
        return self._hub.up and not self._closed

    @property
    def unwatched(self) -> str | None:
        """Why workers may not see this session's events; None: no reason."""
        return self._hub.watched.unwatched_reason(self.session_id)

    @property
    def hub(self) -> KafkaConnection:
        """The connection."""
        return self._hub

    def start(self, receiver: Receiver) -> None:
        """Start to read, in the connection's thread."""
        if not self._joined:
            self._joined = True
            while not self._hub.join(self, receiver):  # closed meanwhile by the last of its other users
                self._hub = connection_of(self._settings)

    def publish(self, topic: str, value: bytes, *, must: bool = False) -> bool:
        """Pass one record to the producer's bounded queue. With `must`, it may use the reserved room."""
        if self._closed:
            return False
        self._not_arrived.append(None)
        if self._hub.outbox.publish(topic, self.key, value, self._done, must=must):
            return True
        self._not_arrived.pop()
        return False

    def close(self, within_s: float) -> int:
        """Wait until this session's records have arrived, then close; the last one ends the connection.

        Returns how many records have neither arrived nor been saved on disk.
        """
        if self._closed:
            return 0
        until_s = time.monotonic() + within_s
        self._hub.outbox.hurry(lambda: bool(self._not_arrived), until_s)
        self._closed = True
        self._hub.leave(self)
        return len(self._not_arrived)

    def _done(self, error: KafkaError | None, message: Message | None) -> None:
        """Handle the delivery report of a record; called by the connection's thread, or by one that closes."""
        failure, outbox = error, self._hub.outbox
        if message is not None:
            failure = undelivered(error, message)
            if failure is None:
                self._hub.delivered(message)
            elif error is None and outbox.send_again(message, self._done):
                return
        kept = failure is not None and message is not None and outbox.keep(message)
        if failure is None or kept:
            self._not_arrived.pop()
        else:
            with self._lock:
                self.undelivered += 1


def connection_of(settings: GuardSettings) -> KafkaConnection:
    """Return this process's connection for these settings, or a new one.

    Raises ValueError if librdkafka rejects the settings.
    """
    key = (
        settings.bootstrap,
        settings.topic_prefix,
        settings.mode == "blocking",
        settings.fetch_wait_ms,
        settings.spool_dir,
        settings.spool_max_mb,
        settings.verify_key,
        tuple(sorted((name, str(value)) for name, value in settings.kafka.items())),
    )
    with _hubs_lock:
        hub = _hubs.get(key)
        if hub is None or hub.ended:  # its last user has just left it
            hub = _hubs[key] = KafkaConnection(settings)
        return hub


def _after_fork() -> None:
    global _hubs_lock  # noqa: PLW0603 - another thread of the parent may have held it
    _hubs_lock = threading.Lock()
    _of_the_parent.extend(_hubs.values())
    _hubs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
