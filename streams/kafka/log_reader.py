"""A reader of topics outside of any group: to their current end, then further as records arrive."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Literal

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from haltline.streams.kafka.broker_retry import answered
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_record import LogRecord, record_of
from haltline.streams.system import REAL, System

ANSWER_WITHIN_S: Final = 5.0
"""The time limit of a broker's first answer, in seconds."""

SHORT_WAIT_MS: Final = 20
"""The fetch wait of a short command, which must not block in a long poll; the embedded broker does not end one
early."""

_POLL_S = 0.2
_BATCH: Final = 500
_SILENT_S: Final = 60.0
_ASK_FOR_S: Final = 0.2
_OTHERS_MAY_TAKE_S: Final = 1.0

_REFUSALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
"""Errors of a certificate or password that one side rejects: a retry would fail too."""

# librdkafka's logs of lost connections are suppressed; the caller gets an exception instead.
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())
_log.propagate = False


class Unreachable(ConnectionError):
    """No broker answers at the address."""


class NoSuchTopic(LookupError):
    """The cluster has no topic of this name."""


class Gone(LookupError):
    """The requested records were deleted by the broker before they could be read."""


def open_consumer(
    bootstrap: str,
    group: str = "haltline-reader",
    *,
    client: Mapping[str, ClientSetting] | None = None,
    within_s: float = ANSWER_WITHIN_S,
    fetch_wait_ms: int = SHORT_WAIT_MS,
    on_error: Callable[[KafkaError], object] = lambda _: None,
    offset_reset: Literal["earliest", "error"] = "earliest",
    system: System = REAL,
) -> Consumer:
    """Return a consumer that joins no group and commits nothing, after a broker has answered.

    `client` are librdkafka's settings for encryption and credentials. `fetch_wait_ms` is how long the broker may hold a
    fetch without data. `on_error` is called with the client's errors, by the polling thread. `offset_reset` applies
    when the next records were deleted: reading continues with the first existing one, or the poll returns the error
    `_AUTO_OFFSET_RESET`.

    Raises:
        Unreachable: no broker answers in time.

    """
    refusal = complaint = ""

    def complain(error: KafkaError) -> None:
        nonlocal refusal, complaint
        on_error(error)
        reason = f"{error.name()}: {error.str()}"
        # A rejection of our certificate by the broker arrives as a closed connection.
        if error.code() in _REFUSALS or "SSL routines" in error.str():
            refusal = reason
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:  # which follows the reason
            complaint = reason

    consumer = system.consumer(
        {
            **(client or {}),
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": offset_reset,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": fetch_wait_ms,
            "error_cb": complain,
        },
        logger=_log,
    )
    began = system.monotonic()
    # Of several brokers, one may have a different certificate.
    refused_after_s = 0.0 if "," not in bootstrap else min(_OTHERS_MAY_TAKE_S, within_s)
    waited_s = 0.0
    while True:
        try:
            # Each request is a new one, so the time limit grows for a distant broker.
            consumer.list_topics(timeout=min(max(_ASK_FOR_S, waited_s), within_s - waited_s))
        except KafkaException as failed:
            consumer.poll(0)  # receives librdkafka's errors
            waited_s = system.monotonic() - began
            if waited_s < within_s and not (refusal and waited_s >= refused_after_s):
                continue
            consumer.close()
            got = refusal or complaint or _reason_of(failed)
            raise Unreachable(f"broker {bootstrap}: expected an answer within {within_s:g} s, got {got}") from None
        return consumer


