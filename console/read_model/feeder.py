"""Updates the read model from the topics: rows and offsets in one transaction."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import OperationalError

from haltline.console.read_model import tables
from haltline.console.read_model.sql import Sql
from haltline.console.read_model.store import clear, put
from haltline.console.read_model.topic_bounds import (
    Mismatch,
    Place,
    advanced,
    gaps_of,
    mismatches,
    put_gaps,
)
from haltline.interventions.outage import Outage
from haltline.schemas.topics import Topics
from haltline.streams.audit.columns import Row
from haltline.streams.audit.reading import TOPICS, KafkaRecord, Reader
from haltline.streams.audit.redacting import SECRETS, Redaction
from haltline.streams.history.fold import take_in
from haltline.streams.kafka.broker_outage import BrokerOutage
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import (
    NoSuchTopic,
    Unreachable,
    bounds,
    open_consumer,
    partitions_of,
)
from haltline.streams.kafka.log_record import LogRecord, record_of
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.topic_ids import TopicIds
from haltline.streams.runtime.topic_watch import TopicRecreated
from haltline.streams.system import REAL, System

log: Final = logging.getLogger("haltline.console")

_BATCH: Final = 500
_WAIT_S: Final = 0.2
_ALONG_S: Final = 0.02
"""Wait for further records, in seconds: all that arrive within it are one transaction. It delays clients that wait
for their own write."""
_COMMIT_EVERY_S: Final = 1.0
_AGAIN_S: Final = 1.0
_LOOK_EVERY_S: Final = 10.0
"""The interval in seconds for checking whether the cluster's topics are still those of the stored offsets."""
_NAME: Final = "console"


class Overtaken(Exception):
    """The database's offsets differ from this reader's: another console was faster, or the topic was recreated."""


class _AssignAgain(Exception):
    """The positions must be determined again: records were deleted or partitions were added."""


