"""A process's connection to Kafka: one producer, one consumer, one thread, for all of its guards.

The consumer uses manual assignment, as every process reads all records. It reads the whole compacted control topic (an
entry may be about any tool or target) and, of `interventions`, the partitions of its sessions, each from its end offset
when the first session of that partition joined.
"""

import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.disk_spool import spool_of
from haltline.interventions.agent.transport.kafka_clients import (
    METADATA_S,
    QUEUE_RECORDS,
    common_of,
    complaint_of,
    consumer_of,
    ends_of,
    is_embedded,
    partitions_now,
    partitions_of,
    producer_of,
)
from haltline.interventions.agent.transport.kafka_records import control_record
from haltline.interventions.agent.transport.signature_check import sealed_of
from haltline.interventions.agent.transport.transport import Receiver
from haltline.interventions.agent.transport.worker_presence import WorkerPresence
from haltline.interventions.outage import Outage
from haltline.schemas import wire
from haltline.schemas.decisions import Decision
from haltline.schemas.delivery import undelivered
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import SETS_KEY, Topics

log: Final = logging.getLogger("haltline.agent")

_POLL_S = 0.02
_PROBE_S = 0.5
_RETRY_S = 0.5


_SERVE_S = 0.02
_RESERVED_RECORDS = 2_000

Report: TypeAlias = Callable[[KafkaError | None, Message | None], None]
"""Receives the delivery report of a record; without a message: it waits on disk."""


_hubs: "weakref.WeakValueDictionary[tuple[Any, ...], KafkaConnection]" = weakref.WeakValueDictionary()
_hubs_lock = threading.Lock()
_of_the_parent: "list[KafkaConnection]" = []
"""After a fork, the parent's connections are kept open: closing them would wait for missing threads."""


class Member(Protocol):
    """One session of the connection."""

    session_id: str
    key: bytes


class _Lost(Exception):
    """The records read are no longer valid: start again."""


class _Grown(Exception):
    """An earlier release has moved to topics with another prefix."""


