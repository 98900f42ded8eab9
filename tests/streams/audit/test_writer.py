"""Each record once, whatever happens between reading, writing and knowing that it was written."""

import gc
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks.sink_memory import commit_often
from haltline.streams.audit.memory import MemoryAuditTable, Step
from haltline.streams.audit.table import AuditTable, TableConflict
from haltline.streams.audit.writer import AnotherLog, AuditWriter, Place
from tests.streams.audit.records import NOW_MS, TOPICS
from tests.streams.audit.tables import CONTROL, FIRST, add, writer

Positions = Callable[[AuditTable], list[tuple[str, int, int]]]


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
    commits = commit_often(tmp_path, WARM + MEASURED, ROWS)
    held = []
    tracemalloc.start()
    try:
        for done in commits:
            if done in {WARM, WARM + MEASURED}:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    before, after = held
    # One kept row would be some 3 kB for each of the 400; the generator of events keeps a little of its own.
    assert after - before < 100_000
