"""The audit sink: from Kafka into the table, each record exactly once.

Kafka's consumer group assigns the partitions and shows the lag; the offsets to read from are the table's.
"""

import logging
from collections.abc import Iterable, Set
from itertools import groupby
from operator import itemgetter
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from haltline.streams.audit.compaction import Compactor
from haltline.streams.audit.consuming import PASSING, client_config, consumer_config, kafka_records, watermarks
from haltline.streams.audit.reading import Reader
from haltline.streams.audit.redacting import Redaction
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.signing import load_signer
from haltline.streams.audit.table import AuditTable, DeltaAuditTable
from haltline.streams.audit.telemetry import SinkTelemetry
from haltline.streams.audit.writer import AnotherLog, AuditWriter, Place
from haltline.streams.kafka.broker_outage import BrokerOutage
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.topic_ids import TopicIds
from haltline.streams.system import REAL, System

_log = logging.getLogger(__name__)

_STOP_SEEN_WITHIN_S: Final = 0.2
_AGAIN_AFTER_S: Final = 0.05
_STOOD_STILL_S: Final = 0.5
_AT_MOST_TIMES: Final = 6
"""The most extensions of the wait, which bound it for a broker that is always slow."""
_AT_ONCE: Final = 500
_CONFIRM_WITHIN_S: Final = 1.0