class KafkaConnection:
    """Transports the records of the sessions that have joined. Thread safe. Starts no thread before the first joins.

    Raises ValueError if librdkafka rejects the settings, or the disk fails.
    """

    def __init__(self, settings: GuardSettings) -> None:
        self._topics = Topics(settings.topic_prefix)
        self._fetch_wait_ms = settings.fetch_wait_ms
        self._common = common_of(settings)
        self.outbox = EventOutbox(settings, self._common, self._on_error)
        self._producer = self.outbox.producer
        self._sealed = sealed_of(settings)
        self._lock = threading.RLock()
        self._members: dict[Member, Receiver] = {}
        self._of_session: dict[str, list[Receiver]] = {}
        self._entries: dict[str, bytes] = {}
        self._partitions_read: dict[int, bool] = {}  # of `interventions`: whether the consumer has it already
        self._count = 0  # partitions of `interventions`; 0: not known yet
        self._loaded = False
        self._control_next: dict[int, int] = {}  # of the control topic, by partition
        self._joined: list[Member] = []  # since the consumer was assigned, without the entries in force yet
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._suspect = False
        self._complaint = ""
        self._broker = Outage(log, "haltline: the broker")
        self._decisions = Outage(log, "haltline: decisions", "cannot be read")
        self._unwatched = Outage(log, "haltline: actions of this process", "are not monitored")
        self.watched = WorkerPresence()

    @property
    def ended(self) -> bool:
        """Whether the last of its sessions has left."""
        return self._stopping.is_set()

    @property
    def up(self) -> bool:
        """False: the broker did not respond to the last request, or the connection has ended."""
        return not (self.outbox.down or self._stopping.is_set())

    def join(self, member: Member, receiver: Receiver) -> bool:
        """Add a session. False: the connection has ended."""
        with self._lock:
            if self._stopping.is_set():
                return False
            self._members[member] = receiver
            self._of_session.setdefault(member.session_id, []).append(receiver)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="haltline-kafka", daemon=True)
                self._thread.start()
            elif self._count:
                self._partitions_read.setdefault(self._partition(member), False)
                self._joined.append(member)
            return True

    def leave(self, member: Member) -> None:
        """Remove a session; the last one ends the connection."""
        with self._lock:
            receiver = self._members.pop(member, None)
            if receiver is not None:
                others = self._of_session.get(member.session_id, [])
                if receiver in others:
                    others.remove(receiver)
                if not others:
                    self._of_session.pop(member.session_id, None)
            if self._members or self._stopping.is_set():
                return
            self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * METADATA_S + 2 * _POLL_S)
        self.outbox.close(is_producer_free=self._thread is None or not self._thread.is_alive())

    def delivered(self, message: Message) -> None:
        """Record the delivery of a message."""
        offset = message.offset()
        if message.topic() == self._topics.actions and offset is not None and offset >= 0:
            self.watched.delivered(int(message.partition() or 0), offset)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._read()
            except Exception as error:  # errors must not stop the agent; its calls follow the fail policy
                self._producer.poll(0)
                why = f"{error} ({self._complaint})" if self._complaint else str(error)
                self._decisions.away(why)
                with self._lock:
                    self._loaded = False
                    self._entries.clear()
                    for receiver in self._members.values():
                        receiver.unloaded()
                self.outbox.down = not isinstance(error, _Lost)
                self._stopping.wait(None if isinstance(error, _Grown) else _RETRY_S)

    def _read(self) -> None:
        consumer, unread = self._assigned()
        waiting: list[tuple[list[Member], dict[int, int]]] = []
        self.outbox.down = self._suspect = False
        self._broker.back()
        self._decisions.back()
        try:
            self._look()
            if not unread:
                self._all_loaded()
            while not self._stopping.is_set():
                message = consumer.poll(_POLL_S)
                self._producer.poll(0)
                if self._suspect:
                    self._probe()
                if not self.outbox.down and self.watched.is_due():
                    self._look()
                self.outbox.catch_up()
                self._take_new_partitions(consumer)
                self._tell_who_joined(consumer, waiting)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self._deliver(message)
                    self._note_place(message, after=1)
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._note_place(message, after=0)
                    if message.topic() == self._topics.control and message.partition() in unread:
                        unread.discard(message.partition())
                        if not unread:
                            self._all_loaded()
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    # Records were deleted before they were read, or the topic was recreated.
                    raise _Lost(f"{message.topic()} has to be read anew: {error.str()}")
        finally:
            consumer.close()

    def _assigned(self) -> tuple[Consumer, set[int]]:
        """Return an assigned consumer, and the partitions of the control topic to read first."""
        control = partitions_of(self._producer, self._topics.control)
        count = partitions_of(self._producer, self._topics.interventions)
        wait_ms = self._fetch_wait_ms or (10 if is_embedded(self._producer, self._topics.control) else 500)
        consumer = consumer_of(self._common, wait_ms, self._on_error)
        try:
            with self._lock:
                self._count = count
                mine = {self._partition(member) for member in self._members}
                self._partitions_read = dict.fromkeys(mine, False)
                self._joined.clear()
                self._control_next.clear()
            places = [self._end_of(consumer, partition) for partition in mine]
            unread = set()
            # By number, not by OFFSET_BEGINNING: librdkafka takes a second to look that up.
            for partition in range(control):
                first, end = ends_of(consumer, self._topics.control, partition)
                places.append(TopicPartition(self._topics.control, partition, first))
                self._control_next[partition] = first
                if end > first:
                    unread.add(partition)
            consumer.assign(places)
            with self._lock:
                self._partitions_read |= dict.fromkeys(mine, True)
        except BaseException:
            consumer.close()
            raise
        return consumer, unread

    def _take_new_partitions(self, consumer: Consumer) -> None:
        """Assign the partitions of sessions that have joined since."""
        with self._lock:
            new = [partition for partition, is_read in self._partitions_read.items() if not is_read]
        if not new:
            return
        consumer.incremental_assign([self._end_of(consumer, partition) for partition in new])
        with self._lock:
            self._partitions_read |= dict.fromkeys(new, True)

    def _tell_who_joined(self, consumer: Consumer, waiting: list[tuple[list[Member], dict[int, int]]]) -> None:
        """Deliver the entries in force to new members, once all entries from before they joined are read.

        `waiting`: members without these entries yet, with the end offsets of the control topic's partitions.
        """
        with self._lock:
            joined, self._joined = self._joined, []
        if joined:
            waiting.append((joined, {p: ends_of(consumer, self._topics.control, p)[1] for p in self._control_next}))
        while waiting and self._loaded:
            members, ends = waiting[0]
            if any(self._control_next[partition] < end for partition, end in ends.items()):
                return
            del waiting[0]
            with self._lock:
                for receiver in [self._members[member] for member in members if member in self._members]:
                    self._tell_what_stands(receiver)

    def _note_place(self, message: Message, *, after: int) -> None:
        if message.topic() == self._topics.control:
            self._control_next[int(message.partition() or 0)] = int(message.offset() or 0) + after

    def _end_of(self, consumer: Consumer, partition: int) -> TopicPartition:
        topic = self._topics.interventions
        return TopicPartition(topic, partition, ends_of(consumer, topic, partition)[1])

    def _partition(self, member: Member) -> int:
        return partition_of(member.session_id, self._count)

    def _all_loaded(self) -> None:
        with self._lock:
            self._loaded = True
            for member, receiver in self._members.items():
                if member not in self._joined and self._partitions_read.get(self._partition(member)):
                    self._tell_what_stands(receiver)

    def _tell_what_stands(self, receiver: Receiver) -> None:
        """With the lock held: deliver all entries, then report that they are complete."""
        if not self._loaded:
            return
        for key, value in self._entries.items():
            if receiver.concerns(key):
                receiver.control(key, control_record(key, value))
        receiver.loaded()

    def _deliver(self, message: Message) -> None:
        key = (message.key() or b"").decode(errors="replace")
        try:
            if message.topic() == self._topics.control:
                self._control(key, message.value() if self._sealed is None else self._sealed_entry(key, message))
                return
            with self._lock:
                if key and key not in self._of_session:
                    return
            if self._sealed is not None and not self._sealed.holds(message):
                return
            decision = wire.decode(Decision, message.value())
            with self._lock:
                if key in {decision.session_id, ""}:
                    for receiver in self._of_session.get(decision.session_id, ()):
                        receiver.decision(decision)
        except wire.InvalidRecord as bad:
            log.warning(
                "haltline: %s, partition %s, offset %s cannot be read: %s",
                message.topic(), message.partition(), message.offset(), bad,
            )  # fmt: skip

    def _sealed_entry(self, key: str, message: Message) -> bytes | None:
        assert self._sealed is not None
        with self._lock:
            current = self._entries.get(key)
        return self._sealed.entry(key, message, current)

    def _control(self, key: str, value: bytes | None) -> None:
        if key == SETS_KEY.decode() and (why := self._topics.grown(value)):
            raise _Grown(why)
        with self._lock:
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value
            concerned = [r for r in self._members.values() if r.concerns(key)] if self._loaded else []
            if concerned:
                record = None if value is None else control_record(key, value)
                for receiver in concerned:
                    receiver.control(key, record)

    def _on_error(self, error: KafkaError) -> None:
        """Handle an error of the library; served by `poll`."""
        self._complaint = complaint_of(error)
        if error.code() in {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}:
            self._suspect = True

    def _probe(self) -> None:
        """Request metadata: the library reports when a connection ends, not when it is restored."""
        try:
            self._producer.list_topics(self._topics.control, timeout=_PROBE_S)
        except KafkaException as error:
            self._broker.away(error)
            self.outbox.down = True
        else:
            self.outbox.down = self._suspect = False
            self._broker.back()

    def _look(self) -> None:
        """Check that the topic of actions exists, with the same number of partitions."""
        try:
            self.watched.looked(partitions_now(self._producer, self._topics.actions))
        except KafkaException:
            self._suspect = True
            return
        unwatched_reason = self.watched.unwatched_reason()
        if unwatched_reason is None:
            self._unwatched.back()
        else:
            self._unwatched.away(unwatched_reason)


