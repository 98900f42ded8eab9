"""The notifier process: consumes incidents, sends messages, and records them on the `notifications` topic.

The order is: send, record, commit. A message is recorded once; between sending and recording, a crash sends it again
under the same id.

With actuators, the owner of a partition also reads that of `control`: whole when it is assigned, and without commits,
as it is compacted and what was called is on the topic of notifications.
"""

import logging
import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from haltline.schemas.control import ControlRecord
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.notifications import NotificationOutcome
from haltline.schemas.topics import SETS_KEY
from haltline.schemas.wire import InvalidRecord, decode
from haltline.streams.kafka.broker_outage import BrokerOutage
from haltline.streams.kafka.log_reader import LogReader, open_consumer, partitions_of
from haltline.streams.notify.channels import receivers_of
from haltline.streams.notify.config import Config, NotifierSettings
from haltline.streams.notify.kinds import Kind, Planned, kind_of, plan
from haltline.streams.notify.links import links_of
from haltline.streams.notify.notification_text import Message
from haltline.streams.notify.orders import Order, orders_of
from haltline.streams.notify.recording import Origin, Recorder
from haltline.streams.notify.sending import ChannelThread, Item, Settled, now_ms
from haltline.streams.notify.sent_notifications import Owned, recalled
from haltline.streams.runtime.health import Verdict
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.service import STUCK_AFTER_S, verdict_of_loop

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_COMMIT_EVERY_S: Final = 1.0
_MAX_WAITING: Final = 20_000
"""The most messages in memory; above it reading pauses until some are sent."""