class Feeder:
    """A thread that reads every topic into the database, until `close`.

    If a topic was deleted and recreated while the console did not run, the read model is rebuilt: offsets and records
    of the earlier topic would be taken for those of the new one. While it runs, that is a failure, TopicRecreated.

    `on_rows` is called from that thread with the rows that were read, `on_failure` when the thread has ended with the
    stored `failure`. An unreachable broker or database and missing topics are retried. `system` creates its clients,
    its thread and its clocks.
    """

    def __init__(
        self,
        engine: Engine,
        bootstrap: str,
        *,
        topics: Topics,
        group: str,
        client: Mapping[str, ClientSetting] | None = None,
        on_rows: Callable[[Sequence[Row]], None] | None = None,
        on_failure: Callable[[], None] = lambda: None,
        look_every_s: float = _LOOK_EVERY_S,
        system: System = REAL,
    ) -> None:
        self._system = system
        self._look_every_s = look_every_s
        self._looked_s = 0.0
        self._ids: TopicIds | None = None
        self._engine = engine
        self._bootstrap = bootstrap
        self._topics = topics
        self._group = group
        self._client = client or {}
        self._on_rows = on_rows
        self._on_failure = on_failure
        self._has_read = False
        self._reader = reader_of(topics)
        self._broker = BrokerOutage(log, "the read model", system=system)
        self._waits = Outage(log, "the read model", "waits", now_s=system.monotonic)
        self._behind: set[Place] = set()
        self._partitions: dict[str, int] = {}
        self._ahead: Sequence[Mismatch] = ()
        self._gaps: Sequence[Mismatch] = ()
        self._next: dict[Place, int] = {}
        self._spans: dict[Place, tuple[int, int]] = {}
        """By partition: where this reading began, and the end at that time."""
        self._last_ms: dict[Place, int | None] = {}
        self._uncommitted: dict[Place, int] = {}
        self._committed_s = 0.0
        self._moved = system.condition()
        self._ended = system.event()
        self.caught_up = system.event()
        """Set when all records from before its start have been read."""
        self.failure: BaseException | None = None
        self.missing = ""
        """The topic that it waits for, with the reason; empty: none."""
        self._thread = system.thread(target=self._run, name="haltline-feeder", daemon=True)

    def start(self) -> None:
        """Start at the offsets in the database."""
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop after the current batch."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Return whether it is still reading."""
        return self._thread.is_alive()

    def wait_for(self, place: TopicPartition, within_s: float) -> bool:
        """Wait for a record to be read, so that its writer can read it. Returns whether it was read in time."""
        at = (place.topic, place.partition)
        with self._moved:
            return self._moved.wait_for(lambda: self._next.get(at, 0) > place.offset, within_s)

    def positions(self) -> dict[Place, tuple[int, int | None]]:
        """By partition: the next offset to read, and the time of the last record read."""
        with self._moved:
            return {place: (after, self._last_ms.get(place)) for place, after in self._next.items()}

    def progress(self) -> tuple[int, int]:
        """How many of the records from before its start it has read, and how many there are."""
        with self._moved:
            next_of = {self._short(*place): after for place, after in self._next.items()}
        read = [min(next_of.get(place, first), end) - first for place, (first, end) in self._spans.items()]
        return sum(read), sum(end - first for first, end in self._spans.values())

    def committed(self, partition: Partition) -> int | None:
        """The next offset to read of a partition, by its whole topic's name."""
        return self.positions().get(partition, (None, None))[0]

    def recovered(self) -> bool:
        """Return whether it knows where to continue: always, as the database has it."""
        return True

    def mismatches(self) -> list[Mismatch]:
        """The partitions whose offsets do not match what was read. While one ends too early, nothing is read."""
        return [*self._ahead, *self._gaps]

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                try:
                    self._read_or_rebuild()
                except _AssignAgain as changed:
                    log.info("the read model: %s", changed)
                    self._ended.wait(_AGAIN_S)
                except (NoSuchTopic, Unreachable, Overtaken, OperationalError) as away:
                    self.missing = str(away) if isinstance(away, NoSuchTopic) else ""
                    self._waits.away(away)
                    self._ended.wait(_AGAIN_S)
        except BaseException as failure:
            self.failure = failure
            self._on_failure()

    def _read_or_rebuild(self) -> None:
        try:
            self._read()
        except TopicRecreated as recreated:
            if self._has_read:
                raise
            self._rebuild(recreated)

    def _read(self) -> None:
        consumer = open_consumer(
            self._bootstrap,
            self._group,
            client=self._client,
            on_error=self._broker.is_outage,
            offset_reset="error",
            system=self._system,
        )
        try:
            self._assign(consumer)
            self._has_read = True
            while not self._ended.is_set():
                self._look()
                records = self._records(_next(consumer))
                self._broker.look(consumer, self._topics.actions)
                if records:
                    rows = self._take(records)
                    with self._moved:
                        self._next |= {(r.topic, r.partition): r.offset + 1 for r in records}
                        self._last_ms |= {(r.topic, r.partition): r.timestamp_ms for r in records}
                        self._moved.notify_all()
                    if self._on_rows is not None:
                        self._on_rows(rows)
                self._commit(consumer, records)
                if not self._behind:
                    self.caught_up.set()
                if records or not self._behind:
                    self._waits.back()
        finally:
            consumer.close()

    def _look(self) -> None:
        """Raises TopicRecreated if a topic is no longer the one that the stored offsets belong to.

        Raises _AssignAgain if a topic has more partitions than are read.
        """
        now_s = self._system.monotonic()
        if now_s - self._looked_s < self._look_every_s:
            return
        self._looked_s = now_s
        try:
            if self._ids is None:
                self._ids = TopicIds({**self._client, "bootstrap.servers": self._bootstrap}, system=self._system)
            there = self._ids.of(self._topics.all)
        except KafkaException:  # an unreachable broker is logged elsewhere
            return
        prefix = self._topics.prefix
        ids = {name.removeprefix(prefix): topic.id for name, topic in there.items() if topic.id is not None}
        for name, topic in there.items():
            if topic.partitions > (count := self._partitions.get(name, topic.partitions)):
                raise _AssignAgain(f"topic {name} has {topic.partitions} partitions, and had {count}")
        with self._engine.begin() as connection:
            known: dict[str, str] = {row.topic: row.id for row in connection.execute(select(tables.topic_ids))}
            for name, topic_id in ids.items():
                if known.get(name, topic_id) != topic_id:
                    raise TopicRecreated.of_ids(prefix + name, known[name], topic_id)
            put(connection, tables.topic_ids, [{"topic": name, "id": topic_id} for name, topic_id in ids.items()])

    def _rebuild(self, recreated: TopicRecreated) -> None:
        log.warning(
            "%s: the read model is rebuilt from the topics. Records that they no longer hold are in the audit table: "
            "haltline console --rebuild --audit-table",
            recreated,
        )
        clear(self._engine)

    def _assign(self, consumer: Consumer) -> None:
        self._looked_s = 0.0
        self._partitions = {}
        self._look()
        places = [tp for topic in self._topics.all for tp in partitions_of(consumer, topic)]
        next_of = self._fitting(consumer, places)
        self._behind = {(tp.topic, tp.partition) for tp in places}
        self._partitions = dict(Counter(tp.topic for tp in places))
        self.missing = ""
        consumer.assign(
            [
                TopicPartition(
                    tp.topic, tp.partition, next_of.get(self._short(tp.topic, tp.partition), OFFSET_BEGINNING)
                )
                for tp in places
            ]
        )

    def _fitting(self, consumer: Consumer, places: Sequence[TopicPartition]) -> dict[Place, int]:
        """By partition, the offset to continue at. Raises Overtaken if one ends before what was read of it."""
        with self._engine.connect() as connection:
            reached: dict[Place, int] = {
                (topic, partition): after for topic, partition, after in connection.execute(select(tables.offsets))
            }
        held = {self._short(tp.topic, tp.partition): bounds(consumer, tp, system=self._system) for tp in places}
        found = mismatches(reached, held)
        next_of = {place: min(max(reached.get(place, 0), low), end) for place, (low, end) in held.items()}
        self._spans = {place: (next_of[place], end) for place, (_, end) in held.items()}
        self._ahead = [one for one in found if not one.is_gap]
        gaps = [one for one in found if one.is_gap]
        with self._engine.begin() as connection:
            put_gaps(connection, gaps)
            self._gaps = gaps_of(connection)
        for one in gaps:
            log.warning("the read model misses records: %s", one.text(self._topics.prefix))
        if self._ahead:
            raise Overtaken(
                f"{self._ahead[0].text(self._topics.prefix)}. To read the new topic instead: "
                "haltline console --rebuild, without --audit-table, which ends where the old one did"
            )
        return reached | {(one.topic, one.partition): one.begins for one in gaps}

    def _records(self, messages: Sequence[Message]) -> list[KafkaRecord]:
        records = []
        for message in messages:
            error = message.error()
            place = (str(message.topic()), int(message.partition() or 0))
            if error is None:
                records.append(as_read(record_of(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._behind.discard(place)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise _AssignAgain(f"{place[0]}[{place[1]}] has no record any more where it is read: {error.str()}")
            elif error.fatal():
                raise KafkaException(error)
        return records

    def _take(self, records: Sequence[KafkaRecord]) -> list[Row]:
        now_ms = self._system.time_ms()
        rows = [row for row in self._reader.rows(records, now_ms) if row["kind"] != TOPICS]
        for row in rows:
            row["topic"], row["partition"] = self._short(row["topic"], row["partition"])
        with self._engine.begin() as connection:
            take_in(Sql(connection), rows)
            self._advance(connection, records)
        return rows

    def _advance(self, connection: Connection, records: Sequence[KafkaRecord]) -> None:
        """Store the new offsets. Raises Overtaken if a partition is not at this reader's last offset."""
        spans: dict[Place, tuple[int, int]] = {}
        for record in records:
            place = self._short(record.topic, record.partition)
            first, _ = spans.get(place, (record.offset, 0))
            spans[place] = (first, record.offset + 1)
        moves = advanced(connection.dialect.name)
        for (topic, partition), (first, after) in spans.items():
            at = {"topic": topic, "partition": partition, "next": after, "first": first}
            if not connection.execute(moves, at).rowcount:
                raise Overtaken(f"{topic}[{partition}] is already beyond offset {first}")

    def _commit(self, consumer: Consumer, records: Sequence[KafkaRecord]) -> None:
        """Commit the offsets, so that the group's lag is visible; only the database determines where to continue."""
        self._uncommitted |= {(record.topic, record.partition): record.offset + 1 for record in records}
        now_s = self._system.monotonic()
        if self._uncommitted and now_s - self._committed_s >= _COMMIT_EVERY_S:
            offsets = [TopicPartition(*place, offset) for place, offset in self._uncommitted.items()]
            consumer.commit(offsets=offsets, asynchronous=True)
            self._uncommitted, self._committed_s = {}, now_s

    def _short(self, topic: str, partition: int) -> Place:
        return topic.removeprefix(self._topics.prefix), partition


def reader_of(topics: Topics) -> Reader:
    """A reader that converts records to rows without secrets, like the audit: records without a guard may contain some.

    Personal data is kept, which an operator needs for approving a mail.
    """
    return Reader(topics, _NAME, Redaction((SECRETS,)))


def as_read(record: LogRecord) -> KafkaRecord:
    """The record in the form that `reader_of` reads."""
    at_ms = record.timestamp or None
    return KafkaRecord(
        record.topic, record.partition, record.offset, at_ms, record.key, record.value, tuple(record.headers)
    )


def _next(consumer: Consumer) -> list[Message]:
    """The next messages: all that are available as soon as there is one."""
    first = consumer.poll(_WAIT_S)
    return [] if first is None else [first, *consumer.consume(_BATCH - 1, _ALONG_S)]
