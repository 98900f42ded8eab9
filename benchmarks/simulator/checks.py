"""The checks at the end of a history: the expected content, from the final topics, against the actual content."""

from collections.abc import Callable, Container, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from benchmarks.chaos import verify
from benchmarks.chaos.expected import Place, work_out
from benchmarks.chaos.recreated import same_offsets
from benchmarks.chaos.verify import Difference
from benchmarks.simulator.broker import Broker
from benchmarks.simulator.fleet import open_read_model, settings_of, sink_of
from benchmarks.simulator.log import Log
from benchmarks.simulator.sets import appended, partitions_of, place_of, scope_of, session_of, source_of
from benchmarks.simulator.workload import core
from haltline.console.read_model import tables, topic_bounds
from haltline.console.read_model.feeder import as_read, reader_of
from haltline.console.read_model.projection import take_in
from haltline.schemas.decisions import Decision
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.schemas.wire import decode
from haltline.streams.audit.columns import Row
from haltline.streams.kafka.topic_sets import is_copy
from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.changelog import Claim, Owner

if TYPE_CHECKING:
    from benchmarks.simulator.history import History

_DIGITS = 9


def compare(history: "History") -> list[str]:
    """Return every difference."""
    broker, gone, topics = history.broker, history.gone, history.topics

    def outputs(name_of: Callable[[Topics], str]) -> list[LogRecord]:
        return [record for one in topics.sets for record in records_of(broker, name_of(one))]

    events = source_of(broker, topics, lambda one: one.actions, history.copied, session_of)
    commands = source_of(broker, topics, lambda one: one.commands, history.copied, session_of)
    signals = source_of(broker, topics, lambda one: one.signals, history.copied, scope_of)
    truth = work_out(
        events.records, commands.records, signals.records, topics,
        gone=gone.records, core=core(), partitions=partitions_of(broker, topics),
    )  # fmt: skip
    changelog = records_of(broker, settings_of(topics).changelog)
    truth.states, states = same_offsets(truth.states, verify.last_states(changelog))
    published = [record for one in topics.sets for record in appended(broker, one.actions)]
    whole = {place_of(record): record for record in (*published, *gone.records)}
    letters = outputs(lambda one: one.dead_letter)
    events.move_dead(truth, {verify.place_of_letter(letter) for letter in letters})
    rows = [(place_of_row(row), row["raw"]) for row in rows_of(history)]
    before = [(place_of_row(row), row["raw"]) for row in rows_of(history, history.sink - 1)]
    in_table = {place for place, _ in rows}
    audited = {
        place_of(r): r.value
        for r in kept_or(broker, topics, in_table)
        if not _is_copy(topics, r) or (history.stale and place_of(r) in in_table)
    }
    found = [
        verify.check_states(truth, states),
        verify.check_decisions(truth, outputs(lambda one: one.interventions)),
        verify.check_detections(truth, outputs(lambda one: one.detections)),
        verify.check_signals(truth, outputs(lambda one: one.signals)),
        *(
            verify.check_control(
                truth,
                entries_of(broker, one),
                f"the {'' if one is topics else 'older '}control topic holds the entries in force",
            )
            for one in topics.sets
        ),
        verify.check_dead_letters(truth, whole, letters, name_of=gone.name_of),
        verify.check_audit(rows, audited),
        verify.check_audit(before, dict(before), "the audit table held each record once, of a topic that is no more"),
        _read_model(history, broker, topics),
        _owners(broker, topics),
        _heard(broker, topics),
    ]
    return [f"{check.name}: {difference}" for check in found for difference in check.differences]


def entries_of(broker: Broker, topics: Topics) -> Iterator[LogRecord]:
    """Yield the records of `control`, without those that name a set of topics."""
    return (record for record in records_of(broker, topics.control) if record.key != SETS_KEY)


def _heard(broker: Broker, topics: Topics) -> verify.Check:
    """Check that each decision is on every older set too, for the guards there."""
    decided, *heard = (
        {decode(Decision, record.value).decision_id for record in records_of(broker, one.interventions)}
        for one in reversed(topics.sets)
    )
    missing = sorted(decision for decisions in heard for decision in decided - decisions)
    differences = [Difference(decision, "expected on the older set too, is missing") for decision in missing]
    return verify.Check("guards on older topics hear of each decision", "", tuple(differences))


