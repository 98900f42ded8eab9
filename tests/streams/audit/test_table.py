"""What holds for each table that we ship, and its writers: each record once, over restarts and releases."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from arro3.core import Array, DataType, Field, Schema, Table
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake

from benchmarks.simulator.memory_table import MemoryAuditTable, Step
from haltline.schemas.keys import make_keys
from haltline.streams.audit.columns import SCHEMA, Row
from haltline.streams.audit.maintenance import Caretaker
from haltline.streams.audit.query import open_query
from haltline.streams.audit.table import AuditTable, TableConflict
from haltline.streams.audit.writer import AnotherLog, AuditWriter, Place
from tests.builders import cases
from tests.streams.audit.records import NOW_MS, TOPICS, event, record
from tests.streams.audit.tables import CONTROL, FIRST, READER, VALUE, Audit, add, proof_of, writer

Positions = Callable[[AuditTable], list[tuple[str, int, int]]]


def row(offset: int, topic: str = TOPICS.actions) -> dict[str, object]:
    return READER.row(record(topic, VALUE, offset), NOW_MS)


@pytest.mark.parametrize("first", [False, True], ids=["a later version", "the first one"])
def test_a_version_that_another_has_committed_since_is_refused_with_its_rows_and_those_of_others_do_not_matter(
    table: AuditTable, positions: Positions, first: bool
) -> None:
    if not first:
        table.open().append([row(0)], {"a": 0})
    ours, theirs, others = table.open(), table.open(), table.open()
    theirs.append([row(1)], {"a": 1})
    with pytest.raises(TableConflict):
        ours.append([row(1), row(2)], {"a": 2, "b": 0})
    others.append([row(0, TOPICS.control)], {"c": 0})
    there = [(TOPICS.actions, 0, offset) for offset in ([1] if first else [0, 1])]
    assert positions(table) == [*there, (TOPICS.control, 0, 0)]
    assert (table.open().version("a"), table.open().version("b")) == (1, None)


def test_rows_and_versions_are_there_together_or_not_at_all(table: AuditTable, positions: Positions) -> None:
    def rows() -> Iterator[Row]:
        yield from (row(number) for number in range(5000))  # more than are taken at a time
        raise ZeroDivisionError("of a row")

    with pytest.raises(ZeroDivisionError, match="of a row"):
        table.open().append(rows(), {"a": 1})
    assert positions(table) == []
    assert table.open().version("a") is None
    before = table.open()
    assert (before.version("a"), positions(table)) == (None, [])
    table.open().append([row(0), row(1)], {"a": 1, "b": 7})
    assert (before.version("a"), before.chain_ends("audit", {(TOPICS.actions, 0): 0})) == (None, {})
    opened = table.open()
    assert (opened.version("a"), opened.version("b"), opened.version("c")) == (1, 7, None)
    assert positions(table) == [(TOPICS.actions, 0, 0), (TOPICS.actions, 0, 1)]


CHAIN = ("prev_offset", "record_digest", "chain_hash")
NEWER = "of_a_later_release"


def write(folder: Path, first: int, count: int, error: str | None = None) -> int | None:
    """Goes on in a table, behind what it holds; that is what is returned."""
    sink = writer(folder, redact=True)
    (behind,) = sink.assign([FIRST]).values()
    for offset in range(first, first + count):
        value = event(event_id=f"e{offset}", session_id=f"s{offset % 2}", error=error).to_json()
        assert add(sink, FIRST, offset, value=value) == [True]
    sink.flush(NOW_MS)
    return behind


def of_an_older_release(folder: Path, tmp_path: Path, without: Sequence[str]) -> None:
    """A table with ten records as a release wrote it that did not know these columns."""
    write(tmp_path / "now", 0, 10)
    known = ", ".join(f'"{name}"' for name in SCHEMA.names if name not in without)
    query = QueryBuilder().register("audit", DeltaTable(str(tmp_path / "now")))
    then = Table.from_batches(list(query.execute(f"SELECT {known} FROM audit")))
    written = [Transaction(f"audit-{TOPICS.actions}-0", 9)]
    write_deltalake(
        str(folder), then, partition_by=["event_date"], commit_properties=CommitProperties(app_transactions=written)
    )


@cases(
    "without, proved",
    {
        "before the redaction": (("redacted",), True),
        "long before": (("redacted", *CHAIN, "mission_id", "flag", "time_to_stop_ms"), False),
    },
)
def test_a_table_of_an_older_release_is_asked_and_gone_on_with_and_proved_where_it_is_chained(
    tmp_path: Path, without: Sequence[str], *, proved: bool
) -> None:
    table = tmp_path / "then"
    of_an_older_release(table, tmp_path, without)
    count = "SELECT count(*) AS n, count(event_id) AS ids FROM audit"
    assert open_query(table).rows(count) == [{"n": 10, "ids": 10}]
    assert write(table, 10, 5, error="mail to ada@example.org") == 9
    assert open_query(table).rows(count) == [{"n": 15, "ids": 15}]
    assert set(SCHEMA.names) <= {field.name for field in DeltaTable(str(table)).schema().fields}
    redacted = open_query(table).rows("SELECT redacted, count(*) AS n FROM audit GROUP BY 1 ORDER BY 2")
    assert redacted == [{"redacted": "email", "n": 5}, {"redacted": None, "n": 10}]
    found = proof_of(table)
    assert (found.ok, found.rows) == (proved, 15)
    assert proved or [(p.offset, p.what) for p in found.problems] == [(0, "a row without a hash: nothing proves it")]


def test_a_table_of_a_later_release_keeps_its_columns_and_is_proved(tmp_path: Path) -> None:
    write(tmp_path, 0, 10)
    schema = Schema([Field(NEWER, DataType.string(), nullable=True)])
    row = Table.from_arrays([Array(["x"], type=DataType.string())], schema=schema)
    write_deltalake(str(tmp_path), row, mode="append", schema_mode="merge")
    DeltaTable(str(tmp_path)).delete(f"{NEWER} = 'x'")
    DeltaTable(str(tmp_path)).update(updates={NEWER: "event_id"}, predicate='"offset" < 4')
    assert write(tmp_path, 10, 5) == 9
    kept = f'SELECT "offset", {NEWER} FROM audit WHERE {NEWER} IS NOT NULL ORDER BY 1'
    assert open_query(tmp_path).rows(kept) == [{"offset": n, NEWER: f"e{n}"} for n in range(4)]
    found = proof_of(tmp_path)
    assert (found.problems, found.rows) == ([], 15)
    assert Caretaker(tmp_path, by="ada", reason="request 12").erase(session_id="s0") == 8
    assert open_query(tmp_path).rows(kept) == [{"offset": n, NEWER: f"e{n}"} for n in (1, 3)]  # of the other session
    found = proof_of(tmp_path)
    assert (found.problems, found.erased) == ([], 8)


def at(place: Place, *offsets: int) -> list[tuple[str, int, int]]:
    return [(*place, offset) for offset in offsets]


def marked(table: AuditTable, number: int, **more: bool) -> AuditWriter:
    return writer(table, marks={"audit#cluster": number}, **more)


def test_what_was_read_is_written_once_and_the_next_writer_goes_on_behind_it(
    table: AuditTable, positions: Positions
) -> None:
    first = writer(table)
    assert first.assign([FIRST, CONTROL]) == {FIRST: None, CONTROL: None}
    assert add(first, FIRST, 0, 1, 1, 0, 2) == [True, True, False, False, True]  # not what was read before
    add(first, CONTROL, 5)
    flushed = first.flush(NOW_MS)
    assert (flushed.committed, flushed.moved) == ({FIRST: 2, CONTROL: 5}, {})
    assert flushed.rows == {TOPICS.actions: 3, TOPICS.control: 1}
    assert flushed.unreadable == {TOPICS.control: 1}
    assert add(first, FIRST, 1, 2, 7) == [False, False, True]  # offsets may have gaps
    assert first.flush(NOW_MS).committed == {FIRST: 7}
    assert writer(table).assign([FIRST, CONTROL]) == {FIRST: 7, CONTROL: 5}
    assert positions(table) == [*at(FIRST, 0, 1, 2, 7), *at(CONTROL, 5)]


def test_a_writer_that_meets_others_at_each_try_gives_up_with_the_conflict() -> None:
    table = MemoryAuditTable()
    busy = writer(table, FIRST)
    add(busy, FIRST, 0)

    def conflict(step: Step) -> None:
        if step is Step.COMMIT:
            raise TableConflict("somebody was faster")

    table.at_step = conflict
    with pytest.raises(TableConflict, match="somebody was faster"):
        busy.flush(NOW_MS)
    assert table.rows == []


@pytest.mark.parametrize("moment", ["assign", "flush"])
def test_another_cluster_is_refused(table: AuditTable, moment: str) -> None:
    ours, theirs = marked(table, 1), marked(table, 2)
    ours.assign([FIRST])
    add(ours, FIRST, 0)
    refused: Callable[[], object] = partial(theirs.assign, [FIRST])
    if moment == "flush":
        refused()
        add(theirs, FIRST, 0)
        refused = partial(theirs.flush, NOW_MS)
    ours.flush(NOW_MS)
    with pytest.raises(AnotherLog, match="audit#cluster: expected 1"):
        refused()


WARM, MEASURED, ROWS = 4, 10, 40


def test_python_keeps_nothing_of_a_commit(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    make_keys(audit.key)
    sink = audit.writer(FIRST, sign_every=ROWS)
    held = []
    tracemalloc.start()
    try:
        for done in range(1, WARM + MEASURED + 1):
            add(sink, FIRST, *range(done * ROWS, (done + 1) * ROWS))
            sink.flush(NOW_MS)
            if done in {WARM, WARM + MEASURED}:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    before, after = held
    # One kept row would be some 3 kB for each of the 400.
    assert after - before < 100_000
