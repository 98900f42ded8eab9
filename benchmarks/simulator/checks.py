"""The checks at the end of a history: the expected content, from the final topics, against the actual content."""

from collections.abc import Container, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from benchmarks.chaos import verify
from benchmarks.chaos.expected import Place, work_out
from benchmarks.chaos.recreated import same_offsets
from benchmarks.chaos.verify import Difference
from benchmarks.simulator.broker import Broker
from benchmarks.simulator.fleet import CHANGELOG, open_read_model, sink_of
from benchmarks.simulator.workload import PARTITIONS, TOPICS, core
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import reader_of
from haltline.console.read_model.projection import take_in
from haltline.streams.audit.columns import Row
from haltline.streams.audit.reading import KafkaRecord
from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import Claim, Owner

if TYPE_CHECKING:
    from benchmarks.simulator.history import History

_DIGITS = 9


def compare(history: "History") -> list[str]:
    """Return every difference."""
    broker, gone = history.broker, history.gone
    sources = {topic: appended(broker, topic) for topic in TOPICS.session_sources}
    outputs = {topic: list(records_of(broker, topic)) for topic in (*TOPICS.all, CHANGELOG)}
    truth = work_out(
        sources[TOPICS.actions], sources[TOPICS.commands], sources[TOPICS.signals], TOPICS,
        gone=gone.records, core=core(), partitions=PARTITIONS,
    )  # fmt: skip
    truth.states, states = same_offsets(truth.states, verify.last_states(outputs[CHANGELOG]))
    whole = {(r.topic, r.partition, r.offset): r for r in (*sources[TOPICS.actions], *gone.records)}
    rows = [(place_of(row), row["raw"]) for row in rows_of(history)]
    older = [(place_of(row), row["raw"]) for row in rows_of(history, history.sink - 1)]
    in_table = {place for place, _ in rows}
    audited = {(r.topic, r.partition, r.offset): r.value for r in kept_or(broker, in_table)}
    found = [
        verify.check_states(truth, states),
        verify.check_decisions(truth, outputs[TOPICS.interventions]),
        verify.check_detections(truth, outputs[TOPICS.detections]),
        verify.check_signals(truth, outputs[TOPICS.signals]),
        verify.check_control(truth, outputs[TOPICS.control]),
        verify.check_dead_letters(truth, whole, outputs[TOPICS.dead_letter], name_of=gone.name_of),
        verify.check_audit(rows, audited),
        verify.check_audit(older, dict(older), "the audit table held each record once, of a topic that is no more"),
        _read_model(history.engine, broker),
        _owners(broker),
    ]
    return [f"{check.name}: {difference}" for check in found for difference in check.differences]


def records_of(broker: Broker, topic: str) -> Iterator[LogRecord]:
    """Yield the records that a topic holds, each partition in order."""
    for number, log in enumerate(broker.topics[topic].logs):
        for r in log.records:
            yield LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)


def kept_or(broker: Broker, seen: Container[Place]) -> Iterator[LogRecord]:
    """Yield the records that the topics hold, and compacted ones that had been seen."""
    for topic, number, log in broker.partitions():
        if topic != CHANGELOG:
            kept = set(log.offsets)
            for r in log.appended:
                if r.offset in kept or (topic, number, r.offset) in seen:
                    yield LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)


def appended(broker: Broker, topic: str) -> list[LogRecord]:
    """Return all records ever appended to a topic, each partition in order."""
    return [
        LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)
        for number, log in enumerate(broker.topics[topic].logs)
        for r in log.appended
    ]


def rows_of(history: "History", life: int | None = None) -> list[Row]:
    """Return the audit table's rows of the topics' current life, or of another life."""
    name = sink_of(history.sink if life is None else life)
    return [row for row in history.table.rows if row["sink"] == name]


def place_of(row: Row) -> Place:
    """Return topic, partition and offset of a row."""
    return row["topic"], row["partition"], row["offset"]


def missing_rows(history: "History") -> list[Place]:
    """Return the records that are not in the audit table."""
    there = {place_of(row) for row in rows_of(history)}
    return [
        (topic, number, offset)
        for topic, number, log in history.broker.partitions()
        if topic != CHANGELOG
        for offset in log.offsets
        if (topic, number, offset) not in there
    ]


def ends_of(broker: Broker) -> dict[tuple[str, int], int]:
    """Return the next offset by topic (without prefix) and partition, without empty partitions."""
    return {
        (topic.removeprefix(TOPICS.prefix), number): log.records[-1].offset + 1
        for topic, number, log in broker.partitions()
        if topic != CHANGELOG and log.records
    }


def unread(engine: Engine, broker: Broker) -> dict[tuple[str, int], int]:
    """Return the ends of partitions that the read model has not read completely. Last records may be compacted away."""
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f'SELECT topic, "partition", next FROM {tables.offsets.name}')
        reached = {(topic, partition): after for topic, partition, after in rows}
    return {place: end for place, end in ends_of(broker).items() if reached.get(place, 0) < end}


def _read_model(engine: Engine, broker: Broker) -> verify.Check:
    """Check that each table equals that of a read model that reads all records in one batch."""
    anew = open_read_model("anew")
    with engine.connect() as connection:
        there = connection.exec_driver_sql(f'SELECT topic, "partition", "offset" FROM {tables.records.name}')
        seen = {(TOPICS.prefix + topic, partition, offset) for topic, partition, offset in there}
    batch = [
        KafkaRecord(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
        for r in kept_or(broker, seen)
    ]
    with anew.begin() as connection:
        take_in(connection, reader_of(TOPICS).rows(batch, 0), TOPICS.prefix)
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
    for number, log in enumerate(broker.topics[CHANGELOG].logs):
        producer_of: dict[bytes, int] = {}
        for record in log.appended:
            place = LogRecord(
                CHANGELOG, number, record.offset, record.timestamp, record.key, record.value, record.headers
            )
            claim, owner = Claim.of(place), Owner.of(place)
            claimed = claim.id if claim is not None else owner.id if owner is not None else None
            if claimed is not None and producer_of.setdefault(claimed, record.producer) != record.producer:
                differences.append(
                    Difference(f"partition {number}", f"two processes wrote as the owner {claimed.hex()}")
                )
    return verify.Check("no partition had two owners", "", tuple(differences))
