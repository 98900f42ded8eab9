"""Copying of recorded records to another topic, for a downstream consumer: unchanged, with headers for their origin.

Delivery is at least once: after a crash, records after the last saved state are written again, with the same headers,
by which a consumer can detect them.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import Unreachable, open_consumer, partitions_of
from haltline.streams.replay.record_filter import Filter
from haltline.streams.replay.records import LogRecord, Span

HEADER_ID: Final = "haltline-replay-id"
HEADER_SOURCE: Final = "haltline-replay-source"
"""Topic and partition, as `haltline.actions[3]`."""
HEADER_OFFSET: Final = "haltline-replay-offset"

SAVE_EVERY: Final = 1_000
_HEADERS: Final = frozenset({HEADER_ID, HEADER_SOURCE, HEADER_OFFSET})
_FLUSH_S: Final = 30.0

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())
_log.propagate = False


class NotThere(ValueError):
    """A topic is not allowed as a target, or a saved state is from a different replay."""


@dataclass
class Progress:
    """The progress of a replay, which is saved in the file of `--resume`."""

    id: str
    source: str
    target: str
    spans: list[Span]
    next: dict[str, int] = field(default_factory=dict)
    """The first offset not read yet, by `topic[partition]`."""
    written: int = 0
    choice: str = ""
    """A description of the written records; a resumed replay must have the same."""

    def left(self) -> list[Span]:
        """Return the parts that are still to be read."""
        return [Span(s.topic, s.partition, max(s.start, self.next.get(_place(s), 0)), s.end) for s in self.spans]

    def save(self, file: Path) -> None:
        """Save it atomically."""
        fields = {**vars(self), "spans": [asdict(span) for span in self.spans]}
        beside = file.with_name(f"{file.name}.new")
        beside.write_bytes(orjson.dumps(fields, option=orjson.OPT_INDENT_2))
        beside.replace(file)

    @classmethod
    def load(cls, file: Path) -> "Progress":
        """Load it. Raises NotThere, OSError."""
        try:
            fields = orjson.loads(file.read_bytes())
            return cls(**{**fields, "spans": [Span(**span) for span in fields["spans"]]})
        except (ValueError, TypeError, KeyError) as error:
            raise NotThere(f"{file}: expected the state of a replay, got {error!r}") from None


class Pace:
    """Paces the records: in their original timing divided by `speed`, or so many per second."""

    def __init__(
        self,
        speed: float | None = None,
        rate: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._speed, self._rate = speed, rate
        self._clock, self._sleep = clock, sleep
        self._begun: tuple[float, int] | None = None
        self._count = 0

    def wait(self, timestamp: int) -> None:
        """Wait until the record with this time (epoch milliseconds) is due."""
        if self._speed is None and self._rate is None:
            return
        if self._begun is None:
            self._begun = (self._clock(), timestamp)
        begun_s, first_ms = self._begun
        due_s = begun_s
        if self._speed is not None:
            due_s += max(0, timestamp - first_ms) / 1000 / self._speed
        if self._rate is not None:
            due_s = max(due_s, begun_s + self._count / self._rate)
        self._count += 1
        if (left_s := due_s - self._clock()) > 0:
            self._sleep(left_s)


@dataclass(slots=True)
class Counted:
    """The records that a dry run would write."""

    records: int = 0
    by_partition: Counter[str] = field(default_factory=Counter)
    first_ms: int | None = None
    last_ms: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        times = {"first_ms": self.first_ms, "last_ms": self.last_ms}
        return {"records": self.records, "by_partition": dict(sorted(self.by_partition.items())), **times}


def count(records: Iterable[LogRecord], choice: Filter, step: Callable[[], object] = lambda: None) -> Counted:
    """Return what would be written."""
    found = Counted()
    for record in records:
        step()
        if choice(record):
            found.records += 1
            found.by_partition[f"{record.topic}[{record.partition}]"] += 1
            found.first_ms = record.timestamp if found.first_ms is None else min(found.first_ms, record.timestamp)
            found.last_ms = max(found.last_ms or 0, record.timestamp)
    return found


def require_target(
    bootstrap: str,
    target: str,
    spans: Sequence[Span],
    topics: Topics,
    client: Mapping[str, ClientSetting] | None = None,
) -> None:
    """Check that a replay may be written to a topic.

    Raises:
        NotThere: it is the source, one of haltline's own topics, or has too few partitions to keep those of the source.
        NoSuchTopic, Unreachable: it does not exist, or no broker answers.

    """
    if target in {span.topic for span in spans} or target in topics.all:
        raise NotThere(f"--onto {target}: expected another topic than haltline's own: workers would decide on it again")
    with closing(open_consumer(bootstrap, client=client)) as consumer:
        there = len(partitions_of(consumer, target))
        partitions_of(consumer, topics.commands)  # which receives the record of it, for the audit
    needed = max((span.partition for span in spans), default=0) + 1
    if there < needed:
        raise NotThere(f"--onto {target}: expected at least {needed} partitions, so that each is kept, got {there}")


def copy(
    records: Iterable[LogRecord],
    progress: Progress,
    choice: Filter,
    *,
    bootstrap: str,
    pace: Pace,
    state: Path | None = None,
    client: Mapping[str, ClientSetting] | None = None,
    step: Callable[[], object] = lambda: None,
) -> Progress:
    """Write the chosen records, from `progress` on, which is saved to `state` regularly.

    Raises:
        Unreachable: the broker does not confirm a record; the state is that of the last confirmed one.
        KafkaException: it refuses a record.

    """
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({**(client or {}), "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5}, logger=_log)
    ahead = dict(progress.next)
    written = 0

    def confirm() -> None:
        nonlocal written
        if producer.flush(_FLUSH_S) or failures:
            if failures:
                raise KafkaException(failures[0])
            raise Unreachable(
                f"topic {progress.target}: expected records confirmed within {_FLUSH_S:g} s, got no answer"
            )
        progress.next, progress.written, written = dict(ahead), progress.written + written, 0
        if state is not None:
            progress.save(state)

    try:
        for number, record in enumerate(records, start=1):
            step()
            if choice(record):
                pace.wait(record.timestamp)
                _write(producer, progress, record, delivered)
                written += 1
            ahead[f"{record.topic}[{record.partition}]"] = record.offset + 1
            if number % SAVE_EVERY == 0:
                confirm()
        confirm()
    except KeyboardInterrupt:
        confirm()
        raise
    return progress


def _write(producer: Producer, progress: Progress, record: LogRecord, delivered: Any) -> None:
    source = f"{record.topic}[{record.partition}]"
    added = {HEADER_ID: progress.id, HEADER_SOURCE: source, HEADER_OFFSET: str(record.offset)}
    headers: list[tuple[str, str | bytes | None]] = [
        (name, text) for name, text in record.headers if name not in _HEADERS
    ]
    headers += [(name, text.encode()) for name, text in added.items()]
    while True:
        try:
            producer.produce(
                progress.target,
                record.value,
                record.key,
                partition=record.partition,
                timestamp=record.timestamp,
                headers=headers,
                on_delivery=delivered,
            )
        except BufferError:  # the local queue is full: wait until it has room
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _place(span: Span) -> str:
    return f"{span.topic}[{span.partition}]"
