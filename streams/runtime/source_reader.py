"""The reader of topics: librdkafka fetches, and the event loop gets one micro-batch of a partition at a time.

It reads sources and the changelog. The caller chooses the partitions and offsets; the reader joins no group and commits
nothing. Each topic has its own consumer and thread, so that a backlog of one topic does not delay another. If batches
of several topics wait, an earlier topic's is taken first.

In a rebalance, `stop` ends an assignment. Its records may still be in librdkafka's queue, in a thread, or on their way
to the loop. So each batch carries the number of its assignment, and the loop, where assignments change, drops batches
of earlier ones. Memory is bounded by librdkafka's queue of each topic and by the number of waiting batches: a thread
without room stops polling, and librdkafka stops fetching when its queue is full.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from haltline.streams.kafka.broker_outage import IS_AWAY
from haltline.streams.kafka.log_record import LogRecord, headers_of
from haltline.streams.runtime.changelog import RawRecord
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.worker_settings import WorkerSettings
from haltline.streams.system import REAL, System

_LOOK_EVERY_S: Final = 0.1
"""The time in seconds within which a waiting thread notices a new assignment or its end."""
_ANSWER_WITHIN_S: Final = 1.0
_CLOSE_WITHIN_S: Final = 5.0
_QUEUE_KIB: Final = 16 * 1024
"""The size limit of librdkafka's queue of one topic."""
_QUEUE_FULL_WAIT_MS: Final = 10
"""How long librdkafka does not fetch into a queue that was full. Its default of a second is noticeable in a backlog."""

_REFUSED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._AUTO_OFFSET_RESET,  # where another offset would skip records
    }
)

log = logging.getLogger(__name__)


class Fetched(NamedTuple):
    """The result of one poll of a partition."""

    assignment: int
    place: Partition
    begins: int
    """The position before the poll. All records from there up to `following` are included."""
    records: Sequence[RawRecord]
    """In offset order; empty when the partition's end was reached after offsets without records."""
    end: int | None = None
    """The end offset if there are no records."""

    @property
    def first(self) -> int:
        """The offset of the first record; without one, the partition's end offset."""
        return self.records[0].offset if self.end is None else self.end

    @property
    def following(self) -> int:
        """The offset to fetch next."""
        return self.records[-1].offset + 1 if self.end is None else self.end


Take = Callable[[Fetched], Coroutine[Any, Any, object] | None]
"""Takes one batch; the next one waits for the end of the coroutine, if there is one. A new assignment cancels it."""


class RecordConsumer(Protocol):
    """The used part of confluent-kafka's consumer, whose stubs declare every field of a message as optional."""

    def assign(self, partitions: list[TopicPartition], /) -> None:
        """Read exactly these partitions, each from its offset."""

    def list_topics(self, topic: str, /, *, timeout: float) -> object:
        """Ask for the metadata of a topic. Raises KafkaException when no broker answers in time."""

    def poll(self, timeout: float, /) -> Any:
        """Wait for one message; None when there is none in time."""

    def consume(self, num_messages: int, /, timeout: float) -> list[Any]:
        """Return the available messages."""

    def close(self) -> None:
        """Close the consumer."""


def consumer_settings(settings: WorkerSettings, *, reset: str = "earliest") -> dict[str, Any]:
    """Return librdkafka's settings for reading a worker's topics.

    `reset` is what to do when the broker no longer has the next records: "earliest" begins with the first that it has,
    "error" fails.
    """
    return {
        **settings.client,
        "bootstrap.servers": settings.bootstrap,
        "group.id": settings.group,  # librdkafka requires one; the group is never joined
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": reset,
        "enable.partition.eof": True,  # the position after transaction markers, which are not records
        "isolation.level": "read_uncommitted",  # as in Faust
        "check.crcs": True,
        "fetch.wait.max.ms": settings.fetch_wait_ms,
        "fetch.message.max.bytes": settings.fetch_max_bytes,
        "queued.max.messages.kbytes": _QUEUE_KIB,
        "fetch.queue.backoff.ms": _QUEUE_FULL_WAIT_MS,
    }