def records_of(broker: Broker, topic: str) -> Iterator[LogRecord]:
    """Yield the records that a topic holds, each partition in order."""
    for number, log in enumerate(broker.topics[topic].logs):
        for r in log.records:
            yield LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)


def kept_or(broker: Broker, topics: Topics, seen: Container[Place]) -> Iterator[LogRecord]:
    """Yield the records that the topics hold, and compacted ones that had been seen."""
    for topic, number, log in partitions(broker, topics):
        kept = set(log.offsets)
        for r in log.appended:
            if r.offset in kept or (topic, number, r.offset) in seen:
                yield LogRecord(topic, number, r.offset, r.timestamp, r.key, r.value, r.headers)


def _is_copy(topics: Topics, record: LogRecord) -> bool:
    return is_copy(record.topic, record.headers, topics.older_names)


def partitions(broker: Broker, topics: Topics) -> Iterator[tuple[str, int, Log]]:
    """Yield the partitions of all sets, without changelogs."""
    names = {name for one in topics.sets for name in one.all}
    return (place for place in broker.partitions() if place[0] in names)


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
    older = history.topics.older_names
    return [
        (topic, number, record.offset)
        for topic, number, log in partitions(history.broker, history.topics)
        for record in log.records
        if (topic, number, record.offset) not in there and not is_copy(topic, record.headers, older)
    ]


def ends_of(broker: Broker, topics: Topics) -> dict[tuple[str, int], int]:
    """Return the next offset by the read model's name of a partition, without empty ones and those not read."""
    return {
        topic_bounds.place_of(topics, topic, number): log.records[-1].offset + 1
        for topic, number, log in partitions(broker, topics)
        if log.records and topic not in not_read(topics)
    }


def not_read(topics: Topics) -> set[str]:
    """Return the topics that the read model does not read: a later set has all that counts of them."""
    return {name for one in topics.sets[:-1] for name in (one.control, one.policies)}


def unread(history: "History") -> dict[tuple[str, int], int]:
    """Return the ends of partitions that the read model has not read completely. Last records may be compacted away."""
    with history.engine.connect() as connection:
        rows = connection.exec_driver_sql(f'SELECT topic, "partition", next FROM {tables.offsets.name}')
        reached = {(topic, partition): after for topic, partition, after in rows}
    ends = ends_of(history.broker, history.topics)
    return {place: end for place, end in ends.items() if reached.get(place, 0) < end}


def _read_model(history: "History", broker: Broker, topics: Topics) -> verify.Check:
    """Check that each table equals that of a read model that reads all records in one batch."""
    anew, engine = open_read_model("anew"), history.engine
    with engine.connect() as connection:
        there = connection.exec_driver_sql(f'SELECT topic, "partition", "offset" FROM {tables.records.name}')
        full = {topic_bounds.place_of(topics, t, number): (t, number) for t, number, _ in partitions(broker, topics)}
        seen = {(*full[topic, partition], offset) for topic, partition, offset in there}
    copied = (topics.control, topics.policies)
    batch = [
        as_read(r)
        for r in kept_or(broker, topics, seen)
        if (r.topic in copied or not _is_copy(topics, r) or (history.stale and place_of(r) in seen))
        and (r.topic not in not_read(topics) or place_of(r) in seen)
        and (r.topic, r.key) != (topics.control, SETS_KEY)
    ]
    rows = reader_of(topics).rows(batch, 0)
    for row in rows:
        row["topic"], row["partition"] = topic_bounds.place_of(topics, row["topic"], row["partition"])
    with anew.begin() as connection:
        take_in(connection, rows, "")
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


def _owners(broker: Broker, topics: Topics) -> verify.Check:
    """Check that each claim of a partition, and the records that name it, come from one producer."""
    differences = []
    names = {settings_of(one).changelog for one in topics.sets}
    for name, number, log in broker.partitions():
        producer_of: dict[bytes, int] = {}
        for r in log.appended if name in names else ():
            place = LogRecord(name, number, r.offset, r.timestamp, r.key, r.value, r.headers)
            claim, owner = Claim.of(place), Owner.of(place)
            claimed = claim.id if claim is not None else owner.id if owner is not None else None
            if claimed is not None and producer_of.setdefault(claimed, r.producer) != r.producer:
                differences.append(Difference(f"{name}[{number}]", f"two processes wrote as the owner {claimed.hex()}"))
    return verify.Check("no partition had two owners", "", tuple(differences))
