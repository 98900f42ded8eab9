"""What the sink asks of a table holds for each one that we ship."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from deltalake.exceptions import DeltaError

from haltline.streams.audit.columns import Row
from haltline.streams.audit.table import AuditTable, DeltaAuditTable, TableConflict
from tests.streams.audit.records import NOW_MS, TOPICS, record
from tests.streams.audit.tables import READER, VALUE

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


def test_rows_and_versions_are_there_together_and_of_rows_that_break_off_none(
    table: AuditTable, positions: Positions
) -> None:
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