def open_consumer(
    settings: WorkerSettings,
    on_error: Callable[[KafkaError], None],
    *,
    reset: str = "earliest",
    system: System = REAL,
) -> RecordConsumer:
    """Return a consumer without partitions. `on_error` is called with the client's errors, by the polling thread."""
    return system.consumer({**consumer_settings(settings, reset=reset), "error_cb": on_error}, logger=log)


class SourceReader:
    """Reads some topics. All methods, and `take`, are called in the event loop's thread.

    `open_with` makes the consumer of one topic, in its thread; `on_failure` is called by that thread with fatal errors.
    """

    def __init__(
        self,
        topics: Sequence[str],
        take: Take,
        *,
        open_with: Callable[[Callable[[KafkaError], None]], RecordConsumer],
        on_failure: Callable[[BaseException], object],
        max_poll_records: int,
        buffered_batches: int,
        system: System = REAL,
    ) -> None:
        self._take = take
        self._taking: asyncio.Task[object] | None = None
        self._system = system
        self._loop = asyncio.get_running_loop()
        self._assignment = 0
        self._waiting: dict[str, deque[Fetched]] = {topic: deque() for topic in topics}
        self._takes_more = False
        """Whether a batch is being taken, or a callback of the loop is scheduled."""
        self._threads = {
            topic: _TopicThread(
                topic,
                self._handed_over,
                open_with=open_with,
                on_failure=on_failure,
                max_poll_records=max_poll_records,
                buffered_batches=buffered_batches,
                system=system,
            )
            for topic in topics
        }

    def begin(self, offsets: Mapping[Partition, int]) -> None:
        """Read exactly these partitions, from these offsets."""
        self._assignment += 1
        if self._taking is not None:
            self._taking.cancel()
        for topic, thread in self._threads.items():
            own = {number: offset for (of_topic, number), offset in offsets.items() if of_topic == topic}
            thread.assign(_Assignment(self._assignment, own))

    def stop(self) -> None:
        """Stop reading; batches that were fetched and not taken are dropped."""
        self.begin({})

    def close(self) -> None:
        """End the threads, and drop their batches."""
        self.stop()
        for thread in self._threads.values():
            thread.closing = True
        deadline = self._system.monotonic() + _CLOSE_WITHIN_S
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - self._system.monotonic()))

    def _handed_over(self, fetched: Fetched) -> None:  # in the thread of a topic
        self._waiting[fetched.place[0]].append(fetched)
        try:
            self._loop.call_soon_threadsafe(self._batch_fetched)
        except RuntimeError:  # the loop is closed: the process ends
            log.debug("%s partition %d: fetched, but not assigned", *fetched.place)

    def _batch_fetched(self) -> None:
        if not self._takes_more and any(self._waiting.values()):  # its batch may have been taken with another
            self._take_next()

    def _take_next(self) -> None:
        """Take one batch. The next waits for another loop iteration, so that a checkpoint progresses under load."""
        topic, waiting = next((topic, waiting) for topic, waiting in self._waiting.items() if waiting)
        fetched = waiting.popleft()
        self._takes_more = True
        taking = None
        try:
            if fetched.assignment == self._assignment:
                taking = self._take(fetched)
        finally:
            if taking is None:
                self._taken(topic)
        if taking is not None:
            self._taking = self._loop.create_task(taking)
            self._taking.add_done_callback(lambda _: self._taken(topic))

    def _taken(self, topic: str) -> None:
        self._taking = None
        self._threads[topic].room.release()
        self._takes_more = any(self._waiting.values())
        if self._takes_more:
            self._loop.call_soon(self._take_next)


class _Assignment(NamedTuple):
    number: int
    offsets: Mapping[int, int]


