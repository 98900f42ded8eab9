"""The checks at the end of a history: the expected content, from the final topics, against the actual content."""

from collections.abc import Container, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from benchmarks.chaos import verify
from benchmarks.chaos.expected import Place, work_out
from benchmarks.chaos.verify import Difference
from benchmarks.simulator.broker import Broker
from benchmarks.simulator.fleet import CHANGELOG, open_read_model, sink_of
from benchmarks.simulator.log import Log
from benchmarks.simulator.poison import is_poison
from benchmarks.simulator.workload import PARTITIONS, TOPICS, core
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import as_read, reader_of
from haltline.console.read_model.sql import Sql
from haltline.streams.audit.columns import Row
from haltline.streams.history.fold import take_in
from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import Claim, Owner

if TYPE_CHECKING:
    from benchmarks.simulator.history import History

_DIGITS = 9


def compare(history: "History") -> list[str]:
    """Return every difference."""
    broker, gone, topics = history.broker, history.gone, TOPICS
    events, commands, signals = (appended(broker, one) for one in (topics.actions, topics.commands, topics.signals))
    truth = work_out(
        events, commands, signals, topics,
        gone=gone.records, precedes=gone.precedes, core=core(), partitions=PARTITIONS, ends_worker=is_poison,
    )  # fmt: skip
    states = verify.last_states(records_of(broker, CHANGELOG))
    whole = {place_of(record): record for record in (*events, *gone.records)}
    rows = [(place_of_row(row), row["raw"]) for row in rows_of(history)]
    before = [(place_of_row(row), row["raw"]) for row in rows_of(history, history.sink - 1)]
    in_table = {place for place, _ in rows}
    audited = {place_of(record): record.value for record in kept_or(broker, in_table)}
    found = [
        verify.check_states(truth, states),
        verify.check_decisions(truth, records_of(broker, topics.interventions)),
        verify.check_detections(truth, records_of(broker, topics.detections)),
        verify.check_signals(truth, records_of(broker, topics.signals)),
        verify.check_control(truth, records_of(broker, topics.control)),
        verify.check_dead_letters(truth, whole, records_of(broker, topics.dead_letter), name_of=gone.name_of),
        verify.check_audit(rows, audited),
        verify.check_audit(before, dict(before), "the audit table held each record once, of a topic that is no more"),
        _read_model(history, broker),
        _owners(broker),
    ]
    return [f"{check.name}: {difference}" for check in found for difference in check.differences]


def appended(broker: Broker, topic: str) -> list[LogRecord]:
    """Return all records ever appended to a topic, each partition in order."""
    return [
        LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)
        for number, log in enumerate(broker.topics[topic].logs)
        for r in log.appended
    ]


def records_of(broker: Broker, topic: str) -> Iterator[LogRecord]:
    """Yield the records that a topic holds, each partition in order."""
    for number, log in enumerate(broker.topics[topic].logs):
        for r in log.records:
            yield LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)


def kept_or(broker: Broker, seen: Container[Place]) -> Iterator[LogRecord]:
    """Yield the records that the topics hold, and compacted ones that had been seen."""
    for topic, number, log in partitions(broker):
        kept = set(log.offsets)
        for r in log.appended:
            if r.offset in kept or (topic, number, r.offset) in seen:
                yield LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)


def partitions(broker: Broker) -> Iterator[tuple[str, int, Log]]:
    """Yield the partitions of all topics but the changelog."""
    return (place for place in broker.partitions() if place[0] in TOPICS.all)


def place_of(record: LogRecord) -> Place:
    """Return topic, partition and offset of a record."""
    return record.topic, record.partition, record.offset


def rows_of(history: "History", life: int | None = None) -> list[Row]:
    """Return the audit table's rows of the topics' current life, or of another life."""
    name = sink_of(history.sink if life is None else life)
    return [row for row in history.table.rows if row["sink"] == name]


def place_of_row(row: Row) -> Place:
    """Return topic, partition and offset of a row."""
    return row["topic"], row["partition"], row["offset"]


