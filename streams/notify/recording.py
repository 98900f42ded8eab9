"""The recorded outcome of each notification: a notification or a dead letter, confirmed by the broker."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Level
from haltline.schemas.delivery import undelivered
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.partitioner import CONFIRMED
from haltline.streams.notify.config import NotifierSettings
from haltline.streams.notify.notification_text import Message as Notice
from haltline.streams.notify.orders import Order
from haltline.streams.notify.sending import Settled, now_ms
from haltline.streams.notify.sent_notifications import Owned
from haltline.streams.runtime.metrics import Metrics

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_FLUSH_S: Final = 15.0

Then = Callable[[], None]
"""Called when the broker has confirmed a record, from any thread."""


@dataclass(frozen=True)
class Origin:
    """A record of the topic of incidents or of `control`, with whether this process still owns its partition."""

    topic: str
    partition: Owned
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    decision_id: str | None = None
    """Of a kill: the decision that `control` must still have."""

    @property
    def owned(self) -> bool:
        """Whether this process still owns its partition, and its kill is in force."""
        return self.partition.owned and (self.decision_id is None or self.partition.stands(self.key, self.decision_id))


class Recorder:
    """Writes to the topics of notifications and of dead letters.

    Thread-safe; calls `on_failure` when that is impossible.
    """

    def __init__(
        self,
        settings: NotifierSettings,
        metrics: Metrics,
        *,
        stop: threading.Event,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._settings = settings
        self._stop = stop
        self._on_failure = on_failure
        self._letters = metrics.counter("dead_letters_total")
        self._producer = Producer(
            {
                **settings.client,
                "bootstrap.servers": settings.bootstrap,
                **CONFIRMED,
                "message.timeout.ms": 0,  # what was sent is recorded, however long the broker is unreachable
                "linger.ms": 2,
            },
            logger=_log,
        )

    def poll(self) -> None:
        """Run the callbacks of received confirmations."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait for pending confirmations, for 15 s at most."""
        self._producer.flush(_FLUSH_S)

    def record(self, settled: Settled, origin: Origin, incident: IncidentRecord | None, then: Then) -> None:
        """Write a notification; `incident` is the record itself if the channel repeats it."""
        message = settled.item.message
        notification = NotificationRecord(
            notification_id=message.message_id,
            channel=settled.item.channel,
            outcome=settled.outcome,
            attempts=settled.attempts,
            detail=settled.detail,
            at=now_ms(),
            due=message.at_ms,
            incident=incident,
            **_about(message),
        )

        self._produce(
            self._settings.topics.notifications,
            then,
            key=origin.key,
            value=notification.to_json(),
            partition=origin.partition.partition,
        )

    def letter(self, origin: Origin, reason: BadRecord, detail: str, then: Then) -> None:
        """Write a dead letter of the incident record."""
        letter = DeadLetter(
            reason=reason,
            detail=detail,
            topic=origin.topic,
            partition=origin.partition.partition,
            offset=origin.offset,
            timestamp_ms=origin.timestamp_ms,
        )
        _log.error("%s, offset %d of partition %d: %s", reason, origin.offset, origin.partition.partition, detail)
        self._letters.labels(reason.value).inc()

        self._produce(
            self._settings.topics.dead_letter,
            then,
            key=origin.key,
            value=origin.value,
            headers=letter.headers(),
        )

    def _produce(self, topic: str, then: Then, **record: Any) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            failed = undelivered(error, message)
            if failed is None:
                then()
            else:
                self._on_failure(KafkaException(failed))

        while True:
            try:
                self._producer.produce(topic, on_delivery=delivered, **record)
            except BufferError:  # the broker is unreachable: wait without limit, because nothing may be lost
                if self._stop.is_set():
                    return
                self._producer.poll(_POLL_S)
            else:
                return


def _about(message: Notice | Order) -> dict[str, Any]:
    """Return the fields of what a message is about."""
    if isinstance(message, Order):
        return {
            "incident_id": message.kill.decision_id,
            "revision": 1,
            "change": IncidentChange.RESOLVED,
            "state": IncidentState.RESOLVED,
            "level": Level.KILL,
            "session_id": message.values.get("session"),
            "agent_id": message.values["agent"],
            "kill": message.about,
        }
    names = ("incident_id", "revision", "change", "state", "level", "session_id", "agent_id")
    return {name: getattr(message.record, name) for name in names}
