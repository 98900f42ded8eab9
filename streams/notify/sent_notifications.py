"""Notifications of one partition's incidents: those sent, from the `notifications` topic, and those in flight."""

from collections.abc import Iterator, Mapping
from typing import Final

from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.notifications import NotificationOutcome, NotificationRecord
from haltline.schemas.wire import InvalidRecord, decode
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import LogReader

_SILENT_S: Final = 30.0
_KEPT_MS: Final = 31 * 86_400_000
"""As long as the topics' retention: older records cannot be read again."""
_CLEAR_EVERY: Final = 10_000


class Owned:
    """One partition while this process owns it.

    `position` is the offset at which a restart begins: the first one that is not completely settled. Not thread-safe.
    """

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.owned = True
        self.closed = False
        """Whether recording has stopped: the partition's next owner sends and records the rest."""
        self.committed: int | None = None
        self._known: dict[str, int] = {}
        """Notification ids that are settled or in flight, with their times; oldest first."""
        self._notified: dict[str, dict[str, IncidentRecord | None]] = {}
        """By open incident: the notified channels, and what they repeat."""
        self._unsettled: dict[int, int] = {}
        """The number of unsettled notifications by offset, in order."""
        self._next: int | None = None

    @property
    def position(self) -> int | None:
        """The offset to commit; None: nothing was read."""
        return next(iter(self._unsettled), self._next)

    def recall(self, record: NotificationRecord) -> None:
        """Apply a record of the topic."""
        self._remember(record.notification_id, record.at)
        if record.outcome is NotificationOutcome.SENT:
            self.record(record.incident_id, record.channel, record.state, record.incident)

    def record(
        self, incident_id: str, channel: str, state: IncidentState, incident: IncidentRecord | None = None
    ) -> None:
        """Record that a channel was notified of the state of an incident."""
        if state is not IncidentState.RESOLVED:
            self._notified.setdefault(incident_id, {})[channel] = incident
        elif incident_id in self._notified:
            self._notified[incident_id].pop(channel, None)
            if not self._notified[incident_id]:
                del self._notified[incident_id]

    def channels_of(self, incident_id: str) -> tuple[str, ...]:
        """Return the channels notified of an open incident."""
        return tuple(self._notified.get(incident_id, ()))

    def repeated(self) -> Iterator[tuple[str, IncidentRecord]]:
        """Yield the channels with their repeated incidents."""
        for channels in self._notified.values():
            yield from ((channel, incident) for channel, incident in channels.items() if incident is not None)

    def claim(self, notification_id: str, now_ms: int) -> bool:
        """Claim a notification. Returns False if it is already claimed, as far as known."""
        if notification_id in self._known:
            return False
        self._remember(notification_id, now_ms)
        return True

    def read(self, offset: int, notifications: int) -> None:
        """Set the number of notifications to settle for this offset."""
        self._next = offset + 1
        if notifications:
            self._unsettled[offset] = notifications

    def settle(self, offset: int) -> None:
        """Settle one notification of this offset."""
        self._unsettled[offset] -= 1
        if not self._unsettled[offset]:
            del self._unsettled[offset]

    def _remember(self, notification_id: str, at_ms: int) -> None:
        self._known[notification_id] = at_ms
        if len(self._known) % _CLEAR_EVERY == 0:
            self._known = {key: then for key, then in self._known.items() if then > at_ms - _KEPT_MS}


def recalled(
    bootstrap: str, topic: str, partition: int, *, client: Mapping[str, ClientSetting], fetch_wait_ms: int
) -> Owned:
    """Return a partition with all records of its topic, up to its present end.

    Raises:
        Unreachable: not all of it arrived in time.
        KafkaException: the broker refuses.

    """
    owned = Owned(partition)
    with LogReader(bootstrap, [topic], partition=partition, client=client, fetch_wait_ms=fetch_wait_ms) as reader:
        for message in reader.to_end(within_s=_SILENT_S, each=True):
            try:
                owned.recall(decode(NotificationRecord, message.value()))
            except InvalidRecord:  # only notifiers write here; other records contain nothing about sent messages
                continue
    return owned