class _TopicThread:
    """Reads one topic in a thread of its own."""

    def __init__(
        self,
        topic: str,
        hand_over: Callable[[Fetched], None],
        *,
        open_with: Callable[[Callable[[KafkaError], None]], RecordConsumer],
        on_failure: Callable[[BaseException], object],
        max_poll_records: int,
        buffered_batches: int,
        system: System,
    ) -> None:
        self.closing = False
        self.room = system.semaphore(buffered_batches)
        self._topic = topic
        self._hand_over = hand_over
        self._open_with = open_with
        self._on_failure = on_failure
        self._max_poll_records = max_poll_records
        self._assignment = self._taken_up = _Assignment(0, {})
        self._changed = system.event()
        self._following: dict[int, int] = {}
        """By assigned partition: the offset to fetch next, after those handed over."""
        self._complaint = ""
        self._thread = system.thread(target=self._run, name=f"reads {topic}", daemon=True)
        self._thread.start()

    def join(self, within_s: float) -> None:
        """Wait for the thread's end."""
        self._thread.join(within_s)

    def assign(self, assignment: _Assignment) -> None:
        """Set the assignment, which applies at the next iteration. May be called by any thread."""
        self._assignment = assignment
        self._changed.set()

    def _run(self) -> None:
        try:
            with closing(self._open_with(self._complains)) as consumer:
                while not self.closing:
                    self._turn(consumer)
        except Exception as failure:
            self._on_failure(failure)

    def _turn(self, consumer: RecordConsumer) -> None:
        self._changed.clear()  # before the assignment is read, so that no change is missed
        assignment = self._assignment
        if assignment is not self._taken_up:
            if assignment.offsets:
                self._learn(consumer)
            # librdkafka then returns nothing that was fetched for the previous assignment.
            consumer.assign([TopicPartition(self._topic, *at) for at in assignment.offsets.items()])
            self._taken_up = assignment
            self._following = dict(assignment.offsets)
        if not assignment.offsets:
            consumer.poll(0)  # to receive the client's errors
            self._changed.wait(_LOOK_EVERY_S)
            return
        message = consumer.poll(_LOOK_EVERY_S)
        if message is None:
            return
        for fetched in self._by_partition(
            assignment, [message, *consumer.consume(self._max_poll_records - 1, timeout=0)]
        ):
            while not self.room.acquire(timeout=_LOOK_EVERY_S):
                if self.closing or self._assignment is not assignment:
                    return
            self._hand_over(fetched)

    def _learn(self, consumer: RecordConsumer) -> None:
        """Have librdkafka know the topic's leaders, which it would otherwise look up half a second after an assignment.

        Without an answer it does that.
        """
        try:
            consumer.list_topics(self._topic, timeout=_ANSWER_WITHIN_S)
        except KafkaException as failed:
            self._complains(failed.args[0])

    def _by_partition(self, assignment: _Assignment, messages: Iterable[Any]) -> Iterable[Fetched]:
        topic, following = self._topic, self._following
        found: list[Fetched] = []
        open_batches: dict[int, list[RawRecord]] = {}
        for message in messages:
            error = message.error()
            partition, offset = message.partition(), message.offset()
            if error is None:
                record = LogRecord(
                    topic, partition, offset, message.timestamp()[1],
                    message.key(), message.value(), headers_of(message),
                )  # fmt: skip
                batch = open_batches.get(partition)
                if batch is None or offset < following[partition]:  # a log that restarts needs its own batch
                    batch = open_batches[partition] = []
                    found.append(Fetched(assignment.number, (topic, partition), following[partition], batch))
                batch.append(record)
                following[partition] = offset + 1
            elif error.code() != KafkaError._PARTITION_EOF:
                self._judge(error)
            elif offset != following[partition]:
                open_batches.pop(partition, None)
                found.append(Fetched(assignment.number, (topic, partition), following[partition], [], offset))
                following[partition] = offset
        return found

    def _judge(self, error: KafkaError) -> None:
        """Raise KafkaException for a permanent error; librdkafka itself retries after others."""
        if error.fatal() or error.code() in _REFUSED:
            raise KafkaException(error)
        self._complains(error)

    def _complains(self, error: KafkaError) -> None:
        reason = f"{error.name()}: {error.str()}"
        if error.code() in IS_AWAY:  # the lag watch, which asks the brokers itself, reports those
            log.debug("%s: %s", self._topic, reason)
        elif reason != self._complaint:
            self._complaint = reason
            log.warning("topic %s: expected records, got %s", self._topic, reason)