def partitions_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic.

    Raises:
        NoSuchTopic: there is no topic of this name.
        Unreachable: no broker answers in time.

    """
    try:
        found = consumer.list_topics(topic, timeout=ANSWER_WITHIN_S).topics[topic]
    except KafkaException as failed:
        raise Unreachable(f"topic {topic}: expected its partitions, got {_reason_of(failed)}") from None
    if found.error is not None or not found.partitions:
        why = found.error.str() if found.error is not None else "no partitions"
        raise NoSuchTopic(f"topic {topic}: expected one that is there, got {why}")
    return [TopicPartition(topic, partition) for partition in sorted(found.partitions)]


def bounds(consumer: Consumer, partition: TopicPartition, *, system: System = REAL) -> tuple[int, int]:
    """Return the first offset that is kept, and the end offset.

    Raises:
        Unreachable: no broker answers in time.

    """
    try:
        ask = partial(consumer.get_watermark_offsets, partition, timeout=ANSWER_WITHIN_S, cached=False)
        found = answered(ask, within_s=ANSWER_WITHIN_S, system=system)
    except KafkaException as failed:
        raise Unreachable(
            f"topic {partition.topic}, partition {partition.partition}: expected its ends, got {_reason_of(failed)}"
        ) from None
    if found is None:
        raise Unreachable(
            f"topic {partition.topic}, partition {partition.partition}: "
            f"expected its ends within {ANSWER_WITHIN_S:g} s, got no answer"
        )
    return found


def read_partition(
    consumer: Consumer,
    place: TopicPartition,
    begin: int,
    end: int,
    *,
    system: System = REAL,
) -> Iterator[LogRecord]:
    """Yield the records of a partition from offset `begin` to before `end`.

    Assigns the consumer. Raises Unreachable when no record arrives for a minute, and KafkaException.
    """
    if begin >= end:
        return
    consumer.assign([TopicPartition(place.topic, place.partition, begin)])
    last_s = system.monotonic()
    while True:
        first = consumer.poll(_POLL_S)
        messages = () if first is None else (first, *consumer.consume(_BATCH, timeout=0))
        for message in messages:
            error = message.error()
            if error is None:
                record = record_of(message)
                if record.offset < end:
                    yield record
            elif error.code() != KafkaError._PARTITION_EOF and (error.fatal() or not passes(error)):
                raise KafkaException(error)
            if int(message.offset() or 0) + (error is None) >= end:
                return
        now_s = system.monotonic()
        last_s = now_s if messages else last_s
        if now_s - last_s > _SILENT_S:
            raise Unreachable(
                f"topic {place.topic}, partition {place.partition}: expected records within {_SILENT_S:g} s, got none"
            )


class LogReader(AbstractContextManager["LogReader", None]):
    """A reader of every partition of some topics, from the beginning or from now on. Use it in a `with` block.

    `since_ms` skips older records, by their own times; the embedded broker cannot do that, and returns all. With
    `partition`, only that partition of each topic is read.

    Raises Unreachable or NoSuchTopic in the constructor.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[str],
        *,
        from_beginning: bool = True,
        since_ms: int | None = None,
        partition: int | None = None,
        client: Mapping[str, ClientSetting] | None = None,
        fetch_wait_ms: int = SHORT_WAIT_MS,
    ) -> None:
        self._consumer = open_consumer(bootstrap, client=client, fetch_wait_ms=fetch_wait_ms)
        try:
            places = [tp for topic in topics for tp in partitions_of(self._consumer, topic)]
            partitions = [tp for tp in places if partition in (None, tp.partition)]
            ends = {(tp.topic, tp.partition): bounds(self._consumer, tp) for tp in partitions}
            starts = {} if since_ms is None else offsets_since(self._consumer, partitions, since_ms)
            # -1 if all are older.
            starts = {place: offset if offset >= 0 else ends[place][1] for place, offset in starts.items()}
            # Offsets, not "the end": later records are read even if they are written before the first poll.
            self._consumer.assign(
                [
                    TopicPartition(
                        tp.topic,
                        tp.partition,
                        starts.get((tp.topic, tp.partition), OFFSET_BEGINNING)
                        if from_beginning
                        else ends[tp.topic, tp.partition][1],
                    )
                    for tp in partitions
                ]
            )
        except BaseException:
            self._consumer.close()
            raise
        self._behind = {place: end for place, (low, end) in ends.items() if from_beginning and low < end}

    def to_end(self, *, within_s: float = 60.0, each: bool = False) -> Iterator[Message]:
        """Yield the records up to the ends at the time when this reader was made.

        `within_s` is the time limit for all of them; with `each`, for each of them.

        Raises:
            Unreachable: not all of them arrived in time.

        """
        deadline = time.monotonic() + within_s
        while self._behind:
            if (message := self.poll(_POLL_S)) is not None:
                yield message
                if each:
                    deadline = time.monotonic() + within_s
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"topics {sorted({topic for topic, _ in self._behind})}: expected every record up to the end "
                    f"within {within_s:g} s, got not all of {len(self._behind)} partitions"
                )

    def poll(self, timeout_s: float) -> Message | None:
        """Return the next record, or None on a timeout.

        Raises:
            KafkaException: a permanent error of the broker.

        """
        message = self._consumer.poll(timeout_s)
        if message is None:
            return None
        error = message.error()
        place = (str(message.topic()), int(message.partition() or 0))
        if error is None:
            if int(message.offset() or 0) + 1 >= self._behind.get(place, 0):
                self._behind.pop(place, None)
            return message
        if error.code() == KafkaError._PARTITION_EOF:
            self._behind.pop(place, None)  # also if compaction removed the last records
        elif error.fatal() or not passes(error):
            raise KafkaException(error)
        return None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def offsets_since(consumer: Consumer, partitions: list[TopicPartition], since_ms: int) -> dict[tuple[str, int], int]:
    """Return the first offset of each partition that is not older; empty if the broker cannot tell."""
    metadata = consumer.list_topics(timeout=ANSWER_WITHIN_S)
    if metadata.controller_id not in metadata.brokers:  # the embedded one
        return {}
    partitions_since = [TopicPartition(tp.topic, tp.partition, since_ms) for tp in partitions]
    try:
        found = consumer.offsets_for_times(partitions_since, timeout=ANSWER_WITHIN_S)
    except KafkaException as failed:
        raise Unreachable(f"offsets since {since_ms}: expected them, got {_reason_of(failed)}") from None
    return {(tp.topic, tp.partition): tp.offset for tp in found}


def passes(error: KafkaError) -> bool:
    """Return whether librdkafka itself retries: the broker is temporarily away."""
    return error.retriable() or error.code() in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}


def _reason_of(failed: KafkaException) -> str:
    error = failed.args[0]
    return f"{error.name()}: {error.str()}"