class Notifier:
    """The notifier, which runs until `stop`. Raises ValueError for a channel whose files cannot be used."""

    def __init__(self, settings: NotifierSettings, config: Config, metrics: Metrics) -> None:
        self._settings = settings
        self._config = config
        self._links = links_of(config)
        self._oldest_ms = round(config.oldest.total_seconds() * 1000)
        self._owned: dict[int, Owned] = {}
        self._lock = threading.RLock()  # the producer may report deliveries while it waits for room
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._last_round_s = time.monotonic()
        self._paused = False
        self._outage = BrokerOutage(_log, "notify")
        self._outcomes = metrics.counter("notifications_total")
        self._oldest = metrics.gauge("notification_oldest_unsent_seconds")
        self._waiting = metrics.gauge("notifications_waiting")
        self._assigned = metrics.gauge("assigned_partitions")
        self._lag = metrics.gauge("consumer_lag_records")
        self._unconfirmed = metrics.gauge("kills_unconfirmed")
        self._channels = {
            name: ChannelThread(name, receiver, metrics, settled=self._settled, on_failure=self._fail)
            for name, receiver in receivers_of(config).items()
        }
        self._repeats = {
            name: channel.repeats for name, channel in self._channels.items() if name not in config.actuators
        }
        for name in self._channels:
            self._measure(name)
        self._recorder = Recorder(settings, metrics, stop=self._stop, on_failure=self._fail)

    def run(self) -> None:
        """Run until `stop`.

        Raises:
            NoSuchTopic, Unreachable, KafkaException: the cluster cannot be used.
            RuntimeError: a channel's thread has failed with an unexpected error.

        """
        self._require_topics()
        consumer = Consumer(
            {
                **self._settings.consumer(self._outage.is_outage),
                "enable.auto.commit": False,
                "session.timeout.ms": round(self._settings.session_timeout_s * 1000),
            },
            logger=_log,
        )
        for channel in self._channels.values():
            channel.start()
        try:
            consumer.subscribe(
                [self._settings.topics.incidents],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            committed_s = time.monotonic()
            while not self._stop.is_set():
                message = consumer.poll(_POLL_S)
                self._last_round_s = time.monotonic()
                self._recorder.poll()
                self._outage.look(consumer, self._settings.topics.incidents)
                if message is not None:
                    self._take(message)
                if time.monotonic() - committed_s >= _COMMIT_EVERY_S:
                    committed_s = time.monotonic()
                    self._commit(consumer)
                    self._look(consumer)
        finally:
            for channel in self._channels.values():
                channel.stop()
            for channel in self._channels.values():
                channel.join(channel.channel.timeout.total_seconds() + 1)
            self._recorder.flush()
            self._commit(consumer)
            consumer.close()
        if self._failure is not None:
            raise RuntimeError(f"notify: {type(self._failure).__name__}: {self._failure}") from self._failure

    def stop(self) -> None:
        """Stop after the messages being sent. Safe in other threads and in signal handlers."""
        self._stop.set()

    def verdict(self) -> Verdict:
        """Return a verdict: alive while the main loop runs; ready while partitions are assigned too."""
        notes = []
        for name, channel in self._channels.items():
            number, oldest_s = channel.load()
            if oldest_s >= STUCK_AFTER_S:
                notes.append(f"channel {name}: {number} wait, the oldest for {oldest_s:.0f} s")
        silent_s = time.monotonic() - self._last_round_s
        return verdict_of_loop(silent_s, "notifier", len(self._owned), notes=notes)

    @property
    def waiting(self) -> int:
        """The number of waiting messages."""
        return sum(self._measure(name) for name in self._channels)

    def _require_topics(self) -> None:
        """Check the topics: a notification is in the partition of its incident, so both must have as many."""
        settings = self._settings
        topics = settings.topics
        names = [topics.incidents, topics.notifications, *([topics.control] if self._config.actuators else [])]
        with closing(open_consumer(settings.bootstrap, client=settings.client)) as consumer:
            incidents, *others = (len(partitions_of(consumer, name)) for name in names)
        for name, number in zip(names[1:], others, strict=True):
            if number < incidents or (number > incidents and name == topics.control):
                raise RuntimeError(
                    f"topic {name}: expected {incidents} partitions, as {topics.incidents} has, got {number}"
                )

    # Assignments change as a whole; called by the consumer's thread.

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        settings = self._settings
        for place in partitions:
            owned = recalled(
                settings.bootstrap,
                settings.topics.notifications,
                place.partition,
                client=settings.client,
                fetch_wait_ms=settings.fetch_wait_ms,
            )
            for name, incident in owned.repeated():
                if name in self._channels:
                    origin = Origin(settings.topics.incidents, owned, -1, incident.changed_at, None, None)
                    kind = kind_of(incident) or Kind.APPROVAL_WANTED  # earlier releases notified of other changes, too
                    self._channels[name].follow(self._item(origin, incident, Planned.of(incident, kind, name)))
            self._owned[place.partition] = owned
        self._assigned.set(len(self._owned))
        controls = [self._kills_in_force(place.partition) for place in partitions] if self._config.actuators else []
        consumer.assign([*partitions, *controls])

    def _kills_in_force(self, partition: int) -> TopicPartition:
        """Call what the kills in force ask for. Returns the place in `control` from which to read on."""
        settings, last = self._settings, dict[bytes | None, KafkaMessage]()
        place = TopicPartition(settings.topics.control, partition, OFFSET_BEGINNING)
        with LogReader(
            settings.bootstrap,
            [place.topic],
            partition=partition,
            client=settings.client,
            fetch_wait_ms=settings.fetch_wait_ms,
        ) as reader:
            for message in reader.to_end(each=True):
                last[message.key()] = message
                place.offset = int(message.offset() or 0) + 1
        for message in last.values():
            self._take(message)
        return place

    def _on_revoke(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        self._commit(consumer, self._disown())

    def _on_lost(self, *_: object) -> None:
        self._disown()

    def _disown(self) -> list[Owned]:
        gone = list(self._owned.values())
        self._owned.clear()
        for owned in gone:
            owned.owned = False
        for channel in self._channels.values():
            channel.disown(channel.channel.timeout.total_seconds())
        for owned in gone:
            owned.closed = True
        self._assigned.set(0)
        self._recorder.flush()
        return gone

    # Records in.

    def _take(self, message: KafkaMessage) -> None:
        error = message.error()
        if error is not None:
            self._outage.require_temporary(error)
            return
        owned = self._owned.get(int(message.partition() or 0))
        if owned is None:
            return  # read before the partition was revoked
        topic, offset = str(message.topic()), int(message.offset() or 0)
        origin = Origin(topic, owned, offset, message.timestamp()[1], message.key(), message.value())
        if topic == self._settings.topics.control:
            with self._lock:
                self._on_control(origin)
            return
        try:
            record = decode(IncidentRecord, origin.value)
        except InvalidRecord as bad:
            with self._lock:
                owned.read(origin.offset, 1)
            self._recorder.letter(origin, bad.reason, bad.detail, lambda: self._done(origin))
            return
        with self._lock:
            self._plan(origin, record)

    def _plan(self, origin: Origin, record: IncidentRecord) -> None:
        owned, at_ms = origin.partition, now_ms()
        planned = plan(record, self._repeats, owned.channels_of(record.incident_id))
        fresh = [one for one in planned if owned.claim(one.notification_id, at_ms)]
        owned.read(origin.offset, len(fresh))
        for one in fresh:
            item = self._item(origin, record, one)
            if at_ms - origin.timestamp_ms <= self._oldest_ms:
                owned.record(record.incident_id, one.channel, record.state, self._repeated(one.channel, record))
                self._channels[one.channel].add(item)
            else:
                self._outcomes.labels(one.channel, NotificationOutcome.TOO_OLD.value).inc()
                self._settled(Settled(item=item, outcome=NotificationOutcome.TOO_OLD, attempts=0))

    def _on_control(self, origin: Origin) -> None:
        """Call what a new kill asks for; a released one is called for no longer."""
        owned, at_ms = origin.partition, now_ms()
        try:
            kill = None if origin.value is None or origin.key == SETS_KEY else decode(ControlRecord, origin.value)
        except InvalidRecord as bad:  # only workers write here
            _log.warning("notify: offset %d of %s: %s", origin.offset, origin.topic, bad.detail)
            return
        orders = [] if kill is None else list(orders_of(self._config, kill))
        if kill is None or not orders or not owned.stands(origin.key, kill.decision_id):
            owned.lift(origin.key)
        if kill is None or not orders:
            return
        owned.kills[origin.key] = kill
        origin = replace(origin, decision_id=kill.decision_id)
        first, then = list[Item](), list[Item]()
        for order in orders:
            age_ms = at_ms - order.at_ms
            too_old = age_ms > order.actuator.give_up_after.total_seconds() * 1000
            if (too_old and age_ms > self._oldest_ms) or not owned.claim(order.message_id, at_ms):
                continue
            item = Item(channel=order.name, message=order, origin=origin)
            if not too_old:
                (first if order.actuator.disarm else then).append(item)
                continue
            self._outcomes.labels(order.name, NotificationOutcome.TOO_OLD.value).inc()
            self._settled(Settled(item=item, outcome=NotificationOutcome.TOO_OLD, attempts=0))
        if first:
            owned.held[kill.decision_id] = {item.message.message_id for item in first}, then
        for item in first or then:
            self._channels[item.channel].add(item)

    def _item(self, origin: Origin, record: IncidentRecord, planned: Planned) -> Item:
        message = Message(
            message_id=planned.notification_id,
            kind=planned.kind,
            record=record,
            at_ms=origin.timestamp_ms,
            session_link=self._links.session(record),
            approval_link=self._links.approval(record, origin.timestamp_ms),
        )
        return Item(channel=planned.channel, message=message, origin=origin)

    def _repeated(self, channel: str, record: IncidentRecord) -> IncidentRecord | None:
        return record if self._repeats[channel] else None

    # Outcomes; from any thread.

    def _settled(self, settled: Settled) -> None:
        origin = settled.item.origin
        if not isinstance(origin, Origin):
            raise TypeError(f"an item's origin: expected a record of a topic, got {type(origin).__name__}")
        if origin.partition.closed:
            return
        if isinstance(order := settled.item.message, Order):
            with self._lock:
                origin.partition.answered(order.about, settled.outcome)
                for item in origin.partition.let_go(order.about, order.message_id):
                    self._channels[item.channel].add(item)
        if settled.outcome is NotificationOutcome.FAILED:
            detail = f"channel {settled.item.channel}: {settled.detail}"
            self._recorder.letter(origin, BadRecord.UNDELIVERED, detail, lambda: self._record(settled, origin))
        else:
            self._record(settled, origin)

    def _record(self, settled: Settled, origin: Origin) -> None:
        message = settled.item.message
        incident = None if isinstance(message, Order) else self._repeated(settled.item.channel, message.record)
        self._recorder.record(settled, origin, incident, lambda: self._done(origin))

    def _done(self, origin: Origin) -> None:
        if origin.topic == self._settings.topics.incidents:  # reads of `control` are not committed
            with self._lock:
                origin.partition.settle(origin.offset)

    def _fail(self, failure: BaseException) -> None:
        _log.error("notify: %s: %s", type(failure).__name__, failure)
        self._failure = failure
        self._stop.set()

    # Periodic tasks.

    def _commit(self, consumer: Consumer, of: list[Owned] | None = None) -> None:
        with self._lock:
            moved = [
                (owned, position)
                for owned in (self._owned.values() if of is None else of)
                if (position := owned.position) is not None and position != owned.committed
            ]
        if not moved:
            return
        topic = self._settings.topics.incidents
        places = [TopicPartition(topic, owned.partition, position) for owned, position in moved]
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as failed:  # recorded changes are not sent again, whatever is committed
            _log.warning("notify: offsets could not be committed: %s", failed.args[0].str())
            return
        for owned, position in moved:
            owned.committed = position

    def _look(self, consumer: Consumer) -> None:
        """Update the metrics, and pause or resume reading by the number of messages in memory."""
        waiting = self.waiting
        with self._lock:
            self._unconfirmed.set(sum(owned.unconfirmed for owned in self._owned.values()))
        for place in consumer.position(consumer.assignment()):
            _, end = consumer.get_watermark_offsets(place, cached=True)
            if end >= 0 and place.offset >= 0:
                self._lag.labels(place.topic, str(place.partition)).set(max(0, end - place.offset))
        if not self._paused and waiting > _MAX_WAITING:
            _log.warning("notify: %d messages wait to be sent; no more are read until some are", waiting)
            consumer.pause(consumer.assignment())
            self._paused = True
        elif self._paused and waiting < _MAX_WAITING // 2:
            consumer.resume(consumer.assignment())
            self._paused = False

    def _measure(self, name: str) -> int:
        number, oldest_s = self._channels[name].load()
        self._waiting.labels(name).set(number)
        self._oldest.labels(name).set(oldest_s)
        return number
