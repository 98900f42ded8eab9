"""Rebuilds the read model from the audit table, which also has records that the topics no longer have."""

import time
from collections.abc import Callable
from itertools import islice
from typing import Final

from sqlalchemy import Engine

from haltline.console.read_model import tables
from haltline.console.read_model.feeder import reader_of
from haltline.console.read_model.projection import take_in
from haltline.console.read_model.store import put
from haltline.console.read_model.topic_bounds import place_of
from haltline.console.settings import ConsoleSettings
from haltline.schemas.topics import SETS_KEY
from haltline.streams.audit.reading import KafkaRecord
from haltline.streams.replay.records import LogRecord
from haltline.streams.replay.table_range import TableRange

_BATCH: Final = 2_000


def of_audit(settings: ConsoleSettings) -> TableRange:
    """All present records of the audit table. Raises QueryFailed: there is no table, or no agents' records in it."""
    return TableRange(settings.audit_table or "", settings.topics, storage_options=settings.audit_options)


def take_from(found: TableRange, engine: Engine, *, on_progress: Callable[[int], object]) -> int:
    """Read all of it into an empty read model; returns the number of records. The feeder continues after them.

    `on_progress` is called with the number so far. Erased records, and those that were lost before the audit read them,
    are skipped. After an interruption, the rest comes from the topics: rebuild it again.
    """
    taken, reader = 0, reader_of(found.topics)
    for span in (span for one in found.topics.sets for topic in one.all for span in found.spans_of(topic)):
        records, place = found.read([span]), place_of(found.topics, span.topic, span.partition)
        while part := list(islice(records, _BATCH)):
            now_ms = time.time_ns() // 1_000_000
            rows = reader.rows((_as_read(record) for record in part if record.key != SETS_KEY), now_ms)
            for row in rows:
                row["topic"], row["partition"] = place
            with engine.begin() as connection:
                take_in(connection, rows, "")
            taken += len(part)
            on_progress(taken)
        with engine.begin() as connection:
            put(connection, tables.offsets, [{"topic": place[0], "partition": place[1], "next": span.end}])
    return taken


def _as_read(record: LogRecord) -> KafkaRecord:
    at_ms = record.timestamp or None
    return KafkaRecord(
        record.topic, record.partition, record.offset, at_ms, record.key, record.value, tuple(record.headers)
    )
