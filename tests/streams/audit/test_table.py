"""What the sink asks of a table holds for each one that we ship."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from arro3.core import Array, DataType, Field, Schema
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from haltline.streams.audit.columns import COLUMNS, SCHEMA, Row, to_arrow
from haltline.streams.audit.memory import MemoryAuditTable, Step
from haltline.streams.audit.query import open_query
from haltline.streams.audit.reading import Reader
from haltline.streams.audit.table import AuditTable, DeltaAuditTable, TableConflict
from haltline.streams.audit.writer import AuditWriter, Place
from tests.streams.audit.records import NOW_MS, TOPICS, event, one_of_each, record

Positions = Callable[[AuditTable], list[tuple[str, int, int]]]
READER = Reader(TOPICS, "audit")


def row(offset: int, topic: str = TOPICS.actions) -> dict[str, object]:
    return READER.row(record(topic, event().to_json(), offset), NOW_MS)


def test_a_new_table_knows_no_version_and_holds_nothing(table: AuditTable, positions: Positions) -> None:
    assert table.open().version("a") is None
    assert positions(table) == []


def test_rows_and_versions_are_there_together(table: AuditTable, positions: Positions) -> None:
    table.open().append([row(0), row(1)], {"a": 1, "b": 7})
    opened = table.open()
    assert (opened.version("a"), opened.version("b"), opened.version("c")) == (1, 7, None)
    assert positions(table) == [(TOPICS.actions, 0, 0), (TOPICS.actions, 0, 1)]


def test_a_version_that_another_has_committed_since_is_refused_with_its_rows(
    table: AuditTable, positions: Positions
) -> None:
    table.open().append([row(0)], {"a": 0})
    ours, theirs = table.open(), table.open()
    theirs.append([row(1)], {"a": 1})
    with pytest.raises(TableConflict):
        ours.append([row(1), row(2)], {"a": 2, "b": 0})
    assert positions(table) == [(TOPICS.actions, 0, 0), (TOPICS.actions, 0, 1)]
    assert (table.open().version("a"), table.open().version("b")) == (1, None)


def test_the_first_version_is_contested_too(table: AuditTable, positions: Positions) -> None:
    ours, theirs = table.open(), table.open()
    theirs.append([row(0)], {"a": 0})
    with pytest.raises(TableConflict):
        ours.append([row(0)], {"a": 0})
    assert positions(table) == [(TOPICS.actions, 0, 0)]


def test_versions_of_others_do_not_matter(table: AuditTable, positions: Positions) -> None:
    ours, theirs = table.open(), table.open()
    theirs.append([row(0)], {"a": 0})
    ours.append([row(0, TOPICS.control)], {"b": 0})
    assert positions(table) == [(TOPICS.actions, 0, 0), (TOPICS.control, 0, 0)]


def test_of_rows_that_break_off_none_is_written_and_what_broke_them_off_is_raised(
    table: AuditTable, positions: Positions
) -> None:
    def rows() -> Iterator[Row]:
        yield from (row(number) for number in range(5000))  # more than are taken at a time
        raise ZeroDivisionError("of a row")

    with pytest.raises(ZeroDivisionError, match="of a row"):
        table.open().append(rows(), {"a": 1})
    assert positions(table) == []
    assert table.open().version("a") is None


def test_what_was_opened_does_not_change(table: AuditTable) -> None:
    opened = table.open()
    table.open().append([row(0)], {"a": 0})
    assert opened.version("a") is None


def test_of_many_who_append_at_once_each_gets_in_once_or_is_refused(table: AuditTable, positions: Positions) -> None:
    barrier = threading.Barrier(6)
    refused: list[int] = []

    def append(number: int) -> None:
        opened = table.open()
        barrier.wait()
        try:
            opened.append([row(number)], {"a": number})
        except TableConflict:
            refused.append(number)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 5
    (winner,) = {*range(6)} - {*refused}
    assert positions(table) == [(TOPICS.actions, 0, winner)]
    assert table.open().version("a") == winner


def test_a_table_that_four_make_at_the_same_moment_is_one(tmp_path: Path, positions: Positions) -> None:
    barrier = threading.Barrier(4)
    failures: list[BaseException] = []

    def make(number: int) -> None:
        writer = AuditWriter(DeltaAuditTable(tmp_path / "audit"), READER, "audit")
        place = Place(TOPICS.actions, number)
        barrier.wait()
        try:
            writer.assign([place])
            writer.add(record(TOPICS.actions, event().to_json(), 0, partition=number))
            writer.flush(NOW_MS)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert positions(DeltaAuditTable(tmp_path / "audit")) == [(TOPICS.actions, number, 0) for number in range(4)]


@pytest.mark.parametrize(
    ("fails", "there"),
    [
        pytest.param(Step.COMMIT, [], id="before the commit, nothing is written"),
        pytest.param(Step.ANSWER, [(TOPICS.actions, 0, 0)], id="behind the commit, it was made"),
    ],
)
def test_a_commit_in_memory_fails_where_it_is_told_to(
    positions: Positions, fails: Step, there: list[tuple[str, int, int]]
) -> None:
    def fail(step: Step) -> None:
        if step is fails:
            raise OSError("connection reset by peer")

    table = MemoryAuditTable(at_step=fail)
    with pytest.raises(OSError, match="reset by peer"):
        table.open().append([row(0)], {"a": 0})
    assert positions(table) == there
    assert table.open().version("a") == (0 if there else None)


def test_versions_outlive_compaction_checkpoints_and_vacuum(tmp_path: Path) -> None:
    table = DeltaAuditTable(tmp_path)
    for offset in range(5):
        table.open().append([row(offset)], {"a": offset})
    handle = DeltaTable(tmp_path)
    handle.optimize.compact()
    handle.create_checkpoint()
    handle.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    handle.cleanup_metadata()
    assert table.open().version("a") == 4
    assert open_query(tmp_path).rows("SELECT count(*) AS n FROM audit") == [{"n": 5}]


def test_a_writer_is_not_held_up_by_a_compaction(tmp_path: Path) -> None:
    table = DeltaAuditTable(tmp_path)
    for offset in range(3):
        table.open().append([row(offset)], {"a": offset})
    opened = table.open()
    DeltaTable(tmp_path).optimize.compact()
    opened.append([row(3)], {"a": 3})
    assert table.open().version("a") == 3


def test_a_table_of_an_older_release_gets_the_new_columns(tmp_path: Path) -> None:
    older = Schema([field for name in SCHEMA.names if (field := SCHEMA.field(name)).name != "cost_usd"])
    write_deltalake(tmp_path, to_arrow([row(0)]).select([*older.names]), partition_by=["event_date"])
    DeltaAuditTable(tmp_path).open().append([row(1) | {"cost_usd": 0.5}], {"a": 1})
    assert open_query(tmp_path).rows('SELECT "offset", "cost_usd" FROM audit ORDER BY 1') == [
        {"offset": 0, "cost_usd": None},
        {"offset": 1, "cost_usd": 0.5},
    ]


def test_a_table_of_a_newer_release_keeps_its_columns(tmp_path: Path) -> None:
    newer = to_arrow([row(0)]).append_column(
        Field("mood", DataType.string(), nullable=True), Array(["calm"], type=DataType.string())
    )
    write_deltalake(tmp_path, newer, partition_by=["event_date"])
    DeltaAuditTable(tmp_path).open().append([row(1)], {"a": 1})
    assert open_query(tmp_path).rows('SELECT "offset", "mood" FROM audit ORDER BY 1') == [
        {"offset": 0, "mood": "calm"},
        {"offset": 1, "mood": None},
    ]


def test_every_column_is_documented_in_the_table_and_only_positions_and_ids_are_in_its_log(tmp_path: Path) -> None:
    DeltaAuditTable(tmp_path).open().append([READER.row(each, NOW_MS) for each in one_of_each()], {"a": 0})
    fields = DeltaTable(tmp_path).schema().fields
    assert {field.name: field.metadata["comment"] for field in fields} == {
        column.name: column.what for column in COLUMNS
    }
    log = b"".join(entry.read_bytes() for entry in (tmp_path / "_delta_log").glob("*.json"))
    assert b"fact_sales" not in log
    assert b"alice" not in log


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DeltaError, match="file"):
        DeltaAuditTable(tmp_path / "file" / "audit").open()
