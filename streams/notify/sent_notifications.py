"""Notifications of one partition's incidents, and calls of actuators for its kills: those sent, and those in flight.

Those sent are read from the `notifications` topic.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from haltline.schemas.control import ControlRecord
from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.notifications import NotificationOutcome, NotificationRecord, OrderedKill
from haltline.schemas.wire import InvalidRecord, decode
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.notify.sending import Item

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
        self.kills: dict[bytes | None, ControlRecord] = {}
        """By key of `control`: the kills in force for which an actuator is called."""
        self.held: dict[str, tuple[set[str], list[Item]]] = {}
        """By decision: the ids of calls that disarm and have not ended, and the calls that wait for them."""
        self.confirmed: set[str] = set()
        """Decisions of kills that an actuator has confirmed."""
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
        if record.kill is not None:
            self.answered(record.kill, record.outcome)
        elif record.outcome is NotificationOutcome.SENT:
            self.record(record.incident_id, record.channel, record.state, record.incident)

    @property
    def unconfirmed(self) -> int:
        """The number of kills in force that neither an agent has acknowledged nor an actuator confirmed."""
        kills = self.kills.values()
        return sum(kill.stopped_at is None and kill.decision_id not in self.confirmed for kill in kills)

    def stands(self, key: bytes | None, decision_id: str) -> bool:
        """Return whether a kill is still in force."""
        kill = self.kills.get(key)
        return kill is not None and kill.decision_id == decision_id

    def lift(self, key: bytes | None) -> None:
        """Apply the end of a kill: what was not called for it yet is not called."""
        if (kill := self.kills.pop(key, None)) is not None:
            self.held.pop(kill.decision_id, None)
            self.confirmed.discard(kill.decision_id)

    def let_go(self, kill: OrderedKill, message_id: str) -> list[Item]:
        """Apply the end of a call. Returns those that waited for it."""
        waiting, then = self.held.get(kill.decision_id, (set[str](), []))
        waiting.discard(message_id)
        if waiting:
            return []
        self.held.pop(kill.decision_id, None)
        return then

    def answered(self, kill: OrderedKill, outcome: NotificationOutcome) -> None:
        """Apply the outcome of an actuator's call."""
        if outcome is NotificationOutcome.SENT and not kill.disarm:
            self.confirmed.add(kill.decision_id)

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
