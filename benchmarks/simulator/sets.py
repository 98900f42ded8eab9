"""The records of the sources over all sets of topics, in the order in which they count for the workers.

Where topics were grown, records of the older set that the copied states include come first. All others count where
their first copy is in the newer set. Each keeps the place that states and evidence name: that of the original.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.chaos.expected import Place, Truth
from benchmarks.simulator.broker import Broker
from haltline.schemas.control import control_key
from haltline.schemas.signals import Signal
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode
from haltline.streams.kafka.topic_sets import origin_of
from haltline.streams.replay.records import LogRecord


def appended(broker: Broker, topic: str) -> list[LogRecord]:
    """Return all records ever appended to a topic, each partition in order."""
    return [
        LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)
        for number, log in enumerate(broker.topics[topic].logs)
        for r in log.appended
    ]


@dataclass
class Source:
    """One source over all sets of topics."""

    records: list[LogRecord] = field(default_factory=list)
    """In the order in which they count, each once."""
    copies: dict[Place, list[Place]] = field(default_factory=dict)
    """The places of its copies, by the place of an original."""
    first: set[Place] = field(default_factory=set)
    """The originals that count where they are."""

    def move_dead(self, truth: Truth, letters: set[Place]) -> None:
        """Have a dead letter expected of each copy of a bad record.

        Of its original too, if that counted there; if not, it may be among `letters`, from a worker that was killed.
        """
        for place in [place for place in truth.dead if place in self.copies]:
            truth.dead |= dict.fromkeys(self.copies[place], truth.dead[place])
            if place not in self.first and place not in letters:
                del truth.dead[place]


def source_of(
    broker: Broker,
    topics: Topics,
    name_of: Callable[[Topics], str],
    copied: Mapping[str, Any],
    subject: Callable[[LogRecord], str],
) -> Source:
    """Return a source. `copied` are the states that were copied into the present set, by session or scope.

    `subject` returns the session or scope of a record.
    """
    present = appended(broker, name_of(topics))
    if not topics.older:
        return Source(present)
    found = Source()
    origins = [origin_of(record.headers, topics.older_names) for record in present]
    for record, origin in zip(present, origins, strict=True):
        if origin is not None:
            found.copies.setdefault(origin, []).append(place_of(record))
    for one in topics.sets[:-1]:
        for record in appended(broker, name_of(one)):
            included = copied.get(subject(record), {}).get("offsets", {}).get(record.topic, -1)
            if record.offset <= included or place_of(record) not in found.copies:
                found.records.append(record)
                found.first.add(place_of(record))
    seen = set(found.first)
    for record, origin in zip(present, origins, strict=True):
        if origin is None:
            found.records.append(record)
        elif origin not in seen:
            seen.add(origin)
            found.records.append(record._replace(**origin._asdict()))
    return found


def place_of(record: LogRecord) -> Place:
    """Return topic, partition and offset of a record."""
    return record.topic, record.partition, record.offset


def session_of(record: LogRecord) -> str:
    """Return the session of an event or a command."""
    return (record.key or b"").decode()


def scope_of(record: LogRecord) -> str:
    """Return the scope of a signal."""
    signal = decode(Signal, record.value)
    return control_key(signal.scope, signal.id)


def partitions_of(broker: Broker, topics: Topics) -> dict[str, int]:
    """Return the number of partitions of each set, by its topic of actions."""
    return {one.actions: len(broker.topics[one.actions].logs) for one in topics.sets}