def missing_rows(history: "History") -> list[Place]:
    """Return the records that are not in the audit table."""
    there = {place_of_row(row) for row in rows_of(history)}
    return [
        (topic, number, record.offset)
        for topic, number, log in partitions(history.broker)
        for record in log.records
        if (topic, number, record.offset) not in there
    ]


def ends_of(broker: Broker) -> dict[tuple[str, int], int]:
    """Return the next offset by the read model's name of a partition, without empty ones."""
    return {
        (topic.removeprefix(TOPICS.prefix), number): log.records[-1].offset + 1
        for topic, number, log in partitions(broker)
        if log.records
    }


def unread(history: "History") -> dict[tuple[str, int], int]:
    """Return the ends of partitions that the read model has not read completely. Last records may be compacted away."""
    with history.engine.connect() as connection:
        rows = connection.exec_driver_sql(f'SELECT topic, "partition", next FROM {tables.offsets.name}')
        reached = {(topic, partition): after for topic, partition, after in rows}
    ends = ends_of(history.broker)
    return {place: end for place, end in ends.items() if reached.get(place, 0) < end}


def _read_model(history: "History", broker: Broker) -> verify.Check:
    """Check that each table equals that of a read model that reads all records in one batch."""
    anew, engine = open_read_model("anew"), history.engine
    with engine.connect() as connection:
        there = connection.exec_driver_sql(f'SELECT topic, "partition", "offset" FROM {tables.records.name}')
        seen = {(TOPICS.prefix + topic, partition, offset) for topic, partition, offset in there}
    rows = reader_of(TOPICS).rows(map(as_read, kept_or(broker, seen)), 0)
    for row in rows:
        row["topic"] = row["topic"].removeprefix(TOPICS.prefix)
    with anew.begin() as connection:
        take_in(Sql(connection), rows)
    expected, actual = _content(anew), _content(engine)
    anew.dispose()
    if expected != actual:
        expected, actual = _round(expected), _round(actual)
    differences = []
    for table in expected:
        missing, more = expected[table] - actual[table], actual[table] - expected[table]
        differences += [Difference(table, f"expected, got none: {row!r:.300}") for row in sorted(missing, key=repr)]
        differences += [Difference(table, f"not expected: {row!r:.300}") for row in sorted(more, key=repr)]
    return verify.Check("the read model is that of the topics", "", tuple(differences))


def _content(engine: Engine) -> dict[str, set[tuple[Any, ...]]]:
    """Return the rows of each table, read by the driver: that is faster than by SQLAlchemy."""
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        return {name: set(driver.execute(sql)) for name, sql in _selects().items()}


def _round(content: dict[str, set[tuple[Any, ...]]]) -> dict[str, set[tuple[Any, ...]]]:
    return {name: {tuple(map(_rounded, row)) for row in rows} for name, rows in content.items()}


@cache
def _selects() -> dict[str, str]:
    """Return the SELECT of each table, without columns that number the rows."""
    found = {}
    for table in tables.metadata.sorted_tables:
        if table.name not in ("topic_ids", "offsets"):
            columns = ", ".join(f'"{column.name}"' for column in table.c if column.name != "n")
            found[table.name] = f'SELECT {columns} FROM "{table.name}"'
    return found


def _rounded(value: Any) -> Any:
    return round(value, _DIGITS) if isinstance(value, float) else value


def _owners(broker: Broker) -> verify.Check:
    """Check that each claim of a partition, and the records that name it, come from one producer."""
    differences = []
    for name, number, log in broker.partitions():
        producer_of: dict[bytes, int] = {}
        for r in log.appended if name == CHANGELOG else ():
            place = LogRecord(name, number, r.offset, r.timestamp, r.key, r.value, r.headers)
            claim, owner = Claim.of(place), Owner.of(place)
            claimed = claim.id if claim is not None else owner.id if owner is not None else None
            if claimed is not None and producer_of.setdefault(claimed, r.producer) != r.producer:
                differences.append(Difference(f"{name}[{number}]", f"two processes wrote as the owner {claimed.hex()}"))
    return verify.Check("no partition had two owners", "", tuple(differences))
