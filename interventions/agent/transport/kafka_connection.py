"""A process's connection to Kafka: one producer, one consumer, one thread, for all of its guards.

The consumer uses manual assignment, as every process reads all records. It reads the whole compacted control topic (an
entry may be about any tool or target) and, of `interventions`, the partitions of its sessions, each from its end offset
when the first session of that partition joined.
"""

import logging
import threading
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.kafka_clients import (
    METADATA_S,
    common_of,
    complaint_of,
    consumer_of,
    ends_of,
    is_embedded,
    partitions_now,
    partitions_of,
)
from haltline.interventions.agent.transport.kafka_records import control_record
from haltline.interventions.agent.transport.outbox import EventOutbox
from haltline.interventions.agent.transport.signature_check import sealed_of
from haltline.interventions.agent.transport.transport import Receiver
from haltline.interventions.agent.transport.worker_presence import WorkerPresence
from haltline.interventions.outage import Outage
from haltline.schemas import wire
from haltline.schemas.decisions import Decision
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import SETS_KEY, Topics

log: Final = logging.getLogger("haltline.agent")

_POLL_S = 0.02
_PROBE_S = 0.5
_RETRY_S = 0.5


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