class AuditSink:
    """One sink. `run` works in the calling thread until `stop` is called from anywhere.

    `table` is the table to write to, by default the Delta table of the settings.
    """

    def __init__(
        self,
        settings: AuditSettings,
        *,
        table: AuditTable | None = None,
        observer: SinkTelemetry | None = None,
        system: System = REAL,
    ) -> None:
        self._settings = settings
        self._system = system
        self._observer = observer or SinkTelemetry(Metrics("audit"))
        self._writer = AuditWriter(
            table or DeltaAuditTable(settings.table, settings.storage_options),
            Reader(settings.topics, settings.sink, Redaction(settings.redact) if settings.redact else None),
            settings.sink,
            adopt=settings.adopt,
            signer=None if settings.signing_key is None else load_signer(settings.signing_key),
            sign_every=settings.sign_every,
        )
        self._broker = BrokerOutage(_log, "audit sink", system=system)
        # Only a Delta table of the settings has files to compact.
        self._compactor = Compactor(settings) if table is None else None
        self._stop = system.event()
        self._next: dict[Place, int] = {}
        """The next offset of each partition that is read."""
        self._last_ms: dict[Place, int | None] = {}
        """The time of the last record read of each partition."""
        self._newcomers: set[Place] = set()
        """Assigned partitions whose offsets have not been looked up in the table yet."""
        self._unplaced: dict[Place, int | None] = {}
        """Assigned partitions that are not read yet, with the last offset in the table."""
        self._waiting_since_s: float | None = None
        """When the oldest buffered record was read."""
        self._confirmed = True
        """Whether the broker reported its topics at the last flush."""

    def stop(self) -> None:
        """Have `run` write its buffer and return. Safe in signal handlers and from other threads."""
        self._stop.set()

    @property
    def buffered_rows(self) -> int:
        """The number of rows read and not written."""
        return self._writer.buffered_rows

    def run(self) -> None:
        """Read and write until `stop`.

        Raises:
            AnotherLog: the table was filled from another cluster or from a recreated topic.
            KafkaException: the cluster cannot be reached at the start, or refuses.
            OSError, DeltaError, QueryFailed, TableConflict: the table cannot be written.

        """
        self._meet_cluster()
        consumer = self._system.consumer(consumer_config(self._settings, self._complain), logger=_log)
        try:
            consumer.subscribe(
                [*self._settings.topics.all],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_revoke,
            )
            while not self._stop.is_set():
                message = consumer.poll(self._wait_s())
                self._observer.on_turn()
                self._broker.look(consumer, self._settings.topics.actions)
                if message is not None:
                    # And those already fetched, without waiting: librdkafka's queue bounds them.
                    self._take(consumer, [message, *consumer.consume(_AT_ONCE, timeout=0)])
                if self._newcomers or self._unplaced:
                    self._place(consumer)
                if self._is_due():
                    self._flush(consumer)
                self._look_after_files()
            if not self._flush(consumer):
                _log.warning("audit sink: %d records are not written: they are read again", self.buffered_rows)
        finally:
            if self._compactor is not None:
                self._compactor.close()
            consumer.close()

    def _look_after_files(self) -> None:
        done = None if self._compactor is None else self._compactor.look()
        if done is None:
            return
        if done.failure:
            _log.warning("audit table: its small files were not merged, tried again later: %s", done.failure)
        elif done.removed:
            _log.info("audit table: %s", done)
        self._observer.on_compacted(done)

    def _take(self, consumer: Consumer, messages: Iterable[Message]) -> None:
        received, failed = list[Message](), list[tuple[Message, KafkaError]]()
        for message in messages:
            if (error := message.error()) is None:
                received.append(message)
            else:
                failed.append((message, error))
        for (topic, partition), some in groupby(kafka_records(received), itemgetter(0, 1)):
            place, read = Place(topic, partition), list(some)
            after = read[-1].offset + 1
            start = self._next.get(place)
            new = () if start is None else [record for record in read if record.offset >= start]
            taken = self._writer.extend(place, new)
            if len(taken) < len(read):
                self._observer.on_skipped(topic, len(read) - len(taken))
            if taken:
                self._last_ms[place] = taken[-1].timestamp_ms
                self._wait_from_now()
            if start is not None:
                self._next[place] = max(start, after)
        # Only now: records read before a partition's error must not be read again, as they may be deleted already.
        for message, error in failed:
            self._judge(consumer, message, error)

    def _wait_from_now(self) -> None:
        if self._waiting_since_s is None:
            self._waiting_since_s = self._system.monotonic()

    def _is_due(self) -> bool:
        if self._waiting_since_s is None:
            return False
        return (
            self._writer.buffered_rows >= self._settings.flush_rows
            or self._writer.buffered_bytes >= self._settings.flush_bytes
            or self._system.monotonic() - self._waiting_since_s >= self._settings.flush_s
        )

    def _wait_s(self) -> float:
        if self._waiting_since_s is None or not self._confirmed:
            return _STOP_SEEN_WITHIN_S
        left_s = self._waiting_since_s + self._settings.flush_s - self._system.monotonic()
        return min(max(left_s, 0.0), _STOP_SEEN_WITHIN_S)

    def _flush(self, consumer: Consumer) -> bool:
        """Commit rows and positions to the table, move partitions whose positions changed there, and show the lag.

        Returns False if nothing was written, because the broker did not confirm that the topics are still the same.
        """
        within_s = self._settings.answer_within_s
        if not self._stop.is_set():  # it can retry, and do other work meanwhile
            within_s = min(within_s, _CONFIRM_WITHIN_S)
        topics = {place.topic for place in (*self._next, *self._newcomers)}
        self._confirmed = self._confirm_topics(topics, within_s)
        if not self._confirmed:
            return False
        started_s = self._system.monotonic()
        flushed = self._writer.flush(self._system.time_ms(), closing=self._stop.is_set())
        self._waiting_since_s = None
        self._observer.on_flushed(flushed, self._system.monotonic() - started_s)
        if flushed.rows and self._compactor is not None:
            self._compactor.wrote()
        if flushed.moved:
            _log.warning(
                "audit table: another sink wrote %s; reading on from where it is",
                ", ".join(f"{place} up to {offset}" for place, offset in sorted(flushed.moved.items())),
            )
            self._unplaced |= flushed.moved
            self._leave(consumer, flushed.moved)
        self._show(consumer, flushed.committed)
        return True

    def _confirm_topics(self, topics: Set[str], within_s: float) -> bool:
        """Return whether the broker reported the topics' ids. Raises AnotherLog if one is not the topic that is read.

        Called when partitions are placed and before each commit: a recreated topic may be longer than the one that was
        read, and then its records arrive without any error. The buffered records of a deleted one can still be written.
        """
        try:
            there = self._ids.of(topics, within_s)
        except KafkaException as error:
            self._pass_over(error, "which topics it has")
            return False
        for name, topic in there.items():
            if topic.id is not None:
                self._writer.mark(f"{self._settings.sink}#{name}", topic.id)
        return True

    def _pass_over(self, error: KafkaException, what: str) -> None:
        """Raise a permanent error; others are retried later."""
        if error.args[0].code() not in PASSING:
            raise error
        if not self._broker.is_outage(error.args[0]):
            _log.warning("audit sink: the broker does not say %s, asks again: %s", what, error)

    def _show(self, consumer: Consumer, places: Iterable[Place]) -> None:
        """Commit the positions to the group, to show its lag. A failure loses nothing."""
        offsets = []
        for place in places:
            if (following := self._next.get(place)) is None:
                continue
            offsets.append(TopicPartition(*place, following))
            self._observer.on_position(place, following, self._last_ms.get(place))
        if not offsets:
            return
        try:
            if self._stop.is_set():
                consumer.commit(offsets=offsets, asynchronous=False)
            else:
                consumer.commit(offsets=offsets)
        except KafkaException as error:
            _log.warning("audit sink: offsets of group %s were not committed: %s", self._settings.group, error)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Called within poll, which garbles exceptions: so nothing is done here that can fail.
        # Reading starts only after the main loop has looked up the offsets in the table.
        self._forget({*self._next, *self._unplaced, *self._newcomers})
        self._newcomers = {Place(p.topic, p.partition) for p in partitions}
        consumer.assign([])

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        del consumer
        self._forget({Place(p.topic, p.partition) for p in partitions})
        self._observer.on_assigned(frozenset(self._next))

    def _forget(self, places: Set[Place]) -> None:
        # The buffer is not in the table, so there is nothing to save: the next owner reads it again.
        self._writer.revoke(places)
        self._newcomers -= places
        for place in places:
            self._next.pop(place, None)
            self._unplaced.pop(place, None)

    def _place(self, consumer: Consumer) -> None:
        """Look up the offsets in the table, and read from there. Retried later if the broker is unavailable."""
        if self._newcomers:
            # A partition whose next records are deleted is placed again: what was read before is written first.
            if self._writer.buffered_rows and not self._flush(consumer):
                return
            topics = {place.topic for place in self._newcomers}
            if not self._confirm_topics(topics, self._settings.answer_within_s):
                return
            self._unplaced |= self._writer.assign(self._newcomers)
            self._newcomers = set()
        try:
            ends = {place: self._ends(consumer, place, written) for place, written in self._unplaced.items()}
        except KafkaException as error:
            self._pass_over(error, "where partitions begin and end")
            return
        for place, written in self._unplaced.items():
            self._next[place] = self._start(place, written, *ends[place])
        written_before = [place for place, written in self._unplaced.items() if written is not None]
        self._unplaced = {}
        self._read_on(consumer)
        self._show(consumer, written_before)
        self._observer.on_assigned(frozenset(self._next))
        _log.info("audit sink: reads %d partitions", len(self._next))

    def _leave(self, consumer: Consumer, places: Iterable[Place]) -> None:
        """Stop reading these partitions until their offsets are known."""
        for place in places:
            self._next.pop(place, None)
        self._read_on(consumer)

    def _read_on(self, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(*place, offset) for place, offset in self._next.items()])

    def _start(self, place: Place, written: int | None, first: int, end: int) -> int:
        """Return the offset to read from: `written` is the table's last, the log has `first` to before `end`."""
        if written is None:
            if first > 0:
                _log.info("%s: begins at offset %d; what was before it is not in the audit", place, first)
            return first
        if written >= end:
            raise AnotherLog(
                f"{place}: expected a partition that goes on behind offset {written}, the last one in the audit table; "
                f"got one that ends at {end}: the topic was recreated, or lost records. "
                "Use another sink name to read it from its start"
            )
        if written + 1 < first:
            _log.error(
                "%s: LOST %d records: offsets %d to %d were deleted by the broker before the audit read them",
                place, first - written - 1, written + 1, first - 1,
            )  # fmt: skip
            self._writer.lost(place, written + 1, first - 1)
            self._wait_from_now()
            self._observer.on_lost(place, first - written - 1)
            return first
        return written + 1

    def _ends(self, consumer: Consumer, place: Place, written: int | None) -> tuple[int, int]:
        """Return the first offset of the log and its end offset.

        An end before the table's is requested again: after a restart, a broker's end offsets lag for a moment. The wait
        starts again after a long gap between two answers: the broker or this process was stopped meanwhile.
        """
        deadline_s = answered_s = 0.0
        latest_s = self._system.monotonic() + _AT_MOST_TIMES * self._settings.answer_within_s
        while True:
            first, end = watermarks(consumer, TopicPartition(*place), self._settings.answer_within_s, self._system)
            before_s, answered_s = answered_s, self._system.monotonic()
            if answered_s - before_s > _STOOD_STILL_S:
                deadline_s = answered_s + self._settings.answer_within_s
            if written is None or written < end or answered_s > min(deadline_s, latest_s):
                return first, end
            self._system.sleep(_AGAIN_AFTER_S)

    def _judge(self, consumer: Consumer, message: Message, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError._AUTO_OFFSET_RESET:
            # The broker has deleted the next records, or has a recreated topic.
            place = Place(str(message.topic()), int(message.partition() or 0))
            if place in self._next:
                self._newcomers.add(place)
                self._leave(consumer, [place])
        elif error.fatal() or code not in PASSING:
            raise KafkaException(error)
        else:
            self._complain(error)

    def _complain(self, error: KafkaError) -> None:
        if not self._broker.is_outage(error):
            _log.warning("audit sink: %s", error.str())

    def _meet_cluster(self) -> None:
        settings = self._settings
        self._ids = TopicIds(client_config(settings), system=self._system)
        cluster_id, there = self._ids.cluster(settings.answer_within_s)
        if cluster_id:
            self._writer.mark(f"{settings.sink}#cluster", cluster_id)
        if missing := sorted(set(settings.topics.all) - there):
            _log.warning("audit sink: topics that are not there yet are read as soon as they are: %s", missing)
