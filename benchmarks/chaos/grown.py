"""Topics that were grown during a run: what was copied to the new set, and in which order it was processed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from benchmarks.chaos.expected import Place
from benchmarks.chaos.verify import MISSING, UNEXPECTED, Check, Difference
from haltline.schemas.control import control_key
from haltline.schemas.signals import Signal
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.topic_sets import COPY, ORIGIN, origin_of
from haltline.streams.replay.records import LogRecord

TO: Final = 7
"""The new number of partitions."""


@dataclass(frozen=True)
class Grown:
    """What there was when the command had ended, before the workers were started."""

    begins: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By topic and partition of the older set: the offset up to which the workers had committed."""
    states: Mapping[Runs, Mapping[str, Any]] = field(default_factory=dict)
    """By group: the copied states by name."""


def original_of(record: LogRecord, topics: Topics) -> Place | None:
    """Return the place of a copied record's original; None for other records."""
    origin = origin_of(record.headers, topics.older_names)
    return None if origin is None else (origin.topic, origin.partition, origin.offset)


def signals_in_order(records: Iterable[LogRecord], topics: Topics, states: Mapping[str, Any]) -> list[LogRecord]:
    """Return the signals in the order in which a group has processed them, each once, at its original's place.

    The signals of the older set that the copied states include are the first, then those of the new set in their order.
    What is on the older set only is the last: there is none unless it was lost. `records` are those of both sets.
    """
    older, newer = list[LogRecord](), list[LogRecord]()
    for record in records:
        (newer if record.topic == topics.signals else older).append(record)
    ordered: dict[Place, LogRecord] = {}
    for record in older:
        signal = decode(Signal, record.value)
        offsets = states.get(control_key(signal.scope, signal.id), {}).get("offsets", {})
        if record.offset <= offsets.get(record.topic, -1):
            ordered[_place(record)] = record
    for record in newer:
        topic, partition, offset = place = original_of(record, topics) or _place(record)
        ordered.setdefault(place, record._replace(topic=topic, partition=partition, offset=offset))
    for record in older:
        ordered.setdefault(_place(record), record)
    return list(ordered.values())


def check_copies(log: Mapping[Place, LogRecord], topics: Topics, grown: Grown) -> Check:
    """Check that each record behind the begin is on the new set, unchanged; a redelivery may repeat it."""
    differences, copies = [], 0
    copied = set[Place]()
    for record in log.values():
        if record.topic not in topics.session_sources or (place := original_of(record, topics)) is None:
            continue
        copies += 1
        copied.add(place)
        if _content(record) != _content(log[place]):
            differences.append(Difference(_named(place), "expected a copy of it, got other content", place=place))
    expected = {
        place
        for place, record in log.items()
        if record.offset >= grown.begins.get((record.topic, record.partition), record.offset + 1)
    }
    differences += [
        Difference(_named(place), "expected a copy of it on the new set, got none", MISSING, place)
        for place in sorted(expected - copied)
    ]
    return Check(
        "every record of the older set is copied",
        f"{len(copied):,}, {copies - len(copied):,} repeated",
        tuple(differences),
    )


def check_heard(log: Mapping[Place, LogRecord], topics: Topics) -> Check:
    """Check that the guards on the older set are sent the decisions of the new one, without those in shadow."""
    here, there = dict[str, bytes | None](), dict[str, bytes | None]()
    for record in log.values():
        if record.topic == topics.interventions:
            if not _is_shadow(record):
                here[_id(record)] = record.value
        elif any(record.topic == one.interventions for one in topics.sets) and _is_sent_too(record):
            there[_id(record)] = record.value
    differences = [
        *(
            Difference(name, "expected a copy on the older set, got none", MISSING)
            for name in here.keys() - there.keys()
        ),
        *(Difference(name, "got a copy of no decision", UNEXPECTED) for name in there.keys() - here.keys()),
        *(
            Difference(name, "expected a copy, got other content")
            for name in here.keys() & there.keys()
            if here[name] != there[name]
        ),
    ]
    return Check("every decision is on the older set too", f"{len(here):,}", tuple(differences))


def _is_sent_too(record: LogRecord) -> bool:
    return any(name == COPY for name, _ in record.headers)


def _is_shadow(record: LogRecord) -> bool:
    return bool(orjson.loads(record.value or b"{}").get("mode") == "shadow")


def _id(record: LogRecord) -> str:
    return str(orjson.loads(record.value or b"{}").get("decision_id"))


def _content(record: LogRecord) -> tuple[object, ...]:
    return record.key, record.value, record.timestamp, [header for header in record.headers if header[0] != ORIGIN]


def _place(record: LogRecord) -> Place:
    return record.topic, record.partition, record.offset


def _named(place: Place) -> str:
    return "{}-{} offset {}".format(*place)