class EventOutbox:
    """The outgoing records. Thread safe. Raises ValueError if librdkafka rejects the settings, or the disk fails."""

    def __init__(self, settings: GuardSettings, common: dict[str, Any], on_error: Callable[[KafkaError], None]) -> None:
        self.producer = producer_of(settings, common, on_error)
        self.down = False
        """The broker did not respond to the last request."""
        self._queue_records = int(str(common.get("queue.buffering.max.messages", QUEUE_RECORDS)))
        self._reserved = min(_RESERVED_RECORDS, self._queue_records // 10)
        self._spool = spool_of(settings)

    def publish(self, topic: str, key: bytes, value: bytes, report: Report, *, must: bool) -> bool:
        """Queue one record; `report` receives its delivery report. False: there is no room for it."""
        spool = self._spool
        if spool is not None and (spool or self.down):  # in order: after records that wait already
            return self._keep(topic, key, value, report)
        room = self._queue_records - (0 if must else self._reserved)
        if len(self.producer) >= room:
            return spool is not None and self._keep(topic, key, value, report)
        return self._produce(topic, key, value, report) or self._keep(topic, key, value, report)

    def keep(self, message: Message) -> bool:
        """Save an undelivered record on disk. False: it is lost."""
        topic, key, value = message.topic(), message.key(), message.value()
        if self._spool is None or topic is None or key is None or value is None:
            return False
        return self._spool.append(topic, key, value)

    def send_again(self, message: Message, report: Report) -> bool:
        """Queue a record again that was reported as delivered but is not. False: there is no room for it."""
        topic, key, value = message.topic(), message.key(), message.value()
        return topic is not None and key is not None and value is not None and self._produce(topic, key, value, report)

    def hurry(self, waits: Callable[[], bool], until_s: float) -> None:
        """Serve delivery reports until `waits` is false, or until `until_s` (`time.monotonic`).

        Records for a broker that is down go to the disk, if there is a spool.
        """
        if self._spool is not None and self.down:
            self.producer.purge()
        while True:
            self.producer.poll(0)
            left_s = until_s - time.monotonic()
            if not waits() or left_s <= 0:
                break
            self.producer.flush(min(left_s, _SERVE_S))
        if self._spool is not None and waits():
            self.producer.purge()
            self.producer.poll(0)

    def catch_up(self) -> None:
        """Send records that waited on disk, as far as the queue has room."""
        spool = self._spool
        if not spool or self.down:
            return

        def send(topic: str, key: bytes, value: bytes, arrived: Callable[[bool], None]) -> bool:
            def report(error: KafkaError | None, message: Message | None) -> None:
                # Undelivered records are appended to the spool; without room, they stay at their place.
                failure = error if message is None else undelivered(error, message)
                arrived(failure is None or (message is not None and self.keep(message)))

            return len(self.producer) < self._queue_records // 2 and self._produce(topic, key, value, report)

        sent = spool.drain(send)
        if sent and not spool:
            log.info("haltline: the broker is back: the records on disk were sent, %d of them", sent)

    def close(self, *, is_producer_free: bool) -> None:
        """Close. `is_producer_free`: no other thread uses the producer any more."""
        if is_producer_free:
            # A pending record references the producer, and the producer this object: it would retry its broker forever.
            self.producer.purge()
            self.producer.flush(0)
            self.producer.close()
        if self._spool is not None:
            self._spool.close()

    def _produce(self, topic: str, key: bytes, value: bytes, report: Report) -> bool:
        try:
            self.producer.produce(topic, value=value, key=key, on_delivery=report)
        except (BufferError, KafkaException, RuntimeError):  # RuntimeError: closed meanwhile
            return False
        return True

    def _keep(self, topic: str, key: bytes, value: bytes, report: Report) -> bool:
        kept = self._spool is not None and self._spool.append(topic, key, value)
        if kept:
            report(None, None)  # it will arrive, possibly by another process
        return kept


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
