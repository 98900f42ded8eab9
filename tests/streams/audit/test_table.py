"""What the sink asks of a table holds for each one that we ship."""

import resource
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from haltline.streams.audit.columns import COLUMNS, Row
from haltline.streams.audit.query import open_query
from haltline.streams.audit.table import AuditTable, DeltaAuditTable, TableConflict
from tests.streams.audit.records import NOW_MS, TOPICS, one_of_each, record
from tests.streams.audit.tables import READER, VALUE

Positions = Callable[[AuditTable], list[tuple[str, int, int]]]


def row(offset: int, topic: str = TOPICS.actions) -> dict[str, object]:
    return READER.row(record(topic, VALUE, offset), NOW_MS)


def test_rows_and_versions_are_there_together_and_not_in_what_was_opened_before(
    table: AuditTable, positions: Positions
) -> None:
    before = table.open()
    assert (before.version("a"), positions(table)) == (None, [])
    table.open().append([row(0), row(1)], {"a": 1, "b": 7})
    assert (before.version("a"), before.chain_ends("audit", {(TOPICS.actions, 0): 0})) == (None, {})
    opened = table.open()
    assert (opened.version("a"), opened.version("b"), opened.version("c")) == (1, 7, None)
    assert positions(table) == [(TOPICS.actions, 0, 0), (TOPICS.actions, 0, 1)]


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

    run_at_once([partial(append, number) for number in range(6)])
    assert len(refused) == 5
    (winner,) = {*range(6)} - {*refused}
    assert positions(table) == [(TOPICS.actions, 0, winner)]
    assert table.open().version("a") == winner


def run_at_once(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_versions_outlive_compaction_checkpoints_and_vacuum(tmp_path: Path) -> None:
    table = DeltaAuditTable(tmp_path)
    for offset in range(5):
        table.open().append([row(offset)], {"a": offset})
    opened, handle = table.open(), DeltaTable(tmp_path)
    handle.optimize.compact()
    opened.append([row(5)], {"a": 5})  # nor is a writer held up
    handle.update_incremental()
    handle.create_checkpoint()
    handle.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    handle.cleanup_metadata()
    assert table.open().version("a") == 5
    assert open_query(tmp_path).rows("SELECT count(*) AS n FROM audit") == [{"n": 6}]


def test_every_column_is_documented_in_the_table_and_only_positions_and_ids_are_in_its_log(tmp_path: Path) -> None:
    DeltaAuditTable(tmp_path).open().append([READER.row(each, NOW_MS) for each in one_of_each()], {"a": 0})
    fields = DeltaTable(tmp_path).schema().fields
    assert {field.name: field.metadata["comment"] for field in fields} == {
        column.name: column.what for column in COLUMNS
    }
    log = b"".join(entry.read_bytes() for entry in (tmp_path / "_delta_log").glob("*.json"))
    assert b"fact_sales" not in log
    assert b"alice" not in log


def test_a_disk_that_is_full_is_an_error_and_leaves_the_table_as_it_was(tmp_path: Path, positions: Positions) -> None:
    table = DeltaAuditTable(tmp_path)
    table.open().append([row(0)], {"a": 0})
    large = READER.row(record(TOPICS.dead_letter, Random(1).randbytes(500_000)), NOW_MS)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))  # a larger file fails as on a full disk
    try:
        with pytest.raises((OSError, DeltaError), match="File too large"):
            table.open().append([large], {"a": 1})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (positions(table), table.open().version("a")) == ([(TOPICS.actions, 0, 0)], 0)
