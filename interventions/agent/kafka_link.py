"""The guard's way to Kafka: one producer, one consumer, one thread of its own.

The consumer is assigned, not subscribed: every guard reads for itself. It reads the whole compacted
control topic (an entry may be about any tool or target) and, of `interventions`, the one partition of
its session, from where that ended when the guard started.
"""

import logging
import threading
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from haltline.interventions.agent.link import Receiver
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.record import EARLIEST_MS
from haltline.schemas.topics import Topics

log: Final = logging.getLogger("haltline.agent")

_POLL_S = 0.1
_METADATA_S = 1.0
_PROBE_S = 0.5
_RETRY_S = 0.5
_BATCHING_MS = 5
_QUEUE_RECORDS = 20_000
_QUEUE_KIB = 32 * 1024


class _Lost(Exception):
    """What was read does not hold any more: begin anew."""


class KafkaLink:
    """Carries the records of one session. Starts no thread before `start`.

    Raises ValueError when librdkafka refuses the settings.
    """

    def __init__(self, settings: GuardSettings) -> None:
        self._topics = Topics(settings.topic_prefix)
        self._session_id = settings.session_id
        self._key = settings.session_id.encode()
        self._fetch_wait_ms = settings.fetch_wait_ms
        self._common: dict[str, Any] = {
            "socket.timeout.ms": 10_000,  # a broker that hangs is noticed
            "log_level": 2,  # a broker that is away is told once by us, not again and again by librdkafka
            "log.connection.close": False,
            **settings.kafka,
            "bootstrap.servers": settings.bootstrap,
        }
        try:
            self._producer = Producer(
                {
                    "linger.ms": 0 if settings.mode == "blocking" else _BATCHING_MS,
                    "queue.buffering.max.messages": _QUEUE_RECORDS,
                    "queue.buffering.max.kbytes": _QUEUE_KIB,
                    "delivery.timeout.ms": 120_000,
                    **self._common,
                    "partitioner": "murmur2_random",
                    "enable.idempotence": True,
                    "acks": "all",
                    "delivery.report.only.error": True,
                    "on_delivery": self._undelivered,
                    "error_cb": self._on_error,
                },
                logger=log,
            )
        except KafkaException as refused:
            raise ValueError(
                f"bootstrap {settings.bootstrap!r}: librdkafka refuses the settings: {refused}"
            ) from refused
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._suspect = False
        self._down = False
        self._closed = False
        self.undelivered = 0
        """Records that the broker did not take in time."""
        self._complaint = ""

    @property
    def up(self) -> bool:
        """False: the broker did not answer when it was last asked, or the link is closed."""
        return not (self._down or self._closed)

    def start(self, receiver: Receiver) -> None:
        """Begin to read in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(receiver,), name=f"haltline-{self._session_id[:32]}", daemon=True
            )
            self._thread.start()

    def publish(self, topic: str, value: bytes) -> bool:
        """Hand one record over to the producer's bounded queue."""
        if self._closed:
            return False
        try:
            self._producer.produce(topic, value=value, key=self._key)
        except (BufferError, KafkaException, RuntimeError):  # RuntimeError: closed meanwhile
            return False
        return True

    def close(self, within_s: float) -> int:
        """Flush, then end the thread and the connections. Returns how many records have not arrived."""
        if self._closed:
            return 0
        left = self._producer.flush(within_s)
        self._closed = True
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * _METADATA_S + 2 * _POLL_S)
        if self._thread is None or not self._thread.is_alive():
            # A record that waits holds the producer, and the producer us: it would look for its broker for ever.
            self._producer.purge()
            self._producer.flush(0)
            self._producer.close()
        return left

    def _run(self, receiver: Receiver) -> None:
        told = ""
        while not self._stopping.is_set():
            try:
                self._read(receiver)
            except Exception as error:  # the agent goes on whatever happens here; its calls follow the fail policy
                self._producer.poll(0)
                why = f"{error} ({self._complaint})" if self._complaint else str(error)
                if why != told:
                    log.warning("haltline: session %s: cannot read decisions: %s", self._session_id, why)
                    told = why
                receiver.unloaded()
                self._down = not isinstance(error, _Lost)
                self._stopping.wait(_RETRY_S)

    def _read(self, receiver: Receiver) -> None:
        consumer, unread = self._assigned()
        self._down = self._suspect = False
        try:
            if not unread:
                receiver.loaded()
            while not self._stopping.is_set():
                message = consumer.poll(_POLL_S)
                self._producer.poll(0)
                if self._suspect:
                    self._probe()
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self._deliver(message, receiver)
                elif error.code() == KafkaError._PARTITION_EOF:
                    if message.topic() == self._topics.control and message.partition() in unread:
                        unread.discard(message.partition())
                        if not unread:
                            receiver.loaded()
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    # Records were deleted before they were read, or the topic was made anew.
                    raise _Lost(f"{message.topic()} has to be read anew: {error.str()}")
        finally:
            consumer.close()

    def _assigned(self) -> tuple[Consumer, set[int]]:
        """A consumer at its places, and the partitions of the control topic that are to be read first."""
        control = self._partitions(self._topics.control)
        mine = partition_of(self._session_id, self._partitions(self._topics.interventions))
        consumer = Consumer(
            {
                "fetch.wait.max.ms": self._fetch_wait_ms or (10 if self._is_embedded() else 500),
                "queued.max.messages.kbytes": 16 * 1024,
                **self._common,
                "group.id": "haltline-agent",  # must be set; assigned consumers that commit nothing do not use it
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "error_cb": self._on_error,
            },
            logger=log,
        )
        try:
            _, now = self._ends(consumer, self._topics.interventions, mine)
            places = [TopicPartition(self._topics.interventions, mine, now)]
            unread = set()
            # By number, not by OFFSET_BEGINNING: librdkafka takes a second to look that up.
            for partition in range(control):
                first, end = self._ends(consumer, self._topics.control, partition)
                places.append(TopicPartition(self._topics.control, partition, first))
                if end > first:
                    unread.add(partition)
            consumer.assign(places)
        except BaseException:
            consumer.close()
            raise
        return consumer, unread

    def _ends(self, consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        ends = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_METADATA_S)
        if ends is None:
            raise RuntimeError(f"topic {topic}, partition {partition}: wanted its first and last offset, came none")
        return ends

    def _partitions(self, topic: str) -> int:
        found = self._producer.list_topics(topic, timeout=_METADATA_S).topics[topic]
        if found.error is not None or not found.partitions:
            raise RuntimeError(f"topic {topic}: wanted a topic that is there, came {found.error or 'no partitions'}")
        return len(found.partitions)

    def _is_embedded(self) -> bool:
        """Librdkafka's mock cluster has no controller, and does not wake a fetch when a record arrives."""
        metadata = self._producer.list_topics(self._topics.control, timeout=_METADATA_S)
        return metadata.controller_id not in metadata.brokers

    def _deliver(self, message: Message, receiver: Receiver) -> None:
        try:
            if message.topic() == self._topics.control:
                key = (message.key() or b"").decode(errors="replace")
                value = message.value()
                receiver.control(key, None if value is None else _control_record(key, value))
            elif message.key() in {self._key, None}:
                decision = wire.decode(Decision, message.value())
                if decision.session_id == self._session_id:
                    receiver.decision(decision)
        except wire.InvalidRecord as bad:
            log.warning(
                "haltline: %s, partition %s, offset %s cannot be read: %s",
                message.topic(), message.partition(), message.offset(), bad,
            )  # fmt: skip

    def _on_error(self, error: KafkaError) -> None:
        """Something of the library's own; served by `poll`."""
        self._complaint = error.str()
        if error.code() in {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}:
            self._suspect = True

    def _probe(self) -> None:
        """Ask the broker for something: the library tells when a connection ends, not when it is back."""
        try:
            self._producer.list_topics(self._topics.control, timeout=_PROBE_S)
        except KafkaException as error:
            if not self._down:
                log.warning("haltline: session %s: the broker is away: %s", self._session_id, error)
            self._down = True
        else:
            self._down = self._suspect = False

    def _undelivered(self, error: KafkaError | None, message: Message) -> None:  # noqa: ARG002 - librdkafka's signature
        if error is not None:
            self.undelivered += 1


def _control_record(key: str, value: bytes) -> ControlRecord | None:
    """The entry; one that cannot be read (of a newer version?) holds as frozen: better a call too few than too many."""
    try:
        return wire.decode(ControlRecord, value)
    except wire.InvalidRecord as bad:
        scope, _, scope_id = key.partition(":")
        if scope not in set(ScopeKind) or not scope_id:
            return None
        log.warning("haltline: the control entry %s cannot be read, and holds as frozen: %s", key, bad)
        return ControlRecord(
            scope=ScopeKind(scope),
            id=scope_id,
            state=ControlState.FROZEN,
            code="control_entry_unreadable",
            reason=str(bad),
            decision_id=f"unreadable {key}",
            since=EARLIEST_MS,
        )
